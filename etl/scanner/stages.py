"""Stages of a scan: each runs consecutive patterns on one engine.

A match at a text's first byte is the leftmost. So a single pattern is first tried there, by an anchored automaton, which
is smaller; only the texts in which it fails are searched by an unanchored one. Of several patterns, an earlier one may match
further on and then wins over a later one at the beginning, so one unanchored automaton searches for all of them. Patterns
that begin with ``^`` are tried at the beginning, and searched for only in texts of several lines.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner import engines
from etl.scanner.automata.automaton import UNKNOWN
from etl.scanner.learning import Learner
from etl.scanner.program import MatchStart
from etl.scanner.scan_builder import ScanBuilder
from etl.scanner.tree import Anchor, Node, starts_with

if TYPE_CHECKING:
    from etl.columns.texts import Texts

    Array = np.ndarray[Any, Any]

MAX_LEARNERS = 256
"""Learners that a process keeps: the tasks of a query use the same ones."""


@lru_cache(maxsize=MAX_LEARNERS)
def _learner(trees: tuple[Node, ...], where: MatchStart) -> Learner:
    return Learner(trees, where)


WORTH_TRYING, ENOUGH_TEXTS = 0.1, 1_000
"""Minimum share of texts that match at their beginning for which the beginning is tried first; sample size, in texts."""


class EngineStage:
    """Patterns that RE2 or ``regex`` run, one after the other, each on the texts that the earlier ones did not match."""

    def __init__(self, trees: Sequence[Node], timeout: timedelta) -> None:
        self.trees, self.timeout = trees, timeout

    @cached_property
    def searches(self) -> list[engines.Search]:
        return [engines.compile_search(tree, self.timeout) for tree in self.trees]

    def run(self, found: ScanBuilder, rows: Array, first: int) -> None:
        """Add the matches of these rows to ``found``."""
        for number, search in enumerate(self.searches, first):
            if not len(rows):
                return
            found.add_copies(rows, search(found.strings(rows)), number)
            rows = rows[found.pattern[rows] < 0]


class AutomatonStage:
    """Patterns that automata run; texts beyond their limits go to an `EngineStage`."""

    def __init__(self, trees: Sequence[Node], timeout: timedelta) -> None:
        self.trees = tuple(trees)
        self.fallback = EngineStage(trees, timeout)
        self._tried = self._matched_at_beginning = 0
        self.only_at_lines = all(starts_with(tree, Anchor("^")) or starts_with(tree, Anchor("\\A")) for tree in trees)
        self.only_at_beginning = all(starts_with(tree, Anchor("\\A")) for tree in trees)

    @cached_property
    def beginning(self) -> Learner:
        return _learner(self.trees, "beginning")

    @cached_property
    def anywhere(self) -> Learner:
        return _learner(self.trees, "anywhere")

    def run(self, found: ScanBuilder, rows: Array, first: int) -> None:
        """Add the matches of these rows to ``found``."""
        left, beyond = rows, rows[:0]
        if self._tries_beginning():
            captured = self.beginning.scan(found.texts_at(left))
            open_ = self._find_open(found, left, captured.pattern)
            captured.clear(np.flatnonzero(open_))
            found.add_matches(left, self.beginning.names, captured, first)
            beyond, left = left[(captured.pattern == UNKNOWN) & ~open_], left[open_]
        self._run_fallback(self.beginning, found, beyond, first)
        if len(left) and not self.only_at_beginning:
            captured = self.anywhere.scan(found.texts_at(left))
            found.add_matches(left, self.anywhere.names, captured, first)
            self._run_fallback(self.anywhere, found, left[captured.pattern == UNKNOWN], first)

    def _run_fallback(self, learner: Learner, found: ScanBuilder, rows: Array, first: int) -> None:
        """Run the fallback engines on the rows beyond a learner, and add the time to the learner's budget."""
        if len(rows):
            began = time.thread_time()
            self.fallback.run(found, rows, first)
            learner.charge(time.thread_time() - began)

    def patterns(self, texts: Texts) -> Array:
        """The number of the pattern that matches in each text (int32[n]), `UNKNOWN` for texts beyond the automaton's limits.

        For patterns without captures.
        """
        return (self.beginning if self.only_at_beginning else self.anywhere).scan(texts).pattern

    def _tries_beginning(self) -> bool:
        """Whether the anchored automaton runs first."""
        if self.only_at_beginning or self.only_at_lines:
            return True
        return len(self.trees) == 1 and self._matched_at_beginning >= self._tried * WORTH_TRYING

    def _find_open(self, found: ScanBuilder, rows: Array, pattern: Array) -> Array:
        """bool[n]: the texts for which the anchored automaton does not decide, so that they are searched."""
        if self.only_at_beginning:
            return np.zeros(len(rows), bool)
        open_ = pattern != 0
        if self.only_at_lines:  # in a text of one line they can match at its beginning only
            undecided = np.flatnonzero(open_)
            open_[undecided] = found.texts_at(rows[undecided]).contains_byte(ord("\n")) if len(undecided) else False
        elif self._tried < ENOUGH_TEXTS:
            self._tried += len(open_)
            self._matched_at_beginning += len(open_) - int(open_.sum())
        return open_
