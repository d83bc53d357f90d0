"""What `grok` and `regex` share: patterns tried in order, each on the rows that the earlier ones left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import Duration, Finding, Outcome, Parsed, Parser, Rejects, Schema, format_duration
from parsers.captures import conflicts, gathering, merged_types
from parsers.matching import Matches, matcher, prove
from parsers.pattern_error import PatternError
from parsers.regex_engine import Program

TIMED_OUT = "took longer than"
"""How the reason of an event begins that ran out of time."""


class PatternParser(Parser):
    """Patterns on a column. A subclass says how its patterns are read (`programs`)."""

    patterns: list[str] = Field(
        description="Patterns, tried in order: the first that matches gives the fields.",
        min_length=1,
        examples=[["%{IP:source.ip}"]],
    )
    anchored: bool = Field(default=False, description="Whether a pattern must match the whole text, not a part of it.")
    timeout: Duration = Field(
        default=timedelta(milliseconds=100),
        description="Longest time that a pattern which needs backtracking may take for one event.",
    )

    def programs(self) -> Iterator[Program | PatternError]:
        """Each pattern compiled, or what is wrong with it, in order."""
        raise NotImplementedError

    def parsed(self) -> Schema:
        """The captured fields: text, or int64 and float64 where the pattern says so; arrays where names repeat."""
        return pa.schema(list(_types(self._good())))

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The parser's own findings, bad and slow patterns, and fields that get in each other's way."""
        yield from super().check(incoming)
        seen: dict[str, pa.DataType] = {}
        for n, program in enumerate(self.programs()):
            if isinstance(program, PatternError):
                yield Finding(program.code, program.message, ("patterns", n), program.hint, at=program.at)
            else:
                yield from _findings(program, n, seen)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Patterns in order over the whole column."""
        good = self._good()
        types = dict(_types(good))
        steps = [(matcher(program, self.timeout), gathering(program.tree, types)) for program in good]
        late = f"{TIMED_OUT} {format_duration(self.timeout)}"

        def parse(text: pa.Array) -> Parsed:
            text = text.cast(pa.string()) if text.type != pa.string() else text
            found = [(text, *_apply(step, text)) for step in steps[:1]]
            matched, columns, timed_out = found[0][1], found[0][2], found[0][3]
            for step in steps[1:]:
                if not (left := pc.invert(matched)).true_count:
                    break
                more, fields, slow = _apply(step, text.filter(left))
                columns = _laid(columns, fields, left, types, len(text))
                matched = pc.replace_with_mask(matched, left, more)
                if slow is not None:
                    slow = pc.replace_with_mask(pa.array([False] * len(text), pa.bool_()), left, slow)
                    timed_out = slow if timed_out is None else pc.or_(timed_out, slow)
            columns = {field: columns.get(field, pa.nulls(len(text), type_)) for field, type_ in types.items()}
            reasons = "does not match" if timed_out is None else pc.if_else(timed_out, late, "does not match")
            return Parsed(columns, pc.invert(matched), reasons)

        return parse

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """As every parser; events that ran out of time have a code of their own."""
        run = super().open(incoming)

        def split(batch: pa.RecordBatch) -> Outcome:
            events, rejects = run(batch)
            return Outcome(events, [part for reject in rejects for part in self._by_code(reject)])

        return split

    def _by_code(self, reject: Rejects) -> Iterator[Rejects]:
        if isinstance(reject.reasons, str):
            yield reject
            return
        late = pc.starts_with(reject.reasons, TIMED_OUT)
        for code, rows in ((f"{self.type}-timeout", late), (reject.code, pc.invert(late))):
            if rows.true_count:
                yield Rejects(reject.events.filter(rows), code, reject.reasons.filter(rows))

    def _good(self) -> list[Program]:
        return [program for program in self.programs() if isinstance(program, Program)]


def _types(programs: list[Program]) -> Iterable[tuple[str, pa.DataType]]:
    return merged_types([program.types for program in programs]).items()


def _apply(
    step: tuple[Callable[..., Matches], Callable[..., dict[str, pa.Array]]], text: pa.Array
) -> tuple[pa.BooleanArray, dict[str, pa.Array], pa.BooleanArray | None]:
    match, gather = step
    found = match(text)
    return found.matched, gather(found.captured), found.timed_out


def _laid(
    columns: Mapping[str, pa.Array],
    more: Mapping[str, pa.Array],
    rows: pa.BooleanArray,
    types: Mapping[str, pa.DataType],
    size: int,
) -> dict[str, pa.Array]:
    """``more``, which belongs to ``rows``, laid over ``columns``."""
    laid = dict(columns)
    for field, values in more.items():
        base = columns.get(field, pa.nulls(size, types[field]))
        laid[field] = _replaced(base, rows, values)
    return laid


def _replaced(base: pa.Array, rows: pa.BooleanArray, values: pa.Array) -> pa.Array:
    if not pa.types.is_nested(base.type):
        return pc.replace_with_mask(base, rows, values)
    import numpy as np

    mask = rows.to_numpy(zero_copy_only=False)
    take = np.arange(len(base))
    take[mask] = np.arange(len(base), len(base) + len(values))
    return pa.concat_arrays([base, values]).take(pa.array(take))


def _findings(program: Program, n: int, seen: dict[str, pa.DataType]) -> Iterator[Finding]:
    path = ("patterns", n)
    try:
        prove(program)
    except ValueError as error:
        yield Finding("bad-pattern", f"the pattern does not compile: {error}", path)
    if program.slow_reason:
        yield Finding(
            "slow-pattern",
            f"the pattern needs a {program.slow_reason}, so it runs event by event and many times slower",
            path,
            "write it without, if its meaning allows",
            severity="warning",
        )
    for message in conflicts(program.tree):
        yield Finding("field-conflict", message, path, "capture it with one type, or under two names")
    types = program.types
    for field, type_ in types.items():
        before = seen.setdefault(field, type_)
        if before != type_ and not (pa.types.is_list(before) or pa.types.is_list(type_)):
            yield Finding("field-conflict", f"field {field!r} is {type_} here and {before} in an earlier pattern", path)
    for field in types:
        inner = next((other for other in seen if other.startswith(f"{field}.")), None)
        if inner:
            yield Finding("field-conflict", f"field {field!r} is a value, and {inner!r} needs it to be a struct", path)
