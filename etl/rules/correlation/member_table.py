"""Correlations as arrays, for kernels that evaluate many at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation, Expression, Kind, RulePresent, Threshold

if TYPE_CHECKING:
    from etl.rules.correlation.kernels import Conditions

COUNT, SUM, VALUES, RULES, EXPRESSION, ORDER, MEAN, PERCENTILE = range(8)
"""What is measured: events, the sum of their values, distinct values, distinct rules, which rules, their order, a mean or
percentile of values."""

WORDS = ("lt", "lte", "gt", "gte", "eq", "neq")
AND, OR, NOT = -1, -2, -3
"""Words of conditions in postfix order, with the number of their operands; others are the rank of a rule."""

_KINDS: Mapping[Kind, int] = {
    "event_count": COUNT,
    "value_sum": SUM,
    "value_count": VALUES,
    "temporal": RULES,
    "temporal_ordered": ORDER,
    "value_avg": MEAN,
    "value_median": PERCENTILE,
    "value_percentile": PERCENTILE,
}
_BOOLEAN = {"and": AND, "or": OR, "not": NOT}


@dataclass(frozen=True)
class MemberTable:
    """The members of some families, each with a number. A correlation on which several families build is a member of each."""

    families: Mapping[str, Family]

    @cached_property
    def members(self) -> list[tuple[Family, Correlation]]:
        """By number."""
        return [(family, member) for family in self.families.values() for member in family.members]

    @cached_property
    def numbers(self) -> Mapping[tuple[str, str], int]:
        """Ids of head and member → number."""
        return {(family.head.id, member.id): number for number, (family, member) in enumerate(self.members)}

    @cached_property
    def levels(self) -> Any:
        """How many correlations each builds on, one on another: they are evaluated in this order."""
        found: dict[tuple[str, str], int] = {}
        for family, member in self.members:
            below = [found[family.head.id, rule] for rule in member.rules if (family.head.id, rule) in found]
            found[family.head.id, member.id] = max(below, default=-1) + 1
        return np.array(list(found.values()), np.int64)

    @cached_property
    def is_head(self) -> Any:
        return self._array(lambda family, one: one is family.head, np.bool_)

    @cached_property
    def spans(self) -> Any:
        """Microseconds."""
        return self._array(lambda _, one: one.span_micros)

    @cached_property
    def monotonic(self) -> Any:
        return self._array(lambda _, one: one.is_monotonic, np.bool_)

    @cached_property
    def kinds(self) -> Any:
        """`COUNT` to `PERCENTILE`."""
        return self._array(lambda _, one: _kind(one))

    @cached_property
    def words(self) -> Any:
        """Numbers in `WORDS`; -1 where the condition is not a comparison."""
        return self._array(lambda _, one: WORDS.index(one.condition.operator) if isinstance(one.condition, Threshold) else -1)

    @cached_property
    def thresholds(self) -> Any:
        """The numbers in conditions; NaN where there is none."""
        return self._array(lambda _, one: one.condition.number if isinstance(one.condition, Threshold) else np.nan, np.float64)

    @cached_property
    def shares(self) -> Any:
        """Of percentiles."""
        return self._array(lambda _, one: one.percentile, np.float64)

    @cached_property
    def group_sizes(self) -> Any:
        """Fields of each member's family."""
        return self._array(lambda family, _: len(family.head.group_by))

    @cached_property
    def part_sizes(self) -> Any:
        """Fields of each member's own groups; none of a head."""
        return self._array(lambda family, one: 0 if one is family.head else len(one.group_by))

    @cached_property
    def settled(self) -> Any:
        """How many events before the watermark matter: if only events are counted, as many as the condition asks for."""
        return self._array(lambda _, one: _settling_count(one))

    @cached_property
    def program(self) -> tuple[Any, Any]:
        """Conditions over rules in postfix order (int64[words, 2]), and where those of each member begin."""
        return _join([list(_program(one)) for _, one in self.members], 2)

    @cached_property
    def orders(self) -> tuple[Any, Any]:
        """The ranks of rules in their order, and where those of each member begin."""
        ranks = [[one.rules.index(rule) for rule in one.rules] if _kind(one) == ORDER else [] for _, one in self.members]
        return _join(ranks, 1)

    @cached_property
    def conditions(self) -> Conditions:
        """For kernels."""
        from etl.rules.correlation.kernels import Conditions

        (program, program_starts), (orders, order_starts) = self.program, self.orders
        return Conditions(
            self.spans,
            self.monotonic,
            self.kinds,
            self.words,
            self.thresholds,
            self.shares,
            program_starts,
            program,
            order_starts,
            orders,
        )

    @cached_property
    def max_rules(self) -> int:
        """Maximum number of rules of a member."""
        return max((len(one.rules) for _, one in self.members), default=0)

    def rank(self, number: int, rule: str) -> int:
        """The index of a rule among those of a member, -1 if it is not one of them."""
        rules = self.members[number][1].rules
        return rules.index(rule) if rule in rules else -1

    def _array(self, of: Callable[[Family, Correlation], Any], type_: Any = np.int64) -> Any:
        return np.array([of(family, one) for family, one in self.members], type_)


def _kind(one: Correlation) -> int:
    return EXPRESSION if _KINDS[one.kind] == RULES and not isinstance(one.condition, Threshold) else _KINDS[one.kind]


def _settling_count(one: Correlation) -> int:
    if one.kind != "event_count" or not isinstance(one.condition, Threshold):
        return sys.maxsize
    return max(1, ceil(one.condition.number) + 1)


def _program(one: Correlation) -> Iterator[tuple[int, int]]:
    if _kind(one) == EXPRESSION:
        assert not isinstance(one.condition, Threshold)
        yield from _postfix(one.condition, one.rules)


def _postfix(expression: Expression, rules: Sequence[str]) -> Iterator[tuple[int, int]]:
    if isinstance(expression, RulePresent):
        yield (rules.index(expression.rule), 1) if expression.rule in rules else (OR, 0)
        return
    for operand in expression.operands:
        yield from _postfix(operand, rules)
    yield _BOOLEAN[expression.operator], len(expression.operands)


def _join(lists: Iterable[Sequence[Any]], width: int) -> tuple[Any, Any]:
    found = list(lists)
    starts = np.append(0, np.cumsum([len(one) for one in found], dtype=np.int64)).astype(np.int64)
    values = np.array([value for one in found for value in one], np.int64)
    return values.reshape(-1, width) if width > 1 else values, starts
