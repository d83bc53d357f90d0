"""Sigma's correlation rules: what they count of which rules' events, in what time, and when that is worth an alert."""

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
_RISING: frozenset[Kind] = frozenset({"event_count", "value_count", "value_sum", "temporal"})
"""Kinds whose measure only grows while events come."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A comparison of what was measured with a number."""

    operator: str
    number: float

    def holds(self, measured: float) -> bool:
        """Whether it is true of a measure."""
        return _COMPARE[self.operator](measured, self.number)


@dataclass(frozen=True, slots=True)
class Seen:
    """That events of a rule were seen."""

    rule: str


@dataclass(frozen=True, slots=True)
class Joined:
    """``and``, ``or`` or ``not`` of conditions."""

    word: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]


Expression: TypeAlias = Seen | Joined


def holds(expression: Expression, seen: Collection[str]) -> bool:
    """Whether an expression is true of the rules that were seen."""
    if isinstance(expression, Seen):
        return expression.rule in seen
    found = [holds(part, seen) for part in expression.parts]
    if expression.word == "not":
        return not any(found)
    return all(found) if expression.word == "and" else any(found)


def rules_in(expression: Expression) -> Iterator[str]:
    """The rules that an expression names, in the order of its text."""
    if isinstance(expression, Seen):
        yield expression.rule
    else:
        for part in expression.parts:
            yield from rules_in(part)


def words_in(expression: Expression) -> Iterator[str]:
    """The words that join its parts."""
    if isinstance(expression, Joined):
        yield expression.word
        for part in expression.parts:
            yield from words_in(part)


@dataclass(frozen=True, slots=True)
class Correlation:
    """A rule over the events that other rules match. Names of fields are Sigma's, or aliases."""

    id: str
    title: str
    kind: Kind
    rules: tuple[str, ...]
    """Names or ids, as written; behind `etl.rules.families.resolved` ids."""

    group_by: tuple[str, ...]
    span_micros: int
    condition: Threshold | Expression
    values: tuple[str, ...] = ()
    """Fields whose values are counted or measured."""

    percentile: float = 0.5
    """For ``value_percentile``, from 0 to 1."""

    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    """Alias → rule → the field that it means there."""

    generate: bool = False
    """Whether the rules it names give matches of their own, too."""

    name: str = ""
    level: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    file: str = ""
    line: int = 0

    @property
    def rising(self) -> bool:
        """Whether further events can only make the condition true, never false: then it is judged with each event."""
        if self.kind == ORDER:
            return True
        if isinstance(self.condition, Threshold):
            return self.kind in _RISING and self.condition.operator in ("gt", "gte")
        return "not" not in words_in(self.condition)

    def field_of(self, name: str, rule: str) -> str:
        """The field that a name of ``group_by`` or ``values`` means in the events of a rule."""
        return self.aliases.get(name, {}).get(rule, name)
