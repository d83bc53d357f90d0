"""Static analysis of syntax trees: FIRST sets, look-around of one byte, size, and constructs that automata do not support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from etl.scanner import masks
from etl.scanner.tree import (
    Anchor,
    Atomic,
    Backreference,
    Capture,
    Chars,
    Choice,
    Group,
    LookAround,
    Node,
    Repeat,
    Sequence,
    captures,
    children,
    walk,
)
from etl.scanner.utf8 import has_all_wide, has_wide

_LINE_EDGE = masks.EDGE | masks.NEWLINE
ANCHORS: Mapping[str, list[tuple[int, int]]] = {
    "^": [(_LINE_EDGE, masks.ANY)],
    "$": [(masks.ANY, _LINE_EDGE)],
    "\\A": [(masks.EDGE, masks.ANY)],
    "\\z": [(masks.ANY, masks.EDGE)],
    "\\b": [(masks.WORD_BYTES, masks.NON_WORD), (masks.NON_WORD, masks.WORD_BYTES)],
    "\\B": [(masks.WORD_BYTES, masks.WORD_BYTES), (masks.NON_WORD, masks.NON_WORD)],
}
"""The bytes that may precede and follow an assertion: it holds if one of the pairs does."""


def first_bytes(node: Node) -> tuple[int, bool]:
    """The node's FIRST set, as a mask of bytes, and whether the node can match the empty text."""
    if isinstance(node, Chars):
        return node.of.ascii | (masks.NON_ASCII if has_wide(node.of) else 0), False
    if isinstance(node, Sequence):
        return _first_of_sequence(node)
    if isinstance(node, Choice):
        firsts = [first_bytes(part) for part in node.parts]
        return _union(mask for mask, _ in firsts), any(empty for _, empty in firsts)
    if isinstance(node, Repeat):
        mask, empty = first_bytes(node.part)
        return mask, empty or node.minimum == 0
    if isinstance(node, Capture | Group | Atomic):
        return first_bytes(node.part)
    return 0, True


def _first_of_sequence(node: Sequence) -> tuple[int, bool]:
    found = 0
    for part in node.parts:
        mask, empty = first_bytes(part)
        found |= mask
        if not empty:
            return found, False
    return found, True


def _union(found: Iterator[int]) -> int:
    union = 0
    for mask in found:
        union |= mask
    return union


def one_byte(node: Node, *, ahead: bool) -> int | None:
    """The mask of neighbouring bytes (or the text's edge) that a look-around requires; None if it looks at more than one."""
    if isinstance(node, Sequence) and len(node.parts) == 1:
        return one_byte(node.parts[0], ahead=ahead)
    if isinstance(node, Group):
        return one_byte(node.part, ahead=ahead)
    if isinstance(node, Chars):
        if has_wide(node.of) and not has_all_wide(node.of):
            return None
        return node.of.ascii | (masks.NON_ASCII if has_wide(node.of) else 0)
    if isinstance(node, Choice):
        found = [one_byte(part, ahead=ahead) for part in node.parts]
        return None if None in found else _union(mask for mask in found if mask is not None)
    if isinstance(node, Anchor) and len(sides := ANCHORS[node.kind]) == 1:
        behind, beyond = sides[0]
        mine, other = (beyond, behind) if ahead else (behind, beyond)
        return mine if other == masks.ANY else None
    return None


def is_always_found(node: LookAround) -> bool:
    """Whether the part of a look-around matches everywhere, as in ``(?=.*)``."""
    return isinstance(node.part, Repeat) and node.part.minimum == 0 and not captures(node)


def is_poisoned(tree: Node) -> bool:
    """Whether the tree has a look-around that, in some texts, only another engine can decide."""
    looks = [node for node in walk(tree) if type(node) is LookAround and not is_always_found(node)]
    return any(one_byte(node.part, ahead=node.ahead) is None for node in looks)


OF_PROPERTY = 300
"""Estimated number of instructions for a property such as ``\\p{L}``; its characters are not looked up."""


def estimate_size(node: Node) -> int:
    """Estimated number of instructions for a node."""
    if isinstance(node, Chars):
        return 1 + sum(OF_PROPERTY if text.startswith("\\p") else 8 for text in node.of.wide)
    if isinstance(node, Repeat):
        return (max(node.minimum, node.maximum or 0) + 1) * (estimate_size(node.part) + 1)
    return 1 + sum(map(estimate_size, children(node)))


def unsupported_construct(tree: Node) -> str | None:
    """A construct of the tree that automata do not support, or None. Cheap: visits the nodes only."""
    for node in walk(tree):
        kind = type(node)
        if kind is Backreference:
            return "a back-reference"
        if not isinstance(node, LookAround) or is_always_found(node) or one_byte(node.part, ahead=node.ahead) is not None:
            continue
        if not node.ahead:
            return "a look-behind of more than one character"
        if not node.negative:
            return "a look-ahead of more than one character"
        if first_bytes(node.part)[1]:
            return "a negative look-ahead that may be empty"
    return None
