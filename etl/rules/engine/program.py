"""Conditions of all rules as one program over bit sets, each with its witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.rules.conditions.predicates import Number, Predicate, Present, Sql, Text
from etl.rules.conditions.tree import All, Condition, Leaf
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.program_kernel import AND, OR, by_row, evaluate

NEVER_SEEN = 1e-7
"""The part of rows taken for a predicate that was looked for and not found."""


FIRST_LEARNT, LEARNT_AGAIN = 512, 16
"""Rows after which witnesses are chosen by what was observed, and how many times as many until they are chosen again."""


class Matches(NamedTuple):
    """Which rules are true in which rows: of row r the rules ``rule[offsets[r]:offsets[r + 1]]``, in order."""

    offsets: Any
    rule: Any
    tried: Any
    """int64[rules]: in how many rows each was evaluated, for one of its witnesses was there."""


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
        """``measured``: witnesses are chosen by what is observed, not by a guess (or by ``share``) only."""
        self.share: Any | None = share
        self._conditions, self._numbers, self._with_witnesses = conditions, numbers, witnesses
        self._learn_at = FIRST_LEARNT if measured else None
        self._held: Any = 0
        self.rows = 0
        steps: list[int] = []
        counts: list[int] = []
        first, deepest = [0], 1
        for condition, known in zip(conditions, numbers, strict=True):
            deepest = max(deepest, _compile(condition, known, steps, counts))
            first.append(len(steps))
        self._steps, self._counts = np.array(steps or [0], np.int64), np.array(counts or [0], np.int64)
        self._first, self._stack = np.array(first, np.int64), np.zeros(deepest, np.uint64)
        self._choose(share)

    def _choose(self, share: Any | None) -> None:
        """Choose each rule's witnesses: by the part of rows in which each predicate was seen, or by a guess."""
        lists = [self._witnesses(n, share) for n in range(len(self._conditions))]
        self._witness_first = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
        self._witness = np.array([predicate for one in lists for predicate in one] or [-1], np.int64)

    def _witnesses(self, rule: int, share: Any | None) -> tuple[int, ...]:
        found = witness(self._conditions[rule], self._numbers[rule], share) if self._with_witnesses else None
        return (-1,) if found is None else tuple(dict.fromkeys(found[1]))

    def witnesses_of(self, rule: int) -> list[int]:
        """The predicates one of which holds where the rule does; -1: none is known."""
        return self._witness[self._witness_first[rule] : self._witness_first[rule + 1]].tolist()

    def run(self, bits: Bits) -> Matches:
        """Which rules are true in which rows."""
        truth, tried, count = self.evaluated(bits)
        offsets, rule = np.zeros(bits.rows + 2, np.int32), np.empty(count, np.int32)
        if count:
            by_row(truth, offsets, rule)
        return Matches(offsets[:-1], rule, tried)

    def evaluated(self, bits: Bits) -> tuple[Any, Any, int]:
        """Every rule evaluated where it may be true: its rows (uint64[rules, words]), in how many it was tried; all hits."""
        self._learn(bits)
        truth = np.zeros((len(self._conditions), bits.words.shape[1]), np.uint64)
        tried = np.zeros(len(self._conditions), np.int64)
        count = evaluate(
            bits.words, bits.hits, bits.rows, self._witness_first, self._witness, self._first, self._steps, self._counts,
            self._stack, truth, tried,
        )  # fmt: skip
        return truth, tried, count

    def _learn(self, bits: Bits) -> None:
        """Note how often predicates hold, and now and then choose witnesses by it."""
        if self._learn_at is None:
            return
        self._held = self._held + bits.hits
        self.rows += bits.rows
        if self.rows >= self._learn_at:
            self.share = self._held / self.rows
            self._choose(self.share)
            self._learn_at = LEARNT_AGAIN * self.rows


def witness(condition: Condition, numbers: dict[Predicate, int], share: Any | None) -> tuple[float, tuple[int, ...]] | None:
    """Predicates one of which must hold where the condition does, and the part of rows in which they may; None: no such."""
    if isinstance(condition, Leaf):
        if condition.negated:
            return None
        number = numbers[condition.predicate]
        cost = _guess(condition.predicate) if share is None else max(float(share[number]), NEVER_SEEN)
        return cost, (number,)
    found = [witness(part, numbers, share) for part in condition.parts]
    known = [one for one in found if one is not None]
    if isinstance(condition, All):
        return min(known, key=lambda one: one[0], default=None)
    if len(known) < len(found):
        return None
    return sum(one[0] for one in known), tuple(number for one in known for number in one[1])


def _guess(predicate: Predicate) -> float:
    """The part of rows in which a predicate nobody has looked for yet may hold."""
    if isinstance(predicate, Text):
        return 0.5 / (1 + len(predicate.text)) ** 2
    if isinstance(predicate, Present):
        return 1.0
    if isinstance(predicate, Sql):
        return 0.01 if predicate.literals else 0.5
    return 0.05 if isinstance(predicate, Number) and predicate.order == "=" else 0.1


def _compile(condition: Condition, numbers: dict[Predicate, int], steps: list[int], counts: list[int]) -> int:
    """Append the steps of a condition; how many values they need at once."""
    if isinstance(condition, Leaf):
        steps.append(numbers[condition.predicate] * 2 + condition.negated)
        counts.append(1)
        return 1
    step, needed = AND if isinstance(condition, All) else OR, 1
    for place, part in enumerate(condition.parts):
        needed = max(needed, _compile(part, numbers, steps, counts) + (place > 0))
        if place:
            steps.append(step)
            counts.append(2)
    if not condition.parts:
        steps.append(step)
        counts.append(0)
    return needed
