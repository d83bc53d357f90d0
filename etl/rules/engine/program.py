"""Compiles the conditions of all rules to one program over bit sets, and chooses the witnesses of each rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.rules.conditions.tree import And, Condition, Leaf
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.program_kernel import AND, OR, evaluate, list_by_row
from etl.rules.predicates.predicate import Predicate

MIN_SHARE = 1e-7
"""Share of rows that is assumed for a predicate that was true in no observed row."""

FIRST_CHOICE_ROWS, CHOICE_FACTOR = 512, 16
"""Number of observed rows after which witnesses are chosen by their observed shares, and the factor of rows between choices."""


class Matches(NamedTuple):
    """The rules that match in each row: row r has ``rule[offsets[r]:offsets[r + 1]]``, in order."""

    offsets: Any
    rule: Any
    tried: Any
    """int64[rules]: the number of rows in which each was evaluated because one of its witnesses held."""


class Program:
    """Conditions over numbered predicates."""

    def __init__(
        self,
        conditions: Sequence[Condition],
        numbers: Sequence[dict[Predicate, int]],
        witnesses: bool = True,
        measured: bool = True,
        share: Any | None = None,
    ) -> None:
        """``measured``: choose witnesses again by observed shares, not only once by expected shares (or by ``share``)."""
        self.share: Any | None = share
        self._conditions, self._numbers, self._with_witnesses = conditions, numbers, witnesses
        self._choose_at = FIRST_CHOICE_ROWS if measured else None
        self._hits: Any = 0
        self.rows = 0
        steps: list[int] = []
        counts: list[int] = []
        first, deepest = [0], 1
        for condition, known in zip(conditions, numbers, strict=True):
            deepest = max(deepest, _append_steps(condition, known, steps, counts))
            first.append(len(steps))
        self._steps, self._counts = np.array(steps or [0], np.int64), np.array(counts or [0], np.int64)
        self._first, self._stack = np.array(first, np.int64), np.zeros(deepest, np.uint64)
        self._choose(share)

    def _choose(self, share: Any | None) -> None:
        """Choose each rule's witnesses by the share of rows in which each predicate was true; None: by the expected share."""
        lists = [self._choose_witnesses(n, share) for n in range(len(self._conditions))]
        self._witness_first = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
        self._witness = np.array([predicate for one in lists for predicate in one] or [-1], np.int64)

    def _choose_witnesses(self, rule: int, share: Any | None) -> tuple[int, ...]:
        found = choose_witnesses(self._conditions[rule], self._numbers[rule], share) if self._with_witnesses else None
        return (-1,) if found is None else tuple(dict.fromkeys(found[1]))

    def witnesses_of(self, rule: int) -> list[int]:
        """Return predicates of which at least one is true wherever the rule matches; -1: none are known."""
        return self._witness[self._witness_first[rule] : self._witness_first[rule + 1]].tolist()

    def run(self, bits: Bits) -> Matches:
        """Return the rules that match in each row."""
        truth, tried, count = self.evaluate(bits)
        offsets, rule = np.zeros(bits.rows + 2, np.int32), np.empty(count, np.int32)
        if count:
            list_by_row(truth, offsets, rule)
        return Matches(offsets[:-1], rule, tried)

    def evaluate(self, bits: Bits) -> tuple[Any, Any, int]:
        """Evaluate every rule where one of its witnesses is true.

        Returns the rows in which each matches (bit sets), in how many rows each was evaluated, and the number of all matches.
        """
        self._observe(bits)
        truth = np.zeros((len(self._conditions), bits.words.shape[1]), np.uint64)
        tried = np.zeros(len(self._conditions), np.int64)
        count = evaluate(
            bits.words, bits.hits, bits.rows, self._witness_first, self._witness, self._first, self._steps, self._counts,
            self._stack, truth, tried,
        )  # fmt: skip
        return truth, tried, count

    def _observe(self, bits: Bits) -> None:
        """Count the rows in which predicates are true; at growing intervals choose witnesses by these counts."""
        if self._choose_at is None:
            return
        self._hits = self._hits + bits.hits
        self.rows += bits.rows
        if self.rows >= self._choose_at:
            self.share = self._hits / self.rows
            self._choose(self.share)
            self._choose_at = CHOICE_FACTOR * self.rows


def choose_witnesses(
    condition: Condition, numbers: dict[Predicate, int], share: Any | None
) -> tuple[float, tuple[int, ...]] | None:
    """Return predicates of which one is true wherever the condition is, and before them the share of rows in which one may be.

    None if there are no such predicates.
    """
    if isinstance(condition, Leaf):
        if condition.negated:
            return None
        number = numbers[condition.predicate]
        cost = condition.predicate.expected_share if share is None else max(float(share[number]), MIN_SHARE)
        return cost, (number,)
    found = [choose_witnesses(part, numbers, share) for part in condition.parts]
    known = [one for one in found if one is not None]
    if isinstance(condition, And):
        return min(known, key=lambda one: one[0], default=None)
    if len(known) < len(found):
        return None
    return sum(one[0] for one in known), tuple(number for one in known for number in one[1])


def _append_steps(condition: Condition, numbers: dict[Predicate, int], steps: list[int], counts: list[int]) -> int:
    """Append the steps of a condition. Returns the depth of the stack that they need."""
    if isinstance(condition, Leaf):
        steps.append(numbers[condition.predicate] * 2 + condition.negated)
        counts.append(1)
        return 1
    step, needed = AND if isinstance(condition, And) else OR, 1
    for index, part in enumerate(condition.parts):
        needed = max(needed, _append_steps(part, numbers, steps, counts) + (index > 0))
        if index:
            steps.append(step)
            counts.append(2)
    if not condition.parts:
        steps.append(step)
        counts.append(0)
    return needed
