"""Sigma's correlation rules: which rules' events they count, in which time, and the condition of an alert."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

Kind = Literal[
    "event_count", "value_count", "value_sum", "value_avg", "value_percentile", "value_median", "temporal", "temporal_ordered"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_VALUES: frozenset[Kind] = frozenset({"value_count", "value_sum", "value_avg", "value_percentile", "value_median"})
ORDER: Kind = "temporal_ordered"

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
    "eq": operator.eq,
    "neq": operator.ne,
}
_GROWING: frozenset[Kind] = frozenset({"event_count", "value_count", "value_sum", "temporal"})
"""Kinds whose measure only grows with further events."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A comparison of the measure with a number."""

    operator: str
    number: float

    def holds(self, measured: float) -> bool:
        """Whether a measure meets it."""
        return _COMPARE[self.operator](measured, self.number)


@dataclass(frozen=True, slots=True)
class RulePresent:
    """Events of a rule are in the window."""

    rule: str


@dataclass(frozen=True, slots=True)
class BooleanExpression:
    """``and``, ``or`` or ``not`` over expressions."""

    operator: Literal["and", "or", "not"]
    operands: tuple[Expression, ...]


Expression: TypeAlias = RulePresent | BooleanExpression


def holds(expression: Expression, present: Collection[str]) -> bool:
    """Whether an expression is true if events of these rules are in the window."""
    if isinstance(expression, RulePresent):
        return expression.rule in present
    found = [holds(part, present) for part in expression.operands]
    if expression.operator == "not":
        return not any(found)
    return all(found) if expression.operator == "and" else any(found)


def rules_in(expression: Expression) -> Iterator[str]:
    """The rules that an expression names, in the order of its text."""
    if isinstance(expression, RulePresent):
        yield expression.rule
    else:
        for part in expression.operands:
            yield from rules_in(part)


def words_in(expression: Expression) -> Iterator[str]:
    """The words ``and``, ``or``, ``not`` in an expression."""
    if isinstance(expression, BooleanExpression):
        yield expression.operator
        for part in expression.operands:
            yield from words_in(part)


@dataclass(frozen=True, slots=True)
class Correlation:
    """A rule over the events that other rules match. Names of fields are Sigma's, or aliases."""

    id: str
    title: str
    kind: Kind
    rules: tuple[str, ...]
    """Names or ids as written; after `families.resolve_names` ids."""

    group_by: tuple[str, ...]
    span_micros: int
    condition: Threshold | Expression
    values: tuple[str, ...] = ()
    """Fields whose values are counted or measured."""

    percentile: float = 0.5
    """For ``value_percentile``, from 0 to 1."""

    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    """Alias → rule → the field that it stands for in the rule's events."""

    generate: bool = False
    """Whether the rules that it names also give matches by themselves."""

    name: str = ""
    level: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    file: str = ""
    line: int = 0

    @property
    def is_monotonic(self) -> bool:
        """Whether further events can make the condition true but never false: then it is evaluated with each event."""
        if self.kind == ORDER:
            return True
        if isinstance(self.condition, Threshold):
            return self.kind in _GROWING and self.condition.operator in ("gt", "gte")
        return "not" not in words_in(self.condition)

    def field_of(self, name: str, rule: str) -> str:
        """The field that a name of ``group_by`` or ``values`` stands for in the events of a rule."""
        return self.aliases.get(name, {}).get(rule, name)
