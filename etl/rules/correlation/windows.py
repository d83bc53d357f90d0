"""One correlation in one group: events → alerts, exactly, whatever batches they come in.

What is remembered is the events of the last timespan. A condition that further events cannot undo (`rising`) is judged
with each event, over the window that ends in it; another one in windows that begin with a group's first event and follow
one another, when the watermark passes their end. Both see events in the order of their times, also those that came late.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from etl.rules.correlation.measures import RISING, measured, satisfied
from etl.rules.correlation.model import Correlation, Threshold
from etl.rules.correlation.reader import MOST_EVENTS

MOST_SHOWN = 10
"""Values and samples that an alert carries."""


class Event(NamedTuple):
    """What a correlation sees of an event. Events sort by time."""

    micros: int
    offset: int
    order: int
    """The place of its rule among the correlation's."""

    rule: str
    value: str | None = None
    sample: str | None = None


@dataclass
class Memory:
    """What is remembered of one group."""

    events: list[Event] = field(default_factory=list)
    bursts: list[tuple[int, int]] = field(default_factory=list)
    """Of each burst that an alert was given for: when the condition first and last held."""


@dataclass(frozen=True)
class Alert:
    """A condition that was met."""

    start_micros: int
    """Time of the window's first event."""

    last_micros: int
    count: int
    measure: float
    rules: tuple[str, ...]
    values: tuple[str, ...]
    samples: tuple[str, ...]


def advance(one: Correlation, memory: Memory, events: Iterable[Event], watermark: int) -> list[Alert]:
    """Alerts that further events give; forgets what cannot matter any more."""
    memory.events = sorted((*memory.events, *events), key=lambda event: event[:3])
    alerts = list(_risen(one, memory) if one.rising else _closed(one, memory, watermark))
    if one.rising:
        _forget(one, memory, watermark)
    return alerts


def due(one: Correlation, memory: Memory) -> int | None:
    """When the watermark has to be looked at again: a window's end, or the time to forget."""
    if not memory.events:
        return None
    return (memory.events[-1] if one.rising else memory.events[0]).micros + one.span_micros


# ── Judged with each event ────────────────────────────────────────────────────────────────────────


def _risen(one: Correlation, memory: Memory) -> Iterator[Alert]:
    """An alert for each burst: where the condition holds, and did not within a timespan before."""
    window = RISING[one.kind](one)
    first = 0
    for at, event in enumerate(memory.events):  # a window slides over events that depend on one another: no column work
        while memory.events[first].micros <= event.micros - one.span_micros:
            window.remove(memory.events[first])
            first += 1
        window.add(event)
        if window.holds() and _begins(one, memory, event.micros):
            yield _alert(memory.events[first : at + 1], window.measure())


def _begins(one: Correlation, memory: Memory, micros: int) -> bool:
    """Whether a burst begins here; one that goes on is prolonged."""
    for at, (since, last) in enumerate(memory.bursts):
        if since - one.span_micros < micros < last + one.span_micros:
            memory.bursts[at] = (min(since, micros), max(last, micros))
            return False
    memory.bursts.append((micros, micros))
    return True


def _forget(one: Correlation, memory: Memory, watermark: int) -> None:
    """Events that no window can hold any more, and bursts that nothing can prolong."""
    kept = [event for event in memory.events if event.micros > watermark - one.span_micros]
    memory.events = _bounded(one, _settled(one, kept, watermark))
    earliest = min((event.micros for event in kept), default=None)
    memory.bursts = [] if earliest is None else [burst for burst in memory.bursts if burst[1] + one.span_micros > earliest]


def _settled(one: Correlation, events: list[Event], watermark: int) -> list[Event]:
    old = [event for event in events if event.micros < watermark]
    wanted = settled_events(one)
    return events if len(old) <= wanted else [*old[-wanted:], *events[len(old) :]]


def settled_events(one: Correlation) -> int:
    """How many events that none can come before matter: where only events are counted, as many as the condition asks for."""
    if one.kind != "event_count" or not isinstance(one.condition, Threshold):
        return sys.maxsize
    return max(1, ceil(one.condition.number) + 1)


def _bounded(one: Correlation, events: list[Event]) -> list[Event]:
    """At most `MOST_EVENTS`: the latest of each rule and value, then the latest."""
    if len(events) <= MOST_EVENTS:
        return events
    latest: dict[object, int] = {}
    for at, event in enumerate(events):
        latest[event.value if one.kind == "value_count" else event.rule] = at
    chosen = sorted(latest.values())[-MOST_EVENTS:]
    others = sorted(set(range(len(events))) - set(chosen))
    return [events[at] for at in sorted([*chosen, *others[len(others) - (MOST_EVENTS - len(chosen)) :]])]


# ── Judged when a window has closed ───────────────────────────────────────────────────────────────


def _closed(one: Correlation, memory: Memory, watermark: int) -> Iterator[Alert]:
    while memory.events and memory.events[0].micros + one.span_micros <= watermark:
        end = memory.events[0].micros + one.span_micros
        inside = [event for event in memory.events if event.micros < end]
        memory.events = memory.events[len(inside) :]
        measure = measured(one, inside)
        if measure is not None and satisfied(one, inside, measure):
            yield _alert(inside, measure)
    memory.events = _bounded(one, memory.events)


def _alert(events: Sequence[Event], measure: float) -> Alert:
    shown = dict.fromkeys(event.value for event in events if event.value is not None)
    samples = [event.sample for event in events if event.sample is not None]
    return Alert(
        start_micros=events[0].micros,
        last_micros=events[-1].micros,
        count=len({event[:2] for event in events}),
        measure=measure,
        rules=tuple(dict.fromkeys(event.rule for event in events)),
        values=tuple(shown)[:MOST_SHOWN],
        samples=tuple(dict.fromkeys(samples))[:MOST_SHOWN],
    )
