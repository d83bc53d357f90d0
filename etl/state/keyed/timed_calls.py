"""Calls of a function of the user for each key in the order of time, in which the timers of the key have their turn.

Events of one time are one call, and a timer is called before the events that come after it. So it does not matter which events
arrive together.
"""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from etl.state.keyed.key_calls import EVENTS_AND_STATE, Event, KeyCalls, KeyResults, parts_of
from etl.udf.declaration import UserFunction
from etl.udf.event_calls import as_dicts
from etl.udf.loading import load
from etl.udf.row_calls import as_list

MAX_CALLS = 100_000
"""Calls of the timers of one key in a micro-batch: a timer that sets another one again and again would never end."""

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class FailedTimer(NamedTuple):
    """A timer whose call failed."""

    key: int
    time: int
    reason: str


@dataclass
class TimedCalls(KeyCalls):
    """Rows are events, and timers that are due, which are not given to the function: ``is_timer[row]``."""

    on_timer: UserFunction = field(kw_only=True)
    times: Sequence[int] = field(kw_only=True)
    """Of each row, microseconds since the epoch."""
    is_timer: Sequence[bool] = field(kw_only=True)
    timers: list[list[int]] = field(kw_only=True)
    """The times of the timers of each key; after `run` those that wait."""
    wakes: list[int | None] = field(kw_only=True)
    """The time of the row that waits for each key."""
    keys: Sequence[str] = field(kw_only=True)
    time: str = field(kw_only=True)
    """The event time field, empty if there is none."""
    until: int = field(kw_only=True)
    """Timers before this time are called."""
    longest: int = field(kw_only=True)
    """The longest time from now to a timer, in microseconds."""
    failed_timers: list[FailedTimer] = field(default_factory=list)

    def run(self) -> KeyResults:
        """Call the functions for all keys; results and states are checked together, or one by one if any is not as declared."""
        call, on_timer, given = load(self.function), load(self.on_timer), [sorted(one) for one in self.timers]
        try:
            return self._run(call, on_timer, checks=False)
        except ValueError:
            self.failures, self.failed_timers, self.timeouts, self.timers = {}, [], 0, given
            return self._run(call, on_timer, checks=True)

    def _run(self, call: Any, on_timer: Any, checks: bool) -> KeyResults:
        events = as_dicts(self.events)
        results, states = list[Event](), list[Any]()
        for number, state in enumerate(self.states()):
            found, after = self._run_key(number, state, call, on_timer, events, checks)
            results += found
            states.append(after)
        return KeyResults(*self.convert(results, states), self.failures)

    def _run_key(
        self, number: int, state: Any, call: Any, on_timer: Any, events: list[Event], checks: bool
    ) -> tuple[list[Event], Any]:
        rows = [row for row in range(self.firsts[number], self.firsts[number + 1]) if not self.is_timer[row]]
        key = {name: events[self.firsts[number]][name] for name in self.keys}
        results, timers, at, calls = list[Event](), self.timers[number], 0, 0
        while True:
            due = min(timers, default=None)
            if at < len(rows) and (due is None or self.times[rows[at]] <= due):
                end = at + 1
                while end < len(rows) and self.times[rows[end]] == self.times[rows[at]]:
                    end += 1
                found, state, timers = self._call_events(call, [*rows[at:end]], events, state, timers, checks)
                at = end
            elif due is not None and due < self.until:
                if calls == MAX_CALLS:
                    reason = f"{self.on_timer.name}() was called {MAX_CALLS:,} times for one key in a micro-batch; its timers end"
                    self.failed_timers.append(FailedTimer(number, due, reason))
                    timers = []
                    continue  # events of the key that are left have their turn
                calls += 1
                found, state, timers = self._call_timer(on_timer, number, key, due, state, timers, checks)
            else:
                break
            results += found
        self.timers[number] = timers
        return results, state

    def _call_events(
        self, call: Any, rows: list[int], events: list[Event], state: Any, timers: list[int], checks: bool
    ) -> tuple[list[Event], Any, list[int]]:
        """Call the function with events of one time; if it fails, with each of their halves."""
        first, last, time = rows[0], rows[-1] + 1, self.times[rows[0]]
        if self.give_up(first, last):
            return [], state, timers
        given = [deepcopy(events[row]) for row in rows]
        before = deepcopy(state)
        found, reason, is_timeout = self.attempt(lambda: self._read_returned(call(given, state), time, None, checks))
        if not reason:
            return found
        if len(rows) == 1 or is_timeout:
            self.failures |= dict.fromkeys(rows, reason)
            return [], before, timers
        middle = len(rows) // 2
        left, state, timers = self._call_events(call, rows[:middle], events, before, timers, checks)
        right, state, timers = self._call_events(call, rows[middle:], events, state, timers, checks)
        return left + right, state, timers

    def _call_timer(
        self, call: Any, number: int, key: Event, due: int, state: Any, timers: list[int], checks: bool
    ) -> tuple[list[Event], Any, list[int]]:
        """Call the function of timers. The timer is over, whether it fails or not."""
        rest, before, time = [one for one in timers if one != due], deepcopy(state), _EPOCH + due * _MICROSECOND
        found, reason, _ = self.attempt(
            lambda: self._read_returned(call(dict(key), state, time), due, due, checks), self.on_timer
        )
        if reason:
            self.failed_timers.append(FailedTimer(number, due, reason))
            return [], before, rest
        known = {**key, self.time: time} if self.time else key
        results, state, timers = found
        return [{**known, **one} if isinstance(one, dict) else one for one in results], state, timers

    def _time_of_call(self, time: int) -> int:
        """From when on the limit of timers counts: the event time; or the clock, where a micro-batch that runs again is called
        later than it was planned."""
        return time if self.time else max(time, current_micros())

    def _read_returned(self, returned: Any, time: int, after: int | None, checks: bool) -> tuple[list[Event], Any, list[int]]:
        """What a call returned, with its timers as times. Raises ValueError for what is not as declared."""
        given, state, timers = parts_of(returned, (*EVENTS_AND_STATE, "timers"))
        results = as_list(given)
        if checks and (problem := self.problem(results, state)):
            raise ValueError(problem)
        requested = [] if timers is None or state is None else timers if isinstance(timers, (list, tuple, set)) else [timers]
        found = sorted({_micros(one) for one in requested})
        if after is not None and found and found[0] <= after:
            raise ValueError(f"it set a timer at {_EPOCH + found[0] * _MICROSECOND}, which is not after the time of the call")
        if found and found[-1] - self._time_of_call(time) > self.longest:
            shown = _EPOCH + found[-1] * _MICROSECOND
            raise ValueError(f"it set a timer at {shown}, which is later than `timer_limit` allows")
        return results, state, found


def current_micros() -> int:
    """The time of the clock, microseconds since the epoch."""
    return clock.time_ns() // 1000


def _micros(value: Any) -> int:
    """Microseconds since the epoch; a time without a zone is in UTC."""
    if not isinstance(value, datetime):
        raise ValueError(f"it returned {type(value).__name__} as a timer, and no datetime")
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def timer_rejects(failed: Sequence[FailedTimer], keys: pa.RecordBatch, time: str) -> tuple[pa.RecordBatch, pa.Array]:
    """Timers whose calls failed as events: the key and the time; and why."""
    events = keys.take(pa.array([one.key for one in failed], pa.int64()))
    times = pa.array([one.time for one in failed], pa.timestamp("us", "UTC"))
    return events.append_column(time, times), pa.array([one.reason for one in failed], pa.string())
