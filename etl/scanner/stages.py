"""Neighbouring patterns that one engine runs.

A match at a text's first byte *is* the leftmost. So a single pattern is first tried there, by an automaton that needs
no search, stays small and skips what nothing asks for; only the texts where it fails are searched. Of several patterns an
earlier one may match further on, and must win over a later one at the beginning, so they are searched for at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner import engines
from etl.scanner.automaton import UNKNOWN
from etl.scanner.found import Found
from etl.scanner.learning import Learner
from etl.scanner.program import Where
from etl.scanner.tree import Edge, Node, starts_with

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MOST_KEPT = 256
"""Automata that a process keeps: the tasks of a query ask for the same."""


@lru_cache(maxsize=MOST_KEPT)
def _learner(trees: tuple[Node, ...], where: Where) -> Learner:
    return Learner(trees, where)


class Engines:
    """Patterns that RE2 or ``regex`` run, one after the other on what the ones before left."""

    def __init__(self, trees: Sequence[Node], timeout: timedelta) -> None:
        self.trees, self.timeout = trees, timeout

    @cached_property
    def searches(self) -> list[engines.Search]:
        return [engines.search(tree, self.timeout) for tree in self.trees]

    def run(self, found: Found, rows: Array, first: int) -> None:
        """Put the answers for rows."""
        for number, search in enumerate(self.searches, first):
            if not len(rows):
                return
            found.put_copies(rows, search(found.strings(rows)), number)
            rows = rows[found.pattern[rows] < 0]


class Automata:
    """Patterns that automata run; texts beyond what these learn are left to `Engines`."""

    def __init__(self, trees: Sequence[Node], timeout: timedelta) -> None:
        self.trees = tuple(trees)
        self.behind = Engines(trees, timeout)
        self.only_at_beginning = all(starts_with(tree, Edge("\\A")) for tree in trees)

    @cached_property
    def learners(self) -> list[Learner]:
        """What to try, each on the texts where the one before found nothing."""
        first = [_learner(self.trees, "beginning")] if len(self.trees) == 1 or self.only_at_beginning else []
        return first if self.only_at_beginning else [*first, _learner(self.trees, "anywhere")]

    def run(self, found: Found, rows: Array, first: int) -> None:
        """Put the answers for rows."""
        left = rows
        for learner in self.learners:
            captured = learner.scan(found.texts_at(left))
            found.put(left, learner.names, captured, first)
            unmatched = captured.pattern < 0
            left = left[unmatched]
            if not len(left):
                return
        beyond = left[captured.pattern[unmatched] == UNKNOWN]
        if len(beyond):
            self.behind.run(found, beyond, first)
