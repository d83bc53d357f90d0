"""Predicates that test whole texts (regular expressions, SQL on one field) or compare fields, evaluated last.

First every rule is evaluated as if they held wherever they may (where one of their literals is). Invariant: no rule matches in
any other row. They are evaluated only in these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from etl.rules.conditions.tree import TRUE, And, Condition, Leaf, all_of, any_of, leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.program import Program
from etl.rules.engine.row_kernel import list_rows, rows_to_evaluate
from etl.rules.predicates.predicate import Predicate

Numbers: TypeAlias = dict[Predicate, int]
"""The number of each predicate of a condition."""


class DeferredPredicates:
    """Finds the rows in which deferred predicates have to be evaluated."""

    def __init__(
        self,
        conditions: Sequence[Condition],
        numbers: Sequence[Numbers],
        deferred: Collection[int],
        witnesses: bool,
        measured: bool,
    ) -> None:
        self._numbers = np.array(sorted(deferred), np.int64)
        using = [_deferred_of(condition, known, deferred) for condition, known in zip(conditions, numbers, strict=True)]
        chosen = [rule for rule, mine in enumerate(using) if mine]
        relaxed = [relax(conditions[rule], numbers[rule], deferred) for rule in chosen]
        self._program = Program(relaxed, [numbers[rule] for rule in chosen], witnesses, measured)
        users: dict[int, list[int]] = {number: [] for number in self._numbers.tolist()}
        for n, rule in enumerate(chosen):
            for number in using[rule]:
                users[number].append(n)
        self._first = np.concatenate([[0], np.cumsum([len(mine) for mine in users.values()])]).astype(np.int64)
        self._users = np.array([n for mine in users.values() for n in mine], np.int64)

    @property
    def share(self) -> Any | None:
        """The share of rows in which each predicate may hold; None before enough rows were observed."""
        return self._program.share

    def rows_to_evaluate(self, bits: Bits) -> list[tuple[int, Any]]:
        """Deferred predicates, each with the rows in which it has to be evaluated (int64[m]).

        The bits say where the predicates may hold, and are cleared.
        """
        truth, _, _ = self._program.evaluate(bits)
        rows, counts = np.empty((len(self._numbers), truth.shape[1]), np.uint64), np.zeros(len(self._numbers), np.int64)
        rows_to_evaluate(truth, bits.words, bits.hits, self._numbers, self._first, self._users, rows, counts)
        return [(int(self._numbers[n]), _list(rows[n], counts[n])) for n in np.flatnonzero(counts)]


def _list(rows: Any, count: int) -> Any:
    found = np.empty(count, np.int64)
    list_rows(rows, found)
    return found


def relax(condition: Condition, numbers: Numbers, deferred: Collection[int]) -> Condition:
    """A condition that is true wherever the given one is, if the bits of deferred predicates say where they may hold."""
    if isinstance(condition, Leaf):
        return TRUE if condition.negated and numbers[condition.predicate] in deferred else condition
    join = all_of if isinstance(condition, And) else any_of
    return join(relax(part, numbers, deferred) for part in condition.parts)


def _deferred_of(condition: Condition, numbers: Numbers, deferred: Collection[int]) -> set[int]:
    return {number for leaf in leaves(condition) if (number := numbers[leaf.predicate]) in deferred}
