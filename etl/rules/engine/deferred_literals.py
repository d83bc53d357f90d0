"""Literals of texts that do not repeat, searched for only in the rows where a rule may match without them.

A scan finds every literal in every text, though for most rules the rarest literal, their witness, is missing. After a field's
texts were found not to repeat, and the share of rows with each literal is known, the scan searches only for witnesses. Then every
rule is evaluated as if all other literals were present. Invariant: no rule matches in any other row. The other literals are
searched for only in these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from etl.rules.conditions.tree import TRUE, And, Condition, Leaf, all_of, any_of, leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.deferred_predicates import Numbers, relax
from etl.rules.engine.program import Program, choose_witnesses
from etl.rules.engine.text_field import TextField

FIRST_PLANNED, PLANNED_AGAIN = 8192, 16
"""Rows after which literals are chosen, and the factor until they are chosen again."""

SPARE = 1e-4
"""Share of the rows by which a literal may be searched for more often than it is found."""

COMMON = 0.02
"""Share of the rows from which on the literals of a regular expression are left out: the expression is tested more often then."""

MAX_SEARCHES = 4
"""Literals searched for in a row, from which on a scan for all of them is faster."""


@dataclass(frozen=True)
class _Plan:
    """The literals that the scans of some fields leave out."""

    program: Program
    """The rules with such literals: where they may match."""
    fields: Mapping[TextField, tuple[Any, Any]]
    """The literals of each field by rule: those of rule r are ``entries[first[r]:first[r + 1]]``."""
    numbers: Any
    share: Any
    """The predicates left out, and the share of rows in which each held when all were searched for."""


class DeferredLiterals:
    """Chooses which literals scans leave out, and searches for them where they matter."""

    def __init__(
        self, conditions: Sequence[Condition], numbers: Sequence[Numbers], tests: Collection[int], fields: Sequence[TextField]
    ) -> None:
        """``tests`` are deferred predicates: they hold nowhere else than their bits say, but not everywhere there."""
        self._given, self._numbers, self._tests, self._fields = conditions, numbers, tests, fields
        self._plan: _Plan | None = None
        self._planned: frozenset[TextField] = frozenset()
        self._share: Any = None
        self._plan_at = FIRST_PLANNED

    @property
    def left_out(self) -> int:
        """The number of literals that scans leave out."""
        return len(self._plan.numbers) if self._plan is not None else 0

    def evaluate(self, columns: Mapping[str, Column], bits: Bits) -> None:
        """Search for the literals that the scans of this batch left out."""
        if self._plan is None:
            return
        truth, _, _ = self._plan.program.evaluate(bits)
        searches = sum(field.find_in_rows(truth, *literals, columns, bits) for field, literals in self._plan.fields.items())
        # these literals would seem rare when witnesses are chosen again: report as many hits as a scan would find
        hits = self._plan.numbers
        bits.hits[hits] = np.maximum(bits.hits[hits], (self._plan.share * bits.rows).astype(np.int64))
        if searches > MAX_SEARCHES * bits.rows:
            self._abandon()

    def choose(self, share: Any, rows: int) -> None:
        """Between two batches: plan again if more fields do not repeat, or if the shares were measured again."""
        if rows < self._plan_at or share is None:
            return
        distinct = self._planned | {field for field in self._fields if field.has_distinct_texts}
        if distinct and (distinct != self._planned or share is not self._share):
            self._planned, self._share = distinct, share
            self._make_plan(distinct, share)

    def _abandon(self) -> None:
        """The stream has changed: scan for all literals until many more rows were observed."""
        for field in self._planned:
            field.leave_out(frozenset())
        self._plan, self._planned, self._plan_at = None, frozenset(), self._plan_at * PLANNED_AGAIN

    def _make_plan(self, distinct: frozenset[TextField], share: Any) -> None:
        relaxed = [relax(one, known, self._tests) for one, known in zip(self._given, self._numbers, strict=True)]
        common = {number for field in distinct for number in field.tests.optional if share[number] > COMMON}
        literals = common.union(*(field.literals for field in distinct))
        left_out = _choose_literals(relaxed, self._numbers, share, literals)
        using = [
            [number for leaf in leaves(one) if (number := known[leaf.predicate]) in left_out]
            for one, known in zip(self._given, self._numbers, strict=True)
        ]
        rules = [rule for rule, mine in enumerate(using) if mine]
        weaker = [_assume_true(relaxed[rule], self._numbers[rule], left_out) for rule in rules]
        for field in distinct:
            field.leave_out(left_out & (field.literals | field.tests.optional))
        numbers = np.array(sorted(left_out), np.int64)
        program = Program(weaker, [self._numbers[rule] for rule in rules], measured=False, share=share)
        fields = {field: field.literals_by_rule([using[rule] for rule in rules]) for field in distinct}
        self._plan = _Plan(program, fields, numbers, share[numbers])


def _choose_literals(
    conditions: Sequence[Condition], numbers: Sequence[Numbers], share: Any, literals: set[int]
) -> frozenset[int]:
    """The literals that are not witnesses, and that would be searched for less often than they would be found."""
    needed, searches = set[int](), np.zeros(len(share))
    for condition, known in zip(conditions, numbers, strict=True):
        cost, witnesses = choose_witnesses(condition, known, share) or (1.0, ())
        needed.update(witnesses)
        searches[list({known[leaf.predicate] for leaf in leaves(condition)})] += cost
    return frozenset(number for number in literals - needed if searches[number] <= share[number] + SPARE)


def _assume_true(condition: Condition, numbers: Numbers, left_out: frozenset[int]) -> Condition:
    """A condition that is true wherever the given one is, whatever holds of the predicates left out."""
    if isinstance(condition, Leaf):
        return TRUE if numbers[condition.predicate] in left_out else condition
    join = all_of if isinstance(condition, And) else any_of
    return join(_assume_true(part, numbers, left_out) for part in condition.parts)
