"""Syntax trees of regular expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal, TypeAlias, cast

from etl.scanner.char_class import CharClass


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    of: CharClass


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other; the empty sequence matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first part that leads to a match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``least`` to ``most`` times (None: no bound); ``lazy`` prefers few, ``possessive`` never gives back."""

    part: Node
    minimum: int
    maximum: int | None
    kind: Literal["greedy", "lazy", "possessive"] = "greedy"


@dataclass(frozen=True, slots=True)
class Capture:
    """Captured text, which becomes a field or a part of one. ``cast`` is ``int``, ``float``, or empty for text."""

    part: Node
    field: str
    cast: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A plain group, numbered for back-references."""

    part: Node
    number: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """A zero-width assertion: ``^ $ \\A \\z \\b \\B``."""

    kind: Literal["^", "$", "\\A", "\\z", "\\b", "\\B"]


@dataclass(frozen=True, slots=True)
class LookAround:
    """A look-around: what must, or must not, follow or precede a position."""

    part: Node
    ahead: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic group: once matched, it is not matched in another way."""

    part: Node


@dataclass(frozen=True, slots=True)
class Backreference:
    """The text of an earlier group, by number or field name."""

    group: int | str


Node: TypeAlias = "Chars | Sequence | Choice | Repeat | Capture | Group | Anchor | LookAround | Atomic | Backreference"

EMPTY = Sequence(())


_WITH_PARTS = frozenset({Sequence, Choice})
_WITH_ONE_PART = frozenset({Repeat, Capture, Group, LookAround, Atomic})
"""Types with parts. Looking up ``type(node)`` is faster than `isinstance` with several types, and lint visits a million nodes."""


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    kind = type(node)
    if kind in _WITH_PARTS:
        return cast("Sequence | Choice", node).parts
    if kind in _WITH_ONE_PART:
        return (cast("Repeat | Capture | Group | LookAround | Atomic", node).part,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and its descendants, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if type(node) in _WITH_PARTS:
            waiting.extend(cast("Sequence | Choice", node).parts[::-1])
        elif type(node) in _WITH_ONE_PART:
            waiting.append(cast("Repeat | Capture | Group | LookAround | Atomic", node).part)


def starts_with(node: Node, anchor: Anchor) -> bool:
    """Whether every match begins at this assertion, as far as the tree's first parts tell."""
    if isinstance(node, Sequence):
        return bool(node.parts) and starts_with(node.parts[0], anchor)
    if isinstance(node, Choice):
        return bool(node.parts) and all(starts_with(part, anchor) for part in node.parts)
    return starts_with(node.part, anchor) if isinstance(node, Capture | Group | Atomic) else node == anchor


def sequence(parts: list[Node]) -> Node:
    """Concatenate parts; nested sequences are flattened, a single part is returned as it is."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def rename_captures(node: Node, names: Iterator[str]) -> Node:
    """The tree with other names for its captures, taken from ``names`` in the order of `captures`."""
    if isinstance(node, Capture):
        name = next(names)
        return Capture(rename_captures(node.part, names), name, node.cast)
    below = children(node)
    renamed = tuple([rename_captures(part, names) for part in below])
    if all(map(is_, renamed, below)):
        return node  # most of a tree has no captures
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=renamed)
    return replace(cast("Repeat | Group | LookAround | Atomic", node), part=renamed[0])


def captures(node: Node) -> list[Capture]:
    """All captures, outer before inner, left before right; a capture's index is its number."""
    return [found for found in walk(node) if type(found) is Capture]


def backtracking_reason(node: Node) -> str | None:
    """The construct that RE2 does not support, or None."""
    for found in walk(node):
        if isinstance(found, LookAround):
            return f"look-{'ahead' if found.ahead else 'behind'}"
        if isinstance(found, Backreference):
            return "back-reference"
        if isinstance(found, Atomic) or (isinstance(found, Repeat) and found.kind == "possessive"):
            return "atomic group or possessive repeat"
    return None
