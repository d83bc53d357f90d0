"""Literals of texts that do not repeat, looked for only in the events whose other literals leave a rule possible.

A scan finds every literal in every text, though of most rules the rarest literal, their witness, is missing. Once a field's
texts are known not to repeat, and how often each literal is in them, only witnesses stay in the field's scan. Before anything
else every rule is evaluated as if the literals that were left out held everywhere: no rule is true in any other row. Only in
these rows they are looked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from etl.rules.conditions.tree import TRUE, All, Condition, Leaf, both, either, leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.deferred_predicates import Numbers, possible
from etl.rules.engine.program import Program, witness
from etl.rules.engine.text_field import TextField

FIRST_PLANNED, PLANNED_AGAIN = 8192, 16
"""Rows after which literals are chosen, and how many times as many until they are chosen again."""

SPARE = 1e-4
"""How much more often than it is found a literal may be looked for, in parts of the rows."""

COMMON = 0.02
"""Part of the rows from which on the literals of a regular expression are left out: it is tried a little more often then."""

MOST_LOOKED = 4
"""Literals looked for in a row, from which on a scan of all of them is faster."""


@dataclass(frozen=True)
class _Plan:
    """What is left out of the scans of some fields."""

    program: Program
    """Of the rules that have such literals: where they may be true."""
    fields: Mapping[TextField, tuple[Any, Any]]
    """Of each field the literals by rule: those of rule r are ``entries[first[r]:first[r + 1]]``."""
    numbers: Any
    share: Any
    """Predicates left out, and the part of rows in which each held when all were looked for."""


class LazyLiterals:
    """The choice, and the look-ups."""

    def __init__(
        self, conditions: Sequence[Condition], numbers: Sequence[Numbers], tests: Collection[int], fields: Sequence[TextField]
    ) -> None:
        """``tests`` are the predicates that hold nowhere else than their bits say, but not everywhere there."""
        self._given, self._numbers, self._tests, self._fields = conditions, numbers, tests, fields
        self._plan: _Plan | None = None
        self._planned: frozenset[TextField] = frozenset()
        self._share: Any = None
        self._plan_at = FIRST_PLANNED

    @property
    def left_out(self) -> int:
        """How many literals are not looked for everywhere."""
        return len(self._plan.numbers) if self._plan is not None else 0

    def settle(self, columns: Mapping[str, Column], bits: Bits) -> None:
        """Look for what was left out of the scans of this batch."""
        if self._plan is None:
            return
        truth, _, _ = self._plan.program.evaluated(bits)
        looked = sum(field.look_up(truth, *literals, columns, bits) for field, literals in self._plan.fields.items())
        # learnt again, they would seem rare: so many hits are reported as a scan would find
        hits = self._plan.numbers
        bits.hits[hits] = np.maximum(bits.hits[hits], (self._plan.share * bits.rows).astype(np.int64))
        if looked > MOST_LOOKED * bits.rows:
            self._abandon()

    def choose(self, share: Any, rows: int) -> None:
        """Between two batches: plan anew if more fields do not repeat, or if predicates were counted anew."""
        if rows < self._plan_at or share is None:
            return
        fresh = self._planned | {field for field in self._fields if field.is_fresh}
        if fresh and (fresh != self._planned or share is not self._share):
            self._planned, self._share = fresh, share
            self._make(fresh, share)

    def _abandon(self) -> None:
        """The stream is no longer what it was: scan everything, until much more was seen."""
        for field in self._planned:
            field.leave_out(frozenset())
        self._plan, self._planned, self._plan_at = None, frozenset(), self._plan_at * PLANNED_AGAIN

    def _make(self, fresh: frozenset[TextField], share: Any) -> None:
        relaxed = [possible(one, known, self._tests) for one, known in zip(self._given, self._numbers, strict=True)]
        common = {number for field in fresh for number in field.tests.optional if share[number] > COMMON}
        literals = common.union(*(field.literals for field in fresh))
        left_out = _chosen(relaxed, self._numbers, share, literals)
        using = [
            [number for leaf in leaves(one) if (number := known[leaf.predicate]) in left_out]
            for one, known in zip(self._given, self._numbers, strict=True)
        ]
        rules = [rule for rule, mine in enumerate(using) if mine]
        weaker = [_without(relaxed[rule], self._numbers[rule], left_out) for rule in rules]
        for field in fresh:
            field.leave_out(left_out & (field.literals | field.tests.optional))
        numbers = np.array(sorted(left_out), np.int64)
        program = Program(weaker, [self._numbers[rule] for rule in rules], measured=False, share=share)
        fields = {field: field.by_rule([using[rule] for rule in rules]) for field in fresh}
        self._plan = _Plan(program, fields, numbers, share[numbers])


def _chosen(conditions: Sequence[Condition], numbers: Sequence[Numbers], share: Any, literals: set[int]) -> frozenset[int]:
    """Those that are no witness, and that rules ask for less often than they would be found."""
    needed, wanted = set[int](), np.zeros(len(share))
    for condition, known in zip(conditions, numbers, strict=True):
        cost, witnesses = witness(condition, known, share) or (1.0, ())
        needed.update(witnesses)
        wanted[list({known[leaf.predicate] for leaf in leaves(condition)})] += cost
    return frozenset(number for number in literals - needed if wanted[number] <= share[number] + SPARE)


def _without(condition: Condition, numbers: Numbers, left_out: frozenset[int]) -> Condition:
    """A condition that is true at least wherever the given one is, whatever holds of what was left out."""
    if isinstance(condition, Leaf):
        return TRUE if numbers[condition.predicate] in left_out else condition
    join = both if isinstance(condition, All) else either
    return join(_without(part, numbers, left_out) for part in condition.parts)
