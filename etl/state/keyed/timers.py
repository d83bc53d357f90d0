"""Timers of keys: state rows with the key and the time, which wait for the watermark as events do.

The state of a key holds the times of its timers, and these decide. A row only makes sure that the key is looked up when the
watermark passes the time of its first timer, or earlier: so a timer that is moved with each event has one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, PANE, Rejects
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import as_events, numbers
from etl.state.keyed.key_calls import KeyCalls
from etl.state.keyed.timed_calls import TimedCalls, current_micros, timer_rejects
from etl.state.keyed.waiting_events import ORDER, waiting_panes
from etl.udf.declaration import UserFunction

TIMERS, TIMER_TIMES = "\0timers", pa.list_(pa.int64())
"""Column of the state row of a key: the times of its timers."""

WAKE = "\0wake"
"""Column of the state row of a key: the time of the row that waits for its first timer; null if none waits."""

FUNCTION_FAILED, TIMER_FAILED = "function-failed", "timer-failed"
"""The codes of events and timers for which a function fails."""

_OF_TIMER = np.iinfo(np.int64).max
"""`ORDER` of the row of a timer: it comes after all events of the same time."""


@dataclass(frozen=True)
class Timers:
    """The timers of a step."""

    function: UserFunction
    """Called when a timer is due."""
    longest: int
    """The longest time from now to a timer, in microseconds."""
    keys: tuple[str, ...]
    time: str
    """The event time field, or empty where the time of reading counts."""

    def calls(self, plain: KeyCalls, rows: pa.Table, timers: pa.Array, wakes: pa.Array, now: int) -> TimedCalls:
        """Calls for these rows, of events and of timers; ``timers`` and ``wakes`` are those of each key."""
        times = numbers(rows, TIME)
        latest = int(times.max()) if self.time else max(int(times.max()), current_micros())
        until = now if now < ALWAYS else latest + 1 + self.longest
        given = {one.name: getattr(plain, one.name) for one in fields(KeyCalls)}
        return TimedCalls(
            **given,
            on_timer=self.function,
            times=times.tolist(),
            is_timer=(numbers(rows, ORDER) == _OF_TIMER).tolist(),
            timers=[one or [] for one in timers.to_pylist()],
            wakes=wakes.to_pylist(),
            keys=self.keys,
            time=self.time,
            until=until,
            longest=self.longest,
        )

    def waiting(self, calls: TimedCalls, rows: pa.Table, now: int) -> Iterator[pa.Table | Rejects]:
        """Rows of the timers that wait after these calls, whose keys are those of ``rows``; and calls of timers that failed."""
        firsts = np.array(calls.firsts[:-1], np.int64)
        if calls.failed_timers:
            keys = as_events(rows.take(pa.array(firsts)), pa.schema([calls.events.schema.field(name) for name in self.keys]))
            events, reasons = timer_rejects(calls.failed_timers, keys, self.time or "timer")
            yield Rejects(events, TIMER_FAILED, reasons)
        rows_of_keys, times = list[int](), list[int]()
        for number, timers in enumerate(calls.timers):
            wake, first = calls.wakes[number], min(timers, default=None)
            if first is not None and (wake is None or wake < now or first < wake):
                rows_of_keys.append(calls.firsts[number])
                times.append(first)
                calls.wakes[number] = first
        if times:
            found = {name: rows.column(name).take(pa.array(rows_of_keys)) for name in (*self.keys, HASH, HASH2)}
            found |= {ORDER: pa.array(np.full(len(times), _OF_TIMER)), PANE: pa.array(waiting_panes(np.array(times), now))}
            yield pa.table({**found, TIME: pa.array(times)})
