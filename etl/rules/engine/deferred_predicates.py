"""Predicates that have to look at a whole text (regular expressions, SQL on one field), decided last and where it matters.

First every rule is evaluated as if they held wherever one of their literals is: no rule is true in any other row. Only in
these rows they are decided.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from etl.rules.conditions.predicates import Predicate
from etl.rules.conditions.tree import TRUE, All, Condition, Leaf, both, either, leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.deferred_kernel import listed, wanted_rows
from etl.rules.engine.program import Program

Numbers: TypeAlias = dict[Predicate, int]
"""The number of each predicate of a condition."""


class Deferred:
    """Which rows the deferred predicates have to be decided in."""

    def __init__(
        self,
        conditions: Sequence[Condition],
        numbers: Sequence[Numbers],
        deferred: Collection[int],
        witnesses: bool,
        measured: bool,
    ) -> None:
        self._numbers = np.array(sorted(deferred), np.int64)
        using = [_used(condition, known, deferred) for condition, known in zip(conditions, numbers, strict=True)]
        chosen = [rule for rule, mine in enumerate(using) if mine]
        relaxed = [possible(conditions[rule], numbers[rule], deferred) for rule in chosen]
        self._program = Program(relaxed, [numbers[rule] for rule in chosen], witnesses, measured)
        users: dict[int, list[int]] = {number: [] for number in self._numbers.tolist()}
        for n, rule in enumerate(chosen):
            for number in using[rule]:
                users[number].append(n)
        self._first = np.concatenate([[0], np.cumsum([len(mine) for mine in users.values()])]).astype(np.int64)
        self._users = np.array([n for mine in users.values() for n in mine], np.int64)

    @property
    def share(self) -> Any | None:
        """The part of rows in which each predicate may hold; None before enough rows were seen."""
        return self._program.share

    def wanted(self, bits: Bits) -> list[tuple[int, Any]]:
        """Deferred predicates, each with the rows in which it has to be decided (int64[…]).

        Before, the bits say where they may hold, and from then on that they hold nowhere.
        """
        truth, _, _ = self._program.evaluated(bits)
        rows, counts = np.empty((len(self._numbers), truth.shape[1]), np.uint64), np.zeros(len(self._numbers), np.int64)
        wanted_rows(truth, bits.words, bits.hits, self._numbers, self._first, self._users, rows, counts)
        return [(int(self._numbers[n]), _listed(rows[n], counts[n])) for n in np.flatnonzero(counts)]


def _listed(rows: Any, count: int) -> Any:
    found = np.empty(count, np.int64)
    listed(rows, found)
    return found


def possible(condition: Condition, numbers: Numbers, deferred: Collection[int]) -> Condition:
    """A condition that is true at least wherever the given one is, if a deferred predicate counts as true where it may hold."""
    if isinstance(condition, Leaf):
        return TRUE if condition.negated and numbers[condition.predicate] in deferred else condition
    join = both if isinstance(condition, All) else either
    return join(possible(part, numbers, deferred) for part in condition.parts)


def _used(condition: Condition, numbers: Numbers, deferred: Collection[int]) -> set[int]:
    return {number for leaf in leaves(condition) if (number := numbers[leaf.predicate]) in deferred}
