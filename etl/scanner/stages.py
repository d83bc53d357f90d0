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


WORTH_TRYING, ENOUGH_TEXTS = 0.1, 1_000
"""Share of texts that must match at their beginning for it to be tried first, and how many texts show it."""


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
        self._tried = self._begun = 0
        self.only_at_beginning = all(starts_with(tree, Edge("\\A")) for tree in trees)

    @cached_property
    def beginning(self) -> Learner:
        return _learner(self.trees, "beginning")

    @cached_property
    def anywhere(self) -> Learner:
        return _learner(self.trees, "anywhere")

    def learners(self) -> list[Learner]:
        """What to try, each on the texts where the one before found nothing."""
        if self.only_at_beginning:
            return [self.beginning]
        tries_beginning = len(self.trees) == 1 and self._begun >= self._tried * WORTH_TRYING
        return [self.beginning, self.anywhere] if tries_beginning else [self.anywhere]

    def run(self, found: Found, rows: Array, first: int) -> None:
        """Put the answers for rows."""
        left, beyond = rows, rows[:0]
        for learner in self.learners():
            captured = learner.scan(found.texts_at(left))
            found.put(left, learner.names, captured, first)
            unmatched = captured.pattern < 0
            self._weigh(learner, unmatched)
            beyond = left[captured.pattern == UNKNOWN]
            left = left[unmatched]
            if not len(left):
                return
        if len(beyond):
            self.behind.run(found, beyond, first)

    def _weigh(self, learner: Learner, unmatched: Array) -> None:
        """See whether matches do begin at the beginning; the first texts decide."""
        if learner.where == "beginning" and self._tried < ENOUGH_TEXTS:
            self._tried += len(unmatched)
            self._begun += len(unmatched) - int(unmatched.sum())
