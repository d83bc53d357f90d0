"""The measures of correlations: over windows that slide event by event, and over closed windows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from etl.rules.correlation.model import Correlation, Kind, Threshold, holds

if TYPE_CHECKING:
    from etl.rules.correlation.windows import Event


class SlidingMeasure(Protocol):
    """A measure of a window that slides."""

    def add(self, event: Event) -> None:
        """Add an event that is later than all others."""

    def remove(self, event: Event) -> None:
        """Remove the earliest event."""

    def measure(self) -> float:
        """The current measure."""

    def holds(self) -> bool:
        """Whether the condition is true of the current window."""


class _Sum:
    """Events, or the sum of their values."""

    def __init__(self, one: Correlation) -> None:
        self._weight: Callable[[Event], float] = number if one.kind == "value_sum" else lambda _: 1
        self._condition = one.condition
        self._sum: float = 0

    def add(self, event: Event) -> None:
        self._sum += self._weight(event)

    def remove(self, event: Event) -> None:
        self._sum -= self._weight(event)

    def measure(self) -> float:
        return self._sum

    def holds(self) -> bool:
        assert isinstance(self._condition, Threshold)
        return self._condition.holds(self._sum)


class _Distinct:
    """Distinct values, or the rules with events."""

    def __init__(self, one: Correlation) -> None:
        self._by_rule = one.kind == "temporal"
        self._condition = one.condition
        self._counts: Counter[str | None] = Counter()

    def add(self, event: Event) -> None:
        self._counts[event.rule if self._by_rule else event.value] += 1

    def remove(self, event: Event) -> None:
        key = event.rule if self._by_rule else event.value
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

    def measure(self) -> float:
        return len(self._counts)

    def holds(self) -> bool:
        if isinstance(self._condition, Threshold):
            return self._condition.holds(len(self._counts))
        return holds(self._condition, {key for key in self._counts if key is not None})


class _Order:
    """Whether events of all rules are in the window in the order of the rules."""

    def __init__(self, one: Correlation) -> None:
        self._rules, self._span = one.rules, one.span_micros
        self._begun: list[int | None] = [None] * len(one.rules)
        """For each prefix of the order, the latest start time of a run of events that completes the prefix."""
        self._whole = False

    def add(self, event: Event) -> None:
        whole = False
        for place in range(len(self._rules) - 1, -1, -1):
            if self._rules[place] != event.rule:
                continue
            begun = self._begun[place - 1] if place else event.micros
            if begun is None or begun <= event.micros - self._span:
                continue
            known = self._begun[place]
            self._begun[place] = begun if known is None else max(known, begun)
            whole |= place == len(self._rules) - 1
        self._whole = whole

    def remove(self, event: Event) -> None:
        """Start times show which runs are over, so nothing is removed."""

    def measure(self) -> float:
        return len(self._rules)

    def holds(self) -> bool:
        return self._whole


SLIDING_MEASURES: Mapping[Kind, Callable[[Correlation], SlidingMeasure]] = {
    "event_count": _Sum,
    "value_sum": _Sum,
    "value_count": _Distinct,
    "temporal": _Distinct,
    "temporal_ordered": _Order,
}
"""By kind, for monotonic conditions."""


def measure_window(one: Correlation, events: Sequence[Event]) -> float | None:
    """The measure of a whole window."""
    if one.kind == "event_count":
        return len(events)
    if one.kind == "temporal":
        return len({event.rule for event in events})
    if one.kind == "value_count":
        return len({event.value for event in events})
    numbers = sorted(number(event) for event in events)
    if one.kind == "value_sum":
        return math.fsum(numbers)
    if one.kind == "value_avg":
        return math.fsum(numbers) / len(numbers)
    return _percentile(numbers, one.percentile)


def meets_condition(one: Correlation, events: Sequence[Event], measure: float) -> bool:
    """Whether a whole window meets the condition."""
    if isinstance(one.condition, Threshold):
        return one.condition.holds(measure)
    return holds(one.condition, {event.rule for event in events})


def number(event: Event) -> float:
    """The value of an event as a number; only events with a finite value are routed to numeric measures."""
    return float(event.value or 0)


def _percentile(numbers: Sequence[float], share: float) -> float:
    """Interpolated between two values, as Spark's ``percentile``."""
    place = share * (len(numbers) - 1)
    low = math.floor(place)
    high = min(low + 1, len(numbers) - 1)
    return numbers[low] + (numbers[high] - numbers[low]) * (place - low)
