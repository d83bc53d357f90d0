"""LIKE patterns: parses them, and chooses the cheapest kernel for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from etl.expressions.patterns.searches import Kernel, matches
from etl.expressions.rows import ActiveRows
from etl.scanner.char_class import ANY, one_of
from etl.scanner.tree import Anchor, Chars, Node, Repeat, sequence

ANY_TEXT, ONE = object(), object()
"""The wildcards ``%`` and ``_``."""

_SIMPLE: dict[str, Callable[[str, Any], Any]] = {
    "": lambda inner, text: pc.equal(text, ""),
    "x": lambda inner, text: pc.equal(text, inner),
    "x%": lambda inner, text: pc.starts_with(text, inner),
    "%x": lambda inner, text: pc.ends_with(text, inner),
}


def like(pattern: str, escape: str) -> Kernel:
    """The kernel of a pattern. Raises ValueError for an escape character that escapes nothing."""
    parts = parse_like(pattern, escape)
    simple = _SIMPLE.get("".join("%" if part is ANY_TEXT else "_" if part is ONE else "x" for part in parts))
    if simple is None:
        return matches(like_tree(parts))
    inner = "".join(part for part in parts if isinstance(part, str))

    def run(rows: ActiveRows, text: Any) -> Any:
        return simple(inner, text)

    return run


def contains(part: str) -> Kernel:
    """A kernel: whether a text contains ``part``."""
    return matches(literal(part))


def literal(text: str) -> Node:
    """A pattern that matches the text itself."""
    return sequence([Chars(one_of(char)) for char in text])


def like_tree(parts: list[object]) -> Node:
    """The parts of `parse_like` as a pattern that matches the whole text."""
    inner = [literal(part) if isinstance(part, str) else _WILD[part] for part in parts]
    return sequence([Anchor("\\A"), *inner] if parts[-1] is ANY_TEXT else [Anchor("\\A"), *inner, Anchor("\\z")])


_WILD: dict[object, Node] = {ANY_TEXT: Repeat(Chars(ANY), 0, None), ONE: Chars(ANY)}


def parse_like(pattern: str, escape: str) -> list[object]:
    """Split a pattern into texts and wildcards. Raises ValueError for an escape character that escapes nothing."""
    parts: list[object] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            if at == len(pattern) or pattern[at] not in ("_", "%", escape):
                raise ValueError(f"the escape character {escape!r} stands before neither '_', '%' nor itself")
            _add_text(parts, pattern[at])
            at += 1
        elif char in "%_":
            parts.append(ANY_TEXT if char == "%" else ONE)
        else:
            _add_text(parts, char)
    return parts


def _add_text(parts: list[object], char: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += char
    else:
        parts.append(char)
