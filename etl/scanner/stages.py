"""Neighbouring patterns that one engine runs.

A match at a text's first byte *is* the leftmost. So a single pattern is first tried there, by an automaton that needs
no search, stays small and skips what nothing asks for; only the texts where it fails are searched. Of several patterns an
earlier one may match further on, and must win over a later one at the beginning, so they are searched for at once; but
patterns that begin with ``^`` are tried at the beginning, and searched for in texts of several lines only.
"""

from __future__ import annotations

import time
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
    from etl.columns.texts import Texts

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
        self.only_at_lines = all(starts_with(tree, Edge("^")) or starts_with(tree, Edge("\\A")) for tree in trees)
        self.only_at_beginning = all(starts_with(tree, Edge("\\A")) for tree in trees)

    @cached_property
    def beginning(self) -> Learner:
        return _learner(self.trees, "beginning")

    @cached_property
    def anywhere(self) -> Learner:
        return _learner(self.trees, "anywhere")

    def run(self, found: Found, rows: Array, first: int) -> None:
        """Put the answers for rows."""
        left, beyond = rows, rows[:0]
        if self._begins():
            captured = self.beginning.scan(found.texts_at(left))
            open_ = self._open(found, left, captured.pattern)
            captured.forget(np.flatnonzero(open_))
            found.put(left, self.beginning.names, captured, first)
            beyond, left = left[(captured.pattern == UNKNOWN) & ~open_], left[open_]
        self._leave(self.beginning, found, beyond, first)
        if len(left) and not self.only_at_beginning:
            captured = self.anywhere.scan(found.texts_at(left))
            found.put(left, self.anywhere.names, captured, first)
            self._leave(self.anywhere, found, left[captured.pattern == UNKNOWN], first)

    def _leave(self, learner: Learner, found: Found, rows: Array, first: int) -> None:
        """Others answer for the texts beyond a learner, which learns more the more that costs."""
        if len(rows):
            began = time.thread_time()
            self.behind.run(found, rows, first)
            learner.charge(time.thread_time() - began)

    def patterns(self, texts: Texts) -> Array:
        """The pattern that matches in each text (int32[n]), `UNKNOWN` where an automaton does not know: nothing is captured."""
        return (self.beginning if self.only_at_beginning else self.anywhere).scan(texts).pattern

    def _begins(self) -> bool:
        """Whether to try the beginning first."""
        if self.only_at_beginning or self.only_at_lines:
            return True
        return len(self.trees) == 1 and self._begun >= self._tried * WORTH_TRYING

    def _open(self, found: Found, rows: Array, pattern: Array) -> Array:
        """Which texts (truth values) the beginning says nothing final about."""
        if self.only_at_beginning:
            return np.zeros(len(rows), bool)
        open_ = pattern != 0
        if self.only_at_lines:  # a text of one line has no other place where they may match
            asked = np.flatnonzero(open_)
            open_[asked] = found.texts_at(rows[asked]).have(ord("\n")) if len(asked) else False
        elif self._tried < ENOUGH_TEXTS:
            self._tried += len(open_)
            self._begun += len(open_) - int(open_.sum())
        return open_
