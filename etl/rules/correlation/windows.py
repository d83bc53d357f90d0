"""One correlation in one group: events → alerts. Invariant: the alerts do not depend on how events are split into batches.

The state holds the events of the last timespan. A monotonic condition (`Correlation.is_monotonic`) is evaluated with each event,
over the window that ends with it. Any other condition is evaluated when the watermark passes the end of a window; these windows
begin with a group's first event and follow one another. Both process events in the order of their times, including late ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from etl.rules.correlation.measures import SLIDING_MEASURES, measure_window, meets_condition
from etl.rules.correlation.model import Correlation, Threshold
from etl.rules.correlation.reader import MAX_EVENTS

MAX_SHOWN = 10
"""Values and samples that an alert carries."""


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


def next_deadline(one: Correlation, state: WindowState) -> int | None:
    """The watermark at which the group has to be processed again: the end of a window, or of the state. None without state."""
    if not state.events:
        return None
    return (state.events[-1] if one.is_monotonic else state.events[0]).micros + one.span_micros


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
    wanted = relevant_settled_events(one)
    return events if len(old) <= wanted else [*old[-wanted:], *events[len(old) :]]


def relevant_settled_events(one: Correlation) -> int:
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
