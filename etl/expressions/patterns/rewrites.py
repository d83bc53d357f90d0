"""Rewrites the end of a pattern into a form that automata support, with the same matches.

At the end of a pattern, a look-ahead can be replaced by its part, if captures end before it: so ``$`` and ``(?=\\s|$)``, which
look more than one character ahead, become plain parts. A part at the end that is not captured and may be empty is removed:
``error.*`` finds what ``error`` finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from etl.scanner.tree import EMPTY, Atomic, Capture, Choice, Group, LookAround, Node, Repeat, Sequence, captures, sequence


def with_capture(node: Node, number: int, field: str) -> Node:
    """Turn the group of this number, 0 for the whole pattern, into a capture."""
    if number == 0:
        return Capture(node, field)
    if isinstance(node, Group):
        inside = with_capture(node.part, number, field)
        return Capture(inside, field) if node.number == number else replace(node, part=inside)
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=tuple([with_capture(part, number, field) for part in node.parts]))
    if isinstance(node, Repeat | LookAround | Atomic | Capture):
        return replace(node, part=with_capture(node.part, number, field))
    return node


def make_lazy(node: Node) -> Node:
    """Make greedy loops lazy, which changes the match but not whether there is one; a scan then ends earlier."""
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=tuple([make_lazy(part) for part in node.parts]))
    if isinstance(node, Repeat) and node.kind == "greedy":
        return replace(node, part=make_lazy(node.part), kind="lazy")
    return replace(node, part=make_lazy(node.part)) if isinstance(node, Group) else node


def simplify_end(node: Node) -> Node:
    """Simplify a node at the end of the pattern."""
    if isinstance(node, Sequence):
        return _sequence_at_end(node)
    if isinstance(node, Choice):
        return Choice(tuple([simplify_end(part) for part in node.parts]))
    if isinstance(node, Repeat):
        return _repeat_at_end(node)
    if isinstance(node, Capture):
        return _captured_at_end(node)
    if isinstance(node, Group | Atomic):
        return simplify_end(node.part)
    return simplify_end(node.part) if _looks_ahead(node) else node


def _repeat_at_end(node: Repeat) -> Node:
    """Only the required iterations remain."""
    if captures(node):
        return node
    return EMPTY if node.minimum == 0 else simplify_end(node.part) if node.minimum == 1 else replace(node, maximum=node.minimum)


def _sequence_at_end(node: Sequence) -> Node:
    parts = list(node.parts)
    while parts:
        last = simplify_end(parts.pop())
        if last != EMPTY:
            return sequence([*parts, last])
    return EMPTY


def _captured_at_end(node: Capture) -> Node:
    """Move a look-ahead at the end of a capture out of it."""
    part = node.part
    while isinstance(part, Group | Atomic):
        part = part.part
    if isinstance(part, Choice):
        return Choice(tuple([_captured_at_end(replace(node, part=way)) for way in part.parts]))
    if isinstance(part, Sequence) and part.parts and _looks_ahead(part.parts[-1]):
        *before, look = part.parts
        return sequence([replace(node, part=sequence(before)), simplify_end(look)])
    return sequence([replace(node, part=EMPTY), simplify_end(part)]) if _looks_ahead(part) else replace(node, part=part)


def _looks_ahead(node: Node) -> TypeGuard[LookAround]:
    return isinstance(node, LookAround) and node.ahead and not node.negative
