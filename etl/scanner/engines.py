"""The engines behind the scanner: RE2 for what is beyond it, the package ``regex`` for what is beyond RE2.

RE2 works in linear time. ``regex`` backtracks, one text after the other, and each text has a time limit. RE2's ``.``
matches no byte that is not UTF-8, where the scanner's ``.*`` passes over it; so such texts go to ``regex``, too, with an
expression of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.scanner.tree import Edge, Node, backtracking_reason, captures, walk
from etl.scanner.written import group_name, regex_text


@dataclass(frozen=True, slots=True)
class Answer:
    """What one pattern found in a column: no nulls in ``matched`` and ``timed_out``; captures by name, null where unset."""

    matched: pa.BooleanArray
    captures: dict[str, pa.StringArray]
    timed_out: pa.BooleanArray | None = None


Search = Callable[[pa.StringArray], Answer]


def search(tree: Node, timeout: timedelta) -> Search:
    """Compile a pattern for the first engine that takes it. Raises ValueError where neither does."""
    usual = _linear(tree, regex_text(tree)) if _suits_re2(tree) else _backtracking(tree, timeout)
    raw = cache(lambda: _backtracking(tree, timeout, raw=True))

    def find(texts: pa.StringArray) -> Answer:
        broken = not_utf8(texts)
        if broken is None:
            return usual(texts)
        return _merged(broken, raw()(pc.if_else(broken, texts, None)), usual(pc.if_else(broken, None, texts)))

    return find


def not_utf8(texts: pa.StringArray) -> pa.BooleanArray | None:
    """Which texts (bool[n]) are not well-formed UTF-8; None when all are. Row by row only where Arrow finds some."""
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


def _merged(where: pa.BooleanArray, one: Answer, other: Answer) -> Answer:
    """The answer of ``one`` for the texts where it says so, of ``other`` for the rest."""
    columns = {name: pc.if_else(where, one.captures[name], other.captures[name]) for name in other.captures}
    timed_out = one.timed_out if other.timed_out is None else pc.if_else(where, one.timed_out, other.timed_out)
    return Answer(pc.if_else(where, one.matched, other.matched), columns, timed_out)


def prove(tree: Node) -> None:
    """Raise ValueError, with the engine's words, where no engine takes the pattern. Does not load ``regex`` needlessly."""
    if not _suits_re2(tree):
        _compiled(tree)


def _suits_re2(tree: Node) -> bool:
    """Whether RE2 has a form of the pattern, and one that is not larger than it allows."""
    if backtracking_reason(tree) is not None:
        return False
    if Edge("\\B") in walk(tree):
        return False  # RE2 finds it inside characters, too
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), regex_text(tree))
    except pa.ArrowInvalid:
        return False
    return True


# ── RE2 ───────────────────────────────────────────────────────────────────────────────────────────


def _linear(tree: Node, expression: str) -> Search:
    names = [capture.field for capture in captures(tree)]
    if not names:
        return lambda texts: Answer(pc.fill_null(pc.match_substring_regex(texts, expression), False), {})

    def find(texts: pa.StringArray) -> Answer:
        found = pc.extract_regex(texts, expression)
        matched = found.is_valid()
        return Answer(matched, _by_name(names, [_unless_empty(found.field(n), matched) for n in range(len(names))]))

    return find


def _unless_empty(texts: pa.StringArray, matched: pa.BooleanArray) -> pa.StringArray:
    """An empty capture as null: RE2 does not tell it from one that took no part."""
    present = pc.and_(pc.fill_null(pc.greater(pc.binary_length(texts), 0), False), matched)
    return texts if present.false_count == 0 else pc.if_else(present, texts, pa.scalar(None, pa.string()))


def _by_name(names: list[str], found: list[pa.StringArray]) -> dict[str, pa.StringArray]:
    """Of captures of one name, the first that is there."""
    gathered: dict[str, list[pa.StringArray]] = {}
    for name, texts in zip(names, found, strict=True):
        gathered.setdefault(name, []).append(texts)
    return {name: texts[0] if len(texts) == 1 else pc.coalesce(*texts) for name, texts in gathered.items()}


# ── The package regex ─────────────────────────────────────────────────────────────────────────────


def _compiled(tree: Node, *, raw: bool = False) -> Any:
    import regex

    try:
        return regex.compile(regex_text(tree, backtracking=True, raw=raw), regex.VERSION1)
    except regex.error as error:
        raise ValueError(str(error)) from None


def escaped_texts(texts: pa.StringArray) -> Iterator[str | None]:
    """Texts with what is no UTF-8 kept, byte by byte (PEP 383)."""
    for raw in texts.cast(pa.large_binary()).to_pylist():
        yield None if raw is None else raw.decode("utf-8", "surrogateescape")


def unescaped(texts: Iterable[str | None]) -> pa.StringArray:
    """The way back."""
    raw = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
    return pa.array(raw, pa.binary()).view(pa.string())


def _backtracking(tree: Node, timeout: timedelta, *, raw: bool = False) -> Search:
    compiled, seconds = _compiled(tree, raw=raw), timeout.total_seconds()
    names = [capture.field for capture in captures(tree)]
    groups = [group_name(n) for n in range(len(names))]

    def one(text: str | None) -> tuple[Any, ...] | bool | None:
        """Captured texts, None for no match, False for a time-out."""
        try:
            found = None if text is None else compiled.search(text, timeout=seconds)
        except TimeoutError:
            return False
        return found.group(0, *groups)[1:] if found and groups else (() if found else None)

    def find(texts: pa.StringArray) -> Answer:
        """A loop over texts, for no engine here runs such a pattern over a column."""
        rows = [one(text) for text in escaped_texts(texts)]
        found = [unescaped((row[n] or None) if isinstance(row, tuple) else None for row in rows) for n in range(len(groups))]
        matched = pa.array([isinstance(row, tuple) for row in rows], pa.bool_())
        return Answer(matched, _by_name(names, found), pa.array([row is False for row in rows], pa.bool_()))

    return find
