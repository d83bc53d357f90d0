"""Look-around at the outer ends of a pattern: it becomes a character that is read and not captured."""

from __future__ import annotations

from dataclasses import replace

from parsers.regex_sides import single_class
from parsers.regex_tree import EMPTY, Capture, Chars, Choice, Edge, Group, Look, Node, Sequence, backtracking_reason, sequence


def lifted(node: Node) -> Node:
    """Look-around at the ends of groups and captures moved outside of them."""
    if isinstance(node, Sequence):
        return sequence([lifted(part) for part in node.parts])
    if isinstance(node, Choice):
        return Choice(tuple(lifted(part) for part in node.parts))
    if not isinstance(node, Capture | Group):
        return node
    part = lifted(node.part)
    parts = _parts(part)
    first = 0
    while first < len(parts) and isinstance(parts[first], Look):
        first += 1
    last = len(parts)
    while last > first and isinstance(parts[last - 1], Look):
        last -= 1
    return sequence([*parts[:first], replace(node, part=sequence(parts[first:last])), *parts[last:]])


def spread_at_end(node: Node) -> Node:
    """A capture that ends the pattern and holds a choice with a look-ahead → a choice of captures.

    ``(?<x>a|b(?!c))`` → ``(?<x>a)|(?<x>b)(?!c)``: what the look-ahead reads is then outside of the capture.
    """
    if isinstance(node, Sequence) and node.parts:
        return sequence([*node.parts[:-1], spread_at_end(node.parts[-1])])
    if isinstance(node, Choice):
        return Choice(tuple(spread_at_end(part) for part in node.parts))
    if not isinstance(node, Capture | Group) or not _looks_ahead_at_end(node):
        return node
    if isinstance(node.part, Choice):
        return Choice(tuple(spread_at_end(replace(node, part=part)) for part in node.part.parts))
    parts = _parts(node.part)
    last = parts[-1] if parts else EMPTY
    if isinstance(last, Choice) and all(isinstance(part, Chars | Edge | Look) for part in parts[:-1]):
        return Choice(tuple([spread_at_end(replace(node, part=sequence([*parts[:-1], part]))) for part in last.parts]))
    return node


def _parts(node: Node) -> list[Node]:
    return list(node.parts) if isinstance(node, Sequence) else [node]


def _looks_ahead_at_end(node: Node) -> bool:
    if isinstance(node, Sequence):
        return bool(node.parts) and _looks_ahead_at_end(node.parts[-1])
    if isinstance(node, Choice):
        return any(map(_looks_ahead_at_end, node.parts))
    if isinstance(node, Capture | Group):
        return _looks_ahead_at_end(node.part)
    return isinstance(node, Look) and node.ahead


def ends_read(node: Node) -> Node:
    """A look-around at the pattern's own ends becomes text that is read: nothing else can want that text."""
    parts = _parts(node)
    first = parts[0] if parts else EMPTY
    if isinstance(first, Look) and not first.ahead and (read := _read(first, Edge("\\A"))):
        parts = [read, *parts[1:]]
    return _end_read(sequence(parts))


def _end_read(node: Node) -> Node:
    if isinstance(node, Sequence) and node.parts:
        return sequence([*node.parts[:-1], _end_read(node.parts[-1])])
    if isinstance(node, Choice):
        return Choice(tuple(_end_read(part) for part in node.parts))
    if isinstance(node, Look) and node.ahead:
        return _read(node, Edge("\\z")) or node
    return node


def _read(look: Look, edge: Edge) -> Node | None:
    if backtracking_reason(look.part):
        return None
    single = single_class(look.part)
    if look.negative:
        return Choice((edge, Chars(single.inverted()))) if single is not None else None
    return look.part if look.ahead or single is not None else None
