"""The operator of `keyed_python`: a function of the user gets the events of a key and the state of the key.

A past row is the state of a key after a micro-batch; the last one of a key counts. A key whose function has given up the state
has null there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import PANE, TIMESTAMP, PaneSpan, PartRows, Rejects, Schema, WatermarkAdvance
from etl.state.aggregates.accumulator import Numbers
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import as_events, as_times, hashes_of, numbers, unused_name, whole
from etl.state.keyed.key_calls import KeyCalls
from etl.state.keyed.time_to_live import UNLIMITED, KeyLifetimes, TimeToLive
from etl.state.keyed.timed_calls import TimedCalls
from etl.state.keyed.timers import FUNCTION_FAILED, TIMER_TIMES, TIMERS, WAKE, Timers
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past, rows_passing
from etl.state.over.key_series import SEQUENCE, past_rows_of
from etl.udf.declaration import UserFunction

STATE = "\0value"
"""Column of past rows: the state of the key."""


@dataclass(frozen=True)
class FunctionCalls(WaitingEvents):
    """``fields`` are those of events, then those that the function gives."""

    function: UserFunction
    incoming: Schema
    ttl: TimeToLive = UNLIMITED
    timers: Timers | None = None

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events that pass, or may be timers that are due."""
        timed = self.timers is not None and clock.before < clock.now and stored is not None
        return timed or super().is_due(clock, arrived, stored)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table | Rejects]:
        """Pass the events and timers that the watermark has passed; without an event time all events."""
        if self.timers is None or self.waits:
            yield from super().run(clock, arrived, stored)
            return
        alive = stored.tables(clock.before + 1)
        due = [rows for table in alive if not is_past(table) and len(rows := rows_passing(table, clock))]
        if passing := [*arrived.tables(), *due]:
            yield from self.pass_events(whole(passing), [table for table in alive if is_past(table)], clock.now)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events."""
        return self.prepare_events(events, self.incoming, watermark)

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table | Rejects]:
        """What the function gives for each key, in the order of keys, then the new states and timers."""
        times = numbers(rows, TIME)
        keys = EventsByKey.of(hashes_of(rows), times, numbers(rows, ORDER))
        lifetimes = self.ttl.split_lifetimes(keys, times, *past_rows_of(keys, past, self._past_columns))
        latest = self._latest(lifetimes)
        in_order = rows.take(pa.array(lifetimes.groups.order))
        calls = self._calls(in_order, lifetimes, latest, now)
        events, states, failures = calls.run()
        if events.num_rows:
            yield events
        if failures:
            at = sorted(failures)
            reasons = pa.array([failures[row] for row in at], pa.string())
            yield Rejects(calls.events.take(pa.array(at)), FUNCTION_FAILED, reasons)
        waiting = self.timers.waiting(calls, in_order, now) if isinstance(calls, TimedCalls) and self.timers else ()
        yield from waiting
        yield from self._past_rows(rows, lifetimes, latest, states, now, calls)

    def _calls(self, rows: pa.Table, lifetimes: KeyLifetimes, latest: Numbers, now: int) -> KeyCalls:
        """The calls for rows in the order of keys and times."""
        events, firsts = as_events(rows, self.incoming), lifetimes.groups.firsts.tolist()
        rows_of_states = pa.array(latest, mask=latest < 0)
        stored = lifetimes.past.column(STATE).combine_chunks().take(rows_of_states)
        if self.timers is None:
            return KeyCalls(self.function, self.fields, events, firsts, stored)
        timers, wakes = (lifetimes.past.column(name).combine_chunks().take(rows_of_states) for name in (TIMERS, WAKE))
        return self.timers.calls(KeyCalls(self.function, self.fields, events, firsts, stored), rows, timers, wakes, now)

    # ── States ──

    @cached_property
    def _past_columns(self) -> Schema:
        assert self.function.state is not None
        own = [(TIME, pa.int64()), (SEQUENCE, pa.int64()), (STATE, self.function.state)]
        own += [(TIMERS, TIMER_TIMES), (WAKE, pa.int64())] if self.timers else []
        rest = [(HASH, pa.uint64()), (HASH2, pa.uint64()), (PANE, pa.int64())]
        return pa.schema([*own, *rest, *(self.incoming.field(name) for name in self.keys)])

    def _latest(self, lifetimes: KeyLifetimes) -> Numbers:
        """int64[lifetimes]: the number of the past row with the state of each; -1 if it has none."""
        found = np.full(len(lifetimes.groups.hash), -1)
        order = np.argsort(numbers(lifetimes.past, SEQUENCE), kind="stable")
        found[lifetimes.past_keys[order]] = order
        return found

    def _past_rows(
        self, rows: pa.Table, lifetimes: KeyLifetimes, latest: Numbers, states: pa.Array, now: int, calls: KeyCalls
    ) -> Iterator[pa.Table]:
        """The states of the keys whose state does not expire before the next event."""
        groups, times = lifetimes.groups, numbers(rows, TIME)
        last = groups.order[groups.firsts[1:] - 1]
        panes = self.ttl.expiry_panes(times[last])
        sequence = np.zeros(len(last), np.int64)
        known = latest >= 0
        sequence[known] = numbers(lifetimes.past, SEQUENCE)[latest[known]] + 1
        is_known = states.is_valid().to_numpy(zero_copy_only=False)
        needed = np.flatnonzero(lifetimes.is_last & (panes > now) & (is_known | known))
        if len(needed):
            at = pa.array(last[needed])
            columns = {name: rows.column(name).take(at) for name in (HASH, HASH2, TIME, *self.keys)}
            columns |= {SEQUENCE: pa.array(sequence[needed]), PANE: pa.array(panes[needed])}
            columns[STATE] = states.take(pa.array(needed))
            if isinstance(calls, TimedCalls):
                columns[TIMERS] = pa.array([calls.timers[number] for number in needed], TIMER_TIMES)
                columns[WAKE] = pa.array([calls.wakes[number] for number in needed], pa.int64())
            yield pa.table(columns)

    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: the last state of each key; the numbers begin again when a state has expired."""
        current = self.ttl.are_current(past)
        needed = np.zeros(len(past), bool)
        rows = past.filter(pa.array(current))
        needed[current] = EventsByKey.of(hashes_of(rows), numbers(rows, SEQUENCE)).last(1)
        return needed

    # ── Reading ──

    @property
    def state_fields(self) -> Schema:
        """Keys, the time of the last event, and the state."""
        fields = {name: self.incoming.field(name).type for name in self.keys}
        fields[unused_name("last_event", self.keys)] = TIMESTAMP
        fields[unused_name("state", self.keys)] = self.function.state
        return pa.schema(list(fields.items()))

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The state of each key that has one and has not expired."""
        tables = [table for table in stored.tables(watermark + 1) if is_past(table)]
        if not tables:
            return
        past = whole(tables)
        alive = self.needed_past(past) & self.ttl.are_alive(past, watermark)
        alive &= past.column(STATE).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        rows = past.filter(pa.array(alive))
        keys = as_events(rows, pa.schema([self.incoming.field(name) for name in self.keys]))
        columns = [*keys.columns, as_times(numbers(rows, TIME)), rows.column(STATE).combine_chunks()]
        yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)
