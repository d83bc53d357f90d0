"""Intricate captures as plain runs of characters, checked afterwards.

``(?<ip>IPV6|IPV4|HOSTNAME) `` can only end where its characters end, for a blank is none of them. So the run
``[…]+`` finds the same text, in RE2's fast engine, and an expression of its own says whether that text is a match.
Where it is not, the row is run again as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from parsers.char_class import CharClass
from parsers.regex_decided import decided_by_next
from parsers.regex_sides import Side, after_turn, can_be_empty, next_to
from parsers.regex_text import regex_text
from parsers.regex_tree import Capture, Chars, Choice, Group, Node, Repeat, Sequence, captures, sequence, walk


@dataclass(frozen=True)
class Span:
    """A capture that was replaced by a run: its text must match ``check``."""

    number: int
    check: str


def spanned(node: Node, found: list[Span]) -> Node:
    """The tree with runs for captures; what must be checked goes to ``found``."""
    return _spanned(node, Side(CharClass(0), edge=True), count(), found)


def _spanned(node: Node, after: Side, numbers: Iterator[int], found: list[Span]) -> Node:
    if isinstance(node, Capture):
        number = next(numbers)
        if (run := _run(node.part, after)) is not None:
            found.append(Span(number, f"\\A(?:{regex_text(node.part)})\\z"))
            return replace(node, part=run)
    if isinstance(node, Capture | Group):
        return replace(node, part=_spanned(node.part, after, numbers, found))
    if isinstance(node, Choice):
        return Choice(tuple([_spanned(part, after, numbers, found) for part in node.parts]))
    if isinstance(node, Sequence):
        follows = [after]
        for part in reversed(node.parts):
            follows.append(next_to(part, follows[-1], forward=True))
        follows.reverse()
        return sequence([_spanned(part, follows[n + 1], numbers, found) for n, part in enumerate(node.parts)])
    if isinstance(node, Repeat) and node.most == 1:
        return replace(node, part=_spanned(node.part, after_turn(node, after), numbers, found))
    for _ in captures(node):
        next(numbers)
    return node


def _run(part: Node, after: Side) -> Node | None:
    """The run that ends where ``part`` must end, or None where there is none or it would be no faster."""
    nodes = list(walk(part))
    if can_be_empty(part) or not all(isinstance(n, Chars | Sequence | Choice | Repeat | Group) for n in nodes):
        return None
    if decided_by_next(part, after):
        return None
    of = CharClass(0)
    try:
        for node in nodes:
            of = of.union(node.of) if isinstance(node, Chars) else of
    except ValueError:
        return None
    return None if after.chars.meets(of) else Repeat(Chars(of), 1, None)
