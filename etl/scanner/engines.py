"""The fallback engines: RE2 for what automata do not support, the package ``regex`` for what RE2 does not support.

RE2 works in linear time. ``regex`` backtracks, one text after the other, and each text has a time limit. RE2's ``.``
does not match bytes that are not UTF-8, which the scanner's ``.*`` passes over; so texts with such bytes go to ``regex``
as well, with an expression written for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.scanner.regex_printer import format_regex, group_name
from etl.scanner.tree import Anchor, Node, backtracking_reason, captures, walk


@dataclass(frozen=True, slots=True)
class EngineResult:
    """Matches of one pattern in a column: no nulls in ``matched`` and ``timed_out``; captures by name, null where not set."""

    matched: pa.BooleanArray
    captures: dict[str, pa.StringArray]
    timed_out: pa.BooleanArray | None = None


Search = Callable[[pa.StringArray], EngineResult]


def compile_search(tree: Node, timeout: timedelta) -> Search:
    """Compile a pattern for the first engine that supports it. Raises ValueError if neither does."""
    usual = _compile_linear(tree, format_regex(tree)) if _suits_re2(tree) else _compile_backtracking(tree, timeout)
    raw = cache(lambda: _compile_backtracking(tree, timeout, raw=True))

    def find(texts: pa.StringArray) -> EngineResult:
        broken = find_invalid_utf8(texts)
        if broken is None:
            return usual(texts)
        return _merge(broken, raw()(pc.if_else(broken, texts, None)), usual(pc.if_else(broken, None, texts)))

    return find


def find_invalid_utf8(texts: pa.StringArray) -> pa.BooleanArray | None:
    """bool[n]: the texts that are not well-formed UTF-8; None if all are. Loops over rows only when Arrow finds such a text."""
    raw = texts.cast(pa.large_binary())
    try:
        raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([row is not None and not _is_utf8(row) for row in raw.to_pylist()], pa.bool_())
    return None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _merge(where: pa.BooleanArray, one: EngineResult, other: EngineResult) -> EngineResult:
    """The result of ``one`` where ``where`` is true, of ``other`` elsewhere."""
    columns = {name: pc.if_else(where, one.captures[name], other.captures[name]) for name in other.captures}
    timed_out = one.timed_out if other.timed_out is None else pc.if_else(where, one.timed_out, other.timed_out)
    return EngineResult(pc.if_else(where, one.matched, other.matched), columns, timed_out)


def check_compiles(tree: Node) -> None:
    """Raise ValueError with the engine's message if no engine supports the pattern. Imports ``regex`` only when needed."""
    if not _suits_re2(tree):
        _compile(tree)


def _suits_re2(tree: Node) -> bool:
    """Whether RE2 supports the pattern, and its form is within RE2's size limit."""
    if backtracking_reason(tree) is not None:
        return False
    if Anchor("\\B") in walk(tree):
        return False  # RE2 also finds it between the bytes of a character
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), format_regex(tree))
    except pa.ArrowInvalid:
        return False
    return True


# ── RE2 ───────────────────────────────────────────────────────────────────────────────────────────


def _compile_linear(tree: Node, expression: str) -> Search:
    names = [capture.field for capture in captures(tree)]
    if not names:
        return lambda texts: EngineResult(pc.fill_null(pc.match_substring_regex(texts, expression), False), {})

    def find(texts: pa.StringArray) -> EngineResult:
        found = pc.extract_regex(texts, expression)
        matched = found.is_valid()
        return EngineResult(matched, _by_name(names, [_unless_empty(found.field(n), matched) for n in range(len(names))]))

    return find


def _unless_empty(texts: pa.StringArray, matched: pa.BooleanArray) -> pa.StringArray:
    """Replace empty captures by null: RE2 does not distinguish them from captures that took no part."""
    present = pc.and_(pc.fill_null(pc.greater(pc.binary_length(texts), 0), False), matched)
    return texts if present.false_count == 0 else pc.if_else(present, texts, pa.scalar(None, pa.string()))


def _by_name(names: list[str], found: list[pa.StringArray]) -> dict[str, pa.StringArray]:
    """Merge captures of one name: the first that took part."""
    gathered: dict[str, list[pa.StringArray]] = {}
    for name, texts in zip(names, found, strict=True):
        gathered.setdefault(name, []).append(texts)
    return {name: texts[0] if len(texts) == 1 else pc.coalesce(*texts) for name, texts in gathered.items()}


# ── The package regex ─────────────────────────────────────────────────────────────────────────────


def _compile(tree: Node, *, raw: bool = False) -> Any:
    import regex

    try:
        return regex.compile(format_regex(tree, backtracking=True, raw=raw), regex.VERSION1)
    except regex.error as error:
        raise ValueError(str(error)) from None


def decode_texts(texts: pa.StringArray) -> Iterator[str | None]:
    """Decode texts; bytes that are not UTF-8 become surrogates (PEP 383)."""
    for raw in texts.cast(pa.large_binary()).to_pylist():
        yield None if raw is None else raw.decode("utf-8", "surrogateescape")


def encode_texts(texts: Iterable[str | None]) -> pa.StringArray:
    """The inverse of `decode_texts`."""
    raw = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
    return pa.array(raw, pa.binary()).view(pa.string())


def _compile_backtracking(tree: Node, timeout: timedelta, *, raw: bool = False) -> Search:
    compiled, seconds = _compile(tree, raw=raw), timeout.total_seconds()
    names = [capture.field for capture in captures(tree)]
    groups = [group_name(n) for n in range(len(names))]

    def one(text: str | None) -> tuple[Any, ...] | bool | None:
        """Captured texts, None for no match, False for a time-out."""
        try:
            found = None if text is None else compiled.search(text, timeout=seconds)
        except TimeoutError:
            return False
        return found.group(0, *groups)[1:] if found and groups else (() if found else None)

    def find(texts: pa.StringArray) -> EngineResult:
        """Loops over texts, because ``regex`` takes one text at a time."""
        rows = [one(text) for text in decode_texts(texts)]
        found = [encode_texts((row[n] or None) if isinstance(row, tuple) else None for row in rows) for n in range(len(groups))]
        matched = pa.array([isinstance(row, tuple) for row in rows], pa.bool_())
        return EngineResult(matched, _by_name(names, found), pa.array([row is False for row in rows], pa.bool_()))

    return find


def compile_locate(tree: Node, timeout: timedelta) -> Callable[[str], list[tuple[str, int, int]] | None]:
    """Compile a pattern to a function that says where in a text each capture is: field, start, end; None without a match.

    For a few texts that are shown to a person: one text takes as long as a whole batch on the other engines.
    """
    compiled, seconds = _compile(tree), timeout.total_seconds()
    names = [(capture.field, group_name(number)) for number, capture in enumerate(captures(tree))]

    def locate(text: str) -> list[tuple[str, int, int]] | None:
        try:
            found = compiled.search(text, timeout=seconds)
        except TimeoutError:
            return None
        if found is None:
            return None
        spans = ((field, *found.span(group)) for field, group in names)
        return sorted((span for span in spans if span[2] > span[1]), key=lambda span: (span[1], -span[2]))

    return locate
