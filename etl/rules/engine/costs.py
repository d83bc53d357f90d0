"""The time of each rule: measured by field and by expression, divided among the rules that use them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etl.rules.conditions.tree import Condition, leaves
from etl.rules.predicates.predicate import Predicate


class Costs:
    """Nanoseconds since the last `take`.

    Predicates on one field are evaluated together: each has an equal part of the field's time. Expressions that are tested on
    texts are timed alone. A predicate's time is divided equally among its rules, and so is the time of the conditions.
    """

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._groups = groups
        self.alone: dict[int, int] = {}
        """Nanoseconds of predicates that are timed alone, which are part of their group's time."""
        self._spent, self._last = [0] * (len(groups) + 1), 0
        self._of: list[Any] | None = None
        """The predicates of each rule, set by the first `take`."""

    def start(self) -> None:
        """Start the clock."""
        self._last = time.perf_counter_ns()

    def lap(self, group: int) -> None:
        """Add the time since the last lap to a group; group -1 are the conditions."""
        now = time.perf_counter_ns()
        self._spent[group] += now - self._last
        self._last = now

    def take(self, conditions: Sequence[Condition], numbers: Sequence[Mapping[Predicate, int]]) -> Any:
        """Seconds of each rule (float64[n]) since the last call."""
        predicates = self._by_predicate()
        if self._of is None:
            self._of = [_predicates(condition, known) for condition, known in zip(conditions, numbers, strict=True)]
        of = self._of
        shared = np.bincount(np.concatenate([np.empty(0, np.int64), *of]), minlength=len(predicates))
        each = predicates / np.maximum(shared, 1)
        rules = np.array([each[mine].sum() for mine in of]) + self._spent[-1] / max(len(of), 1)
        self._spent = [0] * len(self._spent)
        self.alone.clear()
        return rules / 1e9

    def _by_predicate(self) -> Any:
        nanoseconds = np.zeros(max((number for group in self._groups for number in group), default=-1) + 1)
        for group, spent in zip(self._groups, self._spent, strict=False):
            alone = sum(self.alone.get(number, 0) for number in group)
            nanoseconds[list(group)] = max(spent - alone, 0) / max(len(group), 1)
        for number, spent in self.alone.items():
            nanoseconds[number] += spent
        return nanoseconds


def _predicates(condition: Condition, known: Mapping[Predicate, int]) -> Any:
    """int64[m]: the numbers of a condition's predicates, each once."""
    return np.array(sorted({known[leaf.predicate] for leaf in leaves(condition)}), np.int64)
