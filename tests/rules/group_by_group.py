"""Correlations group by group and event by event, in plain Python: what `etl.rules.correlation.evaluation` must equal."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, Protocol

from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation, Kind, Threshold, holds
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.windows import MAX_SHOWN


class Event(NamedTuple):
    """The part of an event that a correlation uses. Events sort by time."""

    micros: int
    offset: int
    order: int
    """The index of its rule among the correlation's rules."""

    rule: str
    value: str | None = None
    sample: str | None = None


@dataclass
class WindowState:
    """The state of a correlation in one group."""

    events: list[Event] = field(default_factory=list)
    bursts: list[tuple[int, int]] = field(default_factory=list)
    """Times at which the condition first and last held, for each burst that an alert was given for."""


@dataclass(frozen=True)
class Alert:
    """A window that met the condition."""

    start_micros: int
    """Time of the window's first event."""

    last_micros: int
    count: int
    measure: float
    rules: tuple[str, ...]
    values: tuple[str, ...]
    samples: tuple[str, ...]


def advance(one: Correlation, state: WindowState, events: Iterable[Event], watermark: int) -> list[Alert]:
    """Process further events. Returns the alerts, and removes state that can no longer matter."""
    state.events = sorted((*state.events, *events), key=lambda event: event[:3])
    alerts = list(_evaluate_sliding(one, state) if one.is_monotonic else _evaluate_closed(one, state, watermark))
    if one.is_monotonic:
        _drop_old(one, state, watermark)
    return alerts


# ── Evaluated with each event ─────────────────────────────────────────────────────────────────────


def _evaluate_sliding(one: Correlation, state: WindowState) -> Iterator[Alert]:
    """An alert for each burst: the condition holds, and did not hold within a timespan before."""
    window = SLIDING_MEASURES[one.kind](one)
    first = 0
    for at, event in enumerate(state.events):  # a window slides over events that depend on one another: no column work
        while state.events[first].micros <= event.micros - one.span_micros:
            window.remove(state.events[first])
            first += 1
        window.add(event)
        if window.holds() and _starts_burst(one, state, event.micros):
            yield _make_alert(state.events[first : at + 1], window.measure())


def _starts_burst(one: Correlation, state: WindowState, micros: int) -> bool:
    """Whether a burst starts at this time; if it belongs to a known burst, that one is prolonged."""
    for at, (since, last) in enumerate(state.bursts):
        if since - one.span_micros < micros < last + one.span_micros:
            state.bursts[at] = (min(since, micros), max(last, micros))
            return False
    state.bursts.append((micros, micros))
    return True


def _drop_old(one: Correlation, state: WindowState, watermark: int) -> None:
    """Remove events that no window can contain, and bursts that no event can prolong."""
    kept = [event for event in state.events if event.micros > watermark - one.span_micros]
    state.events = _limit(one, _drop_settled(one, kept, watermark))
    earliest = min((event.micros for event in kept), default=None)
    state.bursts = [] if earliest is None else [burst for burst in state.bursts if burst[1] + one.span_micros > earliest]


def _drop_settled(one: Correlation, events: list[Event], watermark: int) -> list[Event]:
    old = [event for event in events if event.micros < watermark]
    expected = _relevant_settled_events(one)
    return events if len(old) <= expected else [*old[-expected:], *events[len(old) :]]


def _relevant_settled_events(one: Correlation) -> int:
    """How many events before the watermark matter: if only events are counted, as many as the condition asks for."""
    if one.kind != "event_count" or not isinstance(one.condition, Threshold):
        return sys.maxsize
    return max(1, ceil(one.condition.number) + 1)


def _limit(one: Correlation, events: list[Event]) -> list[Event]:
    """At most `MAX_EVENTS` events: the latest of each rule or value first, then the latest."""
    if len(events) <= MAX_EVENTS:
        return events
    latest: dict[object, int] = {}
    for at, event in enumerate(events):
        latest[event.value if one.kind == "value_count" else event.rule] = at
    chosen = sorted(latest.values())[-MAX_EVENTS:]
    others = sorted(set(range(len(events))) - set(chosen))
    return [events[at] for at in sorted([*chosen, *others[len(others) - (MAX_EVENTS - len(chosen)) :]])]


# ── Evaluated when a window has closed ────────────────────────────────────────────────────────────


def _evaluate_closed(one: Correlation, state: WindowState, watermark: int) -> Iterator[Alert]:
    while state.events and state.events[0].micros + one.span_micros <= watermark:
        end = state.events[0].micros + one.span_micros
        inside = [event for event in state.events if event.micros < end]
        state.events = state.events[len(inside) :]
        measure = measure_window(one, inside)
        if measure is not None and meets_condition(one, inside, measure):
            yield _make_alert(inside, measure)
    state.events = _limit(one, state.events)


def _make_alert(events: Sequence[Event], measure: float) -> Alert:
    shown = dict.fromkeys(event.value for event in events if event.value is not None)
    samples = [event.sample for event in events if event.sample is not None]
    return Alert(
        start_micros=events[0].micros,
        last_micros=events[-1].micros,
        count=len({event[:2] for event in events}),
        measure=measure,
        rules=tuple(dict.fromkeys(event.rule for event in events)),
        values=tuple(shown)[:MAX_SHOWN],
        samples=tuple(dict.fromkeys(samples))[:MAX_SHOWN],
    )


# ── Measures ──────────────────────────────────────────────────────────────────────────────────────


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


# ── Chains ────────────────────────────────────────────────────────────────────────────────────────

GroupKey = tuple[str, ...]
"""The values of a member's group fields. A member that other correlations build on may group by more fields than the head."""


@dataclass
class Group:
    """The window states of a family in one group of its head: one for each member and key."""

    states: dict[tuple[str, GroupKey], WindowState] = field(default_factory=dict)

    def advance(self, family: Family, watermark: int) -> list[Alert]:
        """Process the events in the states up to the watermark. Returns the alerts of the family's head."""
        new_events: dict[tuple[str, GroupKey], list[Event]] = {}
        alerts: list[Alert] = []
        for member in family.members:
            keys = dict.fromkeys((*(key for key in self.states if key[0] == member.id), *_keys_of(member, new_events)))
            for key in keys:
                state = self.states.setdefault(key, WindowState())
                found = advance(member, state, new_events.get(key, ()), watermark)
                for above in family.above(member):
                    events = new_events.setdefault((above.id, _key_above(above, member, key[1])), [])
                    events += (_as_event(above, member, alert) for alert in found)
                alerts = found if member is family.head else alerts
        self.states = {key: state for key, state in self.states.items() if state.events}
        return alerts


def _keys_of(member: Correlation, keys: Iterable[tuple[str, GroupKey]]) -> Iterator[tuple[str, GroupKey]]:
    return (key for key in keys if key[0] == member.id)


def _key_above(above: Correlation, member: Correlation, key: GroupKey) -> GroupKey:
    """Return the key of ``above``, which builds on ``member``, for a key of ``member``."""
    values = dict(zip(member.group_by, key, strict=True))
    return tuple(values[above.field_of(name, member.id)] for name in above.group_by)


def _as_event(above: Correlation, member: Correlation, alert: Alert) -> Event:
    """Return an alert as an event of ``above``, which builds on it; its time is that of the last event."""
    sample = alert.samples[0] if alert.samples else None
    return Event(alert.last_micros, 0, above.rules.index(member.id), member.id, None, sample)
