"""What stands at the end of a pattern, made easy for the scanner without changing what is found.

Where nothing follows, a look-ahead may as well read what it looks for, if a capture around it ends in front: so ``$``
and ``(?=\\s|$)``, which look more than one character ahead, become plain parts. And what is not captured and may be
empty is not worth reading: ``error.*`` finds what ``error`` finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from etl.scanner.tree import EMPTY, Atomic, Capture, Choice, Group, Look, Node, Repeat, Sequence, captures, sequence


def captured(node: Node, number: int, field: str) -> Node:
    """The group of this number, 0 for all, as a capture."""
    if number == 0:
        return Capture(node, field)
    if isinstance(node, Group):
        inside = captured(node.part, number, field)
        return Capture(inside, field) if node.number == number else replace(node, part=inside)
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=tuple([captured(part, number, field) for part in node.parts]))
    if isinstance(node, Repeat | Look | Atomic | Capture):
        return replace(node, part=captured(node.part, number, field))
    return node


def hasty(node: Node) -> Node:
    """With lazy loops where that changes only which match is found: a scan may then stop at the first."""
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=tuple([hasty(part) for part in node.parts]))
    if isinstance(node, Repeat) and node.kind == "greedy":
        return replace(node, part=hasty(node.part), kind="lazy")
    return replace(node, part=hasty(node.part)) if isinstance(node, Group) else node


def at_end(node: Node) -> Node:
    """A node that nothing follows."""
    if isinstance(node, Sequence):
        return _sequence_at_end(node)
    if isinstance(node, Choice):
        return Choice(tuple([at_end(part) for part in node.parts]))
    if isinstance(node, Repeat):
        return _repeat_at_end(node)
    if isinstance(node, Capture):
        return _captured_at_end(node)
    if isinstance(node, Group | Atomic):
        return at_end(node.part)
    return at_end(node.part) if _looks_ahead(node) else node


def _repeat_at_end(node: Repeat) -> Node:
    """Turns that need not be are not made."""
    if captures(node):
        return node
    return EMPTY if node.least == 0 else at_end(node.part) if node.least == 1 else replace(node, most=node.least)


def _sequence_at_end(node: Sequence) -> Node:
    parts = list(node.parts)
    while parts:
        last = at_end(parts.pop())
        if last != EMPTY:
            return sequence([*parts, last])
    return EMPTY


def _captured_at_end(node: Capture) -> Node:
    """The capture with the look-ahead at its own end outside."""
    part = node.part
    while isinstance(part, Group | Atomic):
        part = part.part
    if isinstance(part, Choice):
        return Choice(tuple([_captured_at_end(replace(node, part=way)) for way in part.parts]))
    if isinstance(part, Sequence) and part.parts and _looks_ahead(part.parts[-1]):
        *before, look = part.parts
        return sequence([replace(node, part=sequence(before)), at_end(look)])
    return sequence([replace(node, part=EMPTY), at_end(part)]) if _looks_ahead(part) else replace(node, part=part)


def _looks_ahead(node: Node) -> TypeGuard[Look]:
    return isinstance(node, Look) and node.ahead and not node.negative
