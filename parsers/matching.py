"""Running a compiled pattern over a column of texts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsers.regex_engine import Program
from parsers.regex_text import group_name


class Matches(NamedTuple):
    """``matched`` has no nulls. ``captured``: one string array a capture, null where it took no part or is empty."""

    matched: pa.BooleanArray
    captured: list[pa.StringArray]
    timed_out: pa.BooleanArray | None = None


Match = Callable[[pa.StringArray], Matches]


def matcher(program: Program, timeout: timedelta) -> Match:
    """Compile once a task: at the text's beginning first; what is left is searched, linear or by backtracking."""
    search = _backtracking(program, timeout) if program.slow_reason else _linear(program)
    names = [group_name(n) for n in range(len(program.captures))]

    def match(text: pa.StringArray) -> Matches:
        found = _run(text, program.fast, names)
        exceeded = _exceeded(text, found, program)
        again = pc.invert(found.matched)
        if program.at_line_start and again.true_count:
            again = pc.and_(again, pc.fill_null(pc.match_substring(text, "\n"), False))
        again = again if exceeded is None else pc.or_(again, exceeded)
        return combined(found, search(text.filter(again)), again) if again.true_count else found

    return match if program.fast else search


def prove(program: Program) -> None:
    """Compile the expressions in their engines. Raises ValueError with the engine's words."""
    if program.slow_reason:
        import regex

        try:
            regex.compile(program.exact, regex.VERSION1 | regex.ASCII)
        except regex.error as error:
            raise ValueError(str(error)) from None
    else:
        nothing = pa.nulls(0, pa.string())
        pc.match_substring_regex(nothing, program.exact)


# ── RE2 ───────────────────────────────────────────────────────────────────────────────────────────


def _linear(program: Program) -> Match:
    many = len(program.captures)
    names = [group_name(n) for n in range(many * program.copies)]

    def match(text: pa.StringArray) -> Matches:
        matched, columns, _ = _run(text, [program.exact], names)
        copies = [columns[n::many] for n in range(many)]
        return Matches(matched, [pc.coalesce(*mine) if len(mine) > 1 else mine[0] for mine in copies])

    return match


def _run(text: pa.StringArray, expressions: list[str], names: list[str]) -> Matches:
    if not names:
        return Matches(pc.fill_null(pc.match_substring_regex(text, expressions[0]), False), [])
    structs = [pc.extract_regex(text, expression) for expression in expressions]
    matched = structs[0].is_valid()
    columns = [_filled(struct, n, matched) for struct in structs for n in range(struct.type.num_fields)]
    return Matches(matched, columns)


def _filled(struct: pa.StructArray, n: int, matched: pa.BooleanArray) -> pa.StringArray:
    """A member of the struct with an empty capture as null; its text is not copied."""
    column = struct.field(n)
    present = pc.greater(pc.binary_length(column), 0)
    present = pc.and_(pc.fill_null(present, False), matched)
    if present.false_count == 0 or column.offset or present.offset:
        return column if present.false_count == 0 else pc.if_else(present, column, None)
    _, offsets, data = column.buffers()
    return pa.StringArray.from_buffers(len(column), offsets, data, present.buffers()[1])


def _exceeded(text: pa.StringArray, found: Matches, program: Program) -> pa.BooleanArray | None:
    """Rows whose match may rest on a count that `Program.fast` does not keep, or None."""
    exceeded = None
    for limit in program.limits:
        if limit.within is None:
            beyond = pc.match_substring_regex(text, limit.longer)
        else:
            beyond = pc.greater(pc.binary_length(found.captured[limit.within]), limit.most)
        beyond = pc.and_(pc.fill_null(beyond, False), found.matched)
        if beyond.true_count:
            exceeded = beyond if exceeded is None else pc.or_(exceeded, beyond)
    for span in program.spans:
        wrong = pc.invert(pc.fill_null(pc.match_substring_regex(found.captured[span.number], span.check), True))
        if wrong.true_count:
            exceeded = wrong if exceeded is None else pc.or_(exceeded, wrong)
    return exceeded


def combined(first: Matches, second: Matches, rows: pa.BooleanArray) -> Matches:
    """``second``, which is the answer for ``rows``, laid over ``first``."""
    timed_out = second.timed_out
    if timed_out is not None:
        timed_out = pc.replace_with_mask(pc.and_(rows, False), rows, timed_out)
    matched = pc.replace_with_mask(first.matched, rows, second.matched)
    columns = [pc.replace_with_mask(mine, rows, theirs) for mine, theirs in zip(first.captured, second.captured, strict=True)]
    return Matches(matched, columns, timed_out)


# ── The package regex ─────────────────────────────────────────────────────────────────────────────


def _backtracking(program: Program, timeout: timedelta) -> Match:
    import regex

    compiled = regex.compile(program.exact, regex.VERSION1 | regex.ASCII)
    names = [group_name(n) for n in range(len(program.captures))]
    seconds = timeout.total_seconds()

    def groups(text: str | None) -> tuple[Any, ...] | bool | None:
        """Captured texts, None for no match, False for a time-out."""
        if text is None:
            return None
        try:
            found = compiled.search(text, timeout=seconds)
        except TimeoutError:
            return False
        return found.group(0, *names)[1:] if found and names else (() if found else None)

    def match(text: pa.StringArray) -> Matches:
        """A loop over events, for RE2 cannot run this pattern."""
        rows = [groups(value) for value in text.to_pylist()]
        hits = [isinstance(row, tuple) for row in rows]
        columns = [
            pa.array([(row[n] or None) if isinstance(row, tuple) else None for row in rows], pa.string())
            for n in range(len(names))
        ]
        return Matches(pa.array(hits, pa.bool_()), columns, pa.array([row is False for row in rows], pa.bool_()))

    return match
