"""What may stand beside a place in a tree: the characters that a neighbour begins or ends with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parsers.char_class import ANY, CharClass, one_of
from parsers.regex_tree import Atomic, Capture, Chars, Choice, Edge, Group, Node, Repeat, Sequence

NOTHING = CharClass(0)


@dataclass(frozen=True, slots=True)
class Side:
    """What may stand beside a place: a character of ``chars``, or the text's edge.

    ``free``: nothing that follows can make a match fail.
    """

    chars: CharClass
    edge: bool
    free: bool = False


OUTSIDE = Side(ANY, edge=True, free=True)
"""What stands beside a pattern: anything, and nothing depends on it."""

BEGINNING = Side(NOTHING, edge=True)
"""What stands before the text's first character."""

END = Side(NOTHING, edge=True)
"""What stands behind the text's last character."""


def can_be_empty(node: Node) -> bool:
    """Whether it can match the empty text."""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Sequence):
        return all(can_be_empty(part) for part in node.parts)
    if isinstance(node, Choice):
        return any(can_be_empty(part) for part in node.parts)
    if isinstance(node, Repeat):
        return node.least == 0 or can_be_empty(node.part)
    if isinstance(node, Capture | Group | Atomic):
        return can_be_empty(node.part)
    return True


def next_to(node: Node, beyond: Side, *, forward: bool) -> Side:
    """What the first (or last) character of ``node`` may be, seen from outside; ``beyond`` shows where it is empty."""
    if isinstance(node, Chars):
        return Side(node.of, edge=False)
    if isinstance(node, Sequence):
        return _next_to_sequence(node.parts if forward else node.parts[::-1], beyond, forward=forward)
    if isinstance(node, Choice):
        return either([next_to(part, beyond, forward=forward) for part in node.parts])
    if isinstance(node, Repeat):
        inner = next_to(node.part, beyond, forward=forward)
        return either([inner, beyond], free=beyond.free) if node.least == 0 else inner
    if isinstance(node, Capture | Group | Atomic):
        return next_to(node.part, beyond, forward=forward)
    return replace(_at_edge(node, beyond, forward=forward), free=False)


def _next_to_sequence(parts: tuple[Node, ...], beyond: Side, *, forward: bool) -> Side:
    """Parts behind one that cannot be empty are out of sight, and are not looked at."""
    reach = next((n for n, part in enumerate(parts, 1) if not can_be_empty(part)), len(parts))
    for part in reversed(parts[:reach]):
        beyond = next_to(part, beyond, forward=forward)
    return beyond


def after_turn(node: Repeat, after: Side) -> Side:
    """What may follow one turn of a repeat."""
    if node.most == 1:
        return after
    return either([next_to(node.part, after, forward=True), after], free=False)


def _at_edge(node: Node, beyond: Side, *, forward: bool) -> Side:
    if not isinstance(node, Edge):
        return beyond
    outer = {"\\A": not forward, "\\z": forward}.get(node.kind)
    if outer:
        return Side(NOTHING, edge=True)
    if node.kind == ("$" if forward else "^"):
        return Side(one_of("\n"), beyond.edge) if not beyond.chars.empty else beyond
    return beyond


def either(sides: list[Side], *, free: bool | None = None) -> Side:
    chars = sides[0].chars
    for side in sides[1:]:
        if side.chars == chars:
            continue
        try:
            chars = chars.union(side.chars)
        except ValueError:
            chars = ANY
    return Side(chars, any(side.edge for side in sides), all(side.free for side in sides) if free is None else free)


def single_class(node: Node) -> CharClass | None:
    """The class when the node is one character of a class."""
    while isinstance(node, Group | Capture | Atomic):
        node = node.part
    if isinstance(node, Choice):
        classes = [single_class(part) for part in node.parts]
        if any(found is None for found in classes):
            return None
        return either([Side(found, edge=False) for found in classes if found is not None]).chars
    return node.of if isinstance(node, Chars) else None
