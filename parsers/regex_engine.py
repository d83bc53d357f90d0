"""One tree → the expressions that RE2 runs fast, and what has to hold for their answer to be exact.

RE2 extracts at millions of lines a second only while its one-pass engine can be used: the pattern starts at the
text's first byte, has at most four captures and no large counted repeats. So a pattern is first tried at the text's
beginning (the leftmost match, if it is one); captures beyond four are extracted by a second run of the same
expression; and ``x{0,62}`` runs as ``x*``, after which rows whose captures are longer than the count are run again
as written. A final ``.*`` reads bytes, not characters: on valid UTF-8 the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import pyarrow as pa

from parsers.captures import field_types
from parsers.char_class import ANY
from parsers.regex_decided import decided_by_next
from parsers.regex_ends import spread_at_end
from parsers.regex_search import at_beginning, searched
from parsers.regex_spans import Span, spanned
from parsers.regex_text import regex_text
from parsers.regex_tree import (
    ANY_BYTE,
    Capture,
    Chars,
    Choice,
    Edge,
    Group,
    Node,
    Repeat,
    Sequence,
    backtracking_reason,
    captures,
    sequence,
)

MOST_ONE_PASS_CAPTURES = 4
"""RE2's bound (kMaxOnePassCapture counts the whole match, too)."""

LARGE_COUNT = 16
"""Counted repeats above it keep RE2 from its fast engine."""


@dataclass(frozen=True)
class Limit:
    """A relaxed count: exact while capture ``within`` (None: any run of the text) has no more than ``most`` bytes."""

    within: int | None
    most: int
    longer: str
    """What a text must have in it to be beyond the count."""


@dataclass(frozen=True)
class Program:
    """What to run for one pattern."""

    tree: Node

    @cached_property
    def captures(self) -> list[Capture]:
        """Its captures in order."""
        return captures(self.tree)

    @cached_property
    def at_line_start(self) -> bool:
        """Whether a match can begin only where a line does."""
        first = self.tree.parts[0] if isinstance(self.tree, Sequence) and self.tree.parts else self.tree
        return first in (Edge("^"), Edge("\\A"))

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Its fields in the order of their first captures."""
        return field_types(self.tree)

    @cached_property
    def slow_reason(self) -> str | None:
        """Why a search must backtrack, or None."""
        return backtracking_reason(self._searched[0]) if backtracking_reason(self.tree) else None

    @cached_property
    def exact(self) -> str:
        """The pattern for one search; with several `copies` the captures are numbered on from copy to copy."""
        if self.slow_reason:
            return regex_text(self._searched[0], backtracking=True)
        trees = [bytes_at_end(tree) for tree in self._searched]
        return regex_text(trees[0] if len(trees) == 1 else Choice(tuple(trees)))

    @cached_property
    def copies(self) -> int:
        """How often `exact` has each capture."""
        return len(self._searched)

    @cached_property
    def fast(self) -> list[str]:
        """The pattern with relaxed counts at the text's beginning, a few captures each; empty where RE2 cannot."""
        tree = self._beginning
        if backtracking_reason(tree):
            return []
        tree = relaxed(spanned(tree, []), [])
        numbers = range(len(self.captures))
        size = MOST_ONE_PASS_CAPTURES if decided_by_next(tree) else len(numbers) or 1
        shares = [numbers[n : n + size] for n in range(0, len(numbers), size)]
        tree = bytes_at_end(tree)
        return [f"\\A(?:{regex_text(tree, share)})" for share in shares or [numbers]]

    @cached_property
    def limits(self) -> list[Limit]:
        """What was relaxed in `fast`."""
        found: list[Limit] = []
        relaxed(spanned(self._beginning, []), found)
        return found

    @cached_property
    def spans(self) -> list[Span]:
        """Captures of `fast` that have to be checked."""
        found: list[Span] = []
        spanned(self._beginning, found)
        return found

    @cached_property
    def _beginning(self) -> Node:
        return at_beginning(self.tree)

    @cached_property
    def _searched(self) -> list[Node]:
        return searched(self.tree)


def program(tree: Node, *, anchored: bool) -> Program:
    """The tree compiled; ``anchored``: it must match the whole text."""
    return Program(sequence([Edge("\\A"), tree, Edge("\\z")]) if anchored else spread_at_end(tree))


def relaxed(node: Node, found: list[Limit]) -> Node:
    """Large counted repeats of one class without their upper bound; what was relaxed goes to ``found``."""
    return _relaxed(node, found, count(), None, looped=False)


def _relaxed(node: Node, found: list[Limit], numbers: Iterator[int], within: int | None, *, looped: bool) -> Node:
    """A capture inside a loop shows its last turn only, so it cannot vouch for the others: ``looped``."""
    if isinstance(node, Capture):
        number = next(numbers)
        return replace(node, part=_relaxed(node.part, found, numbers, within if looped else number, looped=looped))
    if isinstance(node, Group):
        return replace(node, part=_relaxed(node.part, found, numbers, within, looped=looped))
    if isinstance(node, Sequence | Choice):
        return replace(node, parts=tuple([_relaxed(part, found, numbers, within, looped=looped) for part in node.parts]))
    if not isinstance(node, Repeat):
        return node
    if isinstance(node.part, Chars) and node.most is not None and node.most > LARGE_COUNT >= node.least:
        found.append(Limit(within, node.most, f"{node.part.of.text()}{{{node.most + 1}}}"))
        return replace(node, most=None)
    return replace(node, part=_relaxed(node.part, found, numbers, within, looped=True))


def bytes_at_end(node: Node) -> Node:
    """A greedy ``.*`` or ``.+`` that ends the pattern reads to the end whatever follows: let it read bytes."""
    if isinstance(node, Sequence) and node.parts:
        if node.parts[-1] == Edge("\\z") and len(node.parts) > 1:
            inner = bytes_at_end(sequence(list(node.parts[:-1])))
            return sequence([inner, node.parts[-1]])
        return replace(node, parts=(*node.parts[:-1], bytes_at_end(node.parts[-1])))
    if isinstance(node, Capture | Group):
        return replace(node, part=bytes_at_end(node.part))
    if isinstance(node, Repeat) and node.part == Chars(ANY) and node.kind == "greedy" and node.most is None and node.least < 2:
        return Repeat(ANY_BYTE, 0, None) if node.least == 0 else sequence([node.part, Repeat(ANY_BYTE, 0, None)])
    return node
