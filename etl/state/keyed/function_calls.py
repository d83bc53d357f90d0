"""The operator of `keyed_python`: a function of the user gets the events of a key and the state of the key.

A past row is the state of a key after a micro-batch; the last one of a key counts. A key whose function has given up the state
has null there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import PANE, TIMESTAMP, ComponentError, PartRows, Schema
from etl.state.aggregates.accumulator import Numbers
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import as_events, as_times, hashes_of, numbers, unlike, whole
from etl.state.keyed.time_to_live import UNLIMITED, KeyLifetimes, TimeToLive
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past
from etl.state.over.key_series import SEQUENCE, past_rows_of
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import UserFunction
from etl.udf.event_calls import as_dicts
from etl.udf.failures import FAILURES, failure_of
from etl.udf.loading import load, restore_state
from etl.udf.values import to_array

STATE = "\0value"
"""Column of past rows: the state of the key."""


@dataclass(frozen=True)
class FunctionCalls(WaitingEvents):
    """``fields`` are those of events, then those that the function gives."""

    function: UserFunction
    incoming: Schema
    ttl: TimeToLive = UNLIMITED

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events."""
        return self.prepare_events(events, self.incoming, watermark)

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """What the function gives for each key, in the order of keys, then the new states."""
        times = numbers(rows, TIME)
        keys = EventsByKey.of(hashes_of(rows), times, numbers(rows, ORDER))
        lifetimes = self.ttl.split_lifetimes(keys, times, *past_rows_of(keys, past, self._past_columns))
        groups = lifetimes.groups
        latest = self._latest(lifetimes)
        events = as_dicts(as_events(rows.take(pa.array(groups.order)), self.incoming))
        results, states = self._call_for_keys(events, groups.firsts.tolist(), self._states(lifetimes.past, latest))
        if results:
            yield self._as_batch(results)
        yield from self._past_rows(rows, lifetimes, latest, states, now)

    # ── Calls ──

    def _call_for_keys(
        self, events: list[dict[str, Any]], firsts: list[int], states: list[Any]
    ) -> tuple[list[dict[str, Any]], list[Any]]:
        """The events that the function gives for all keys, and the state of each key after it."""
        results: list[dict[str, Any]] = []
        after: list[Any] = []
        call = self._loaded
        with CallGuard(self.function.timeout.total_seconds()) as guard:
            for number, state in enumerate(states):
                guard.next_call()
                try:
                    given, new = call(events[firsts[number] : firsts[number + 1]], state)
                    results += given
                except (*FAILURES, CallTimeoutError) as error:
                    raise self._failed(failure_of(error, self.function)) from error
                after.append(new)
        return results, after

    @cached_property
    def _loaded(self) -> Callable[..., Any]:
        return load(self.function)

    def _failed(self, reason: str) -> ComponentError:
        return ComponentError(f"keyed_python: {reason}; catch it in the function, or drop such events before")

    def _as_batch(self, results: list[dict[str, Any]]) -> pa.RecordBatch:
        known = frozenset(self.fields.names)
        for one in results:
            if not isinstance(one, dict):
                raise self._failed(f"{self.function.name}() returned {type(one).__name__}, and no event")
            if not one.keys() <= known:
                name = sorted(map(str, one.keys() - known))[0]
                raise self._failed(f"{self.function.name}() returned the field {name!r}, which `fields` does not declare")
        columns = [self._array([one.get(field.name) for one in results], field.type, field.name) for field in self.fields]
        return pa.RecordBatch.from_arrays(columns, names=self.fields.names)

    def _array(self, values: list[Any], type_: pa.DataType, name: str) -> pa.Array:
        try:
            return to_array(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._failed(f"{self.function.name}() returned a wrong {name}: {error}") from error

    # ── States ──

    @cached_property
    def _past_columns(self) -> Schema:
        assert self.function.state is not None
        own = [(TIME, pa.int64()), (SEQUENCE, pa.int64()), (STATE, self.function.state)]
        rest = [(HASH, pa.uint64()), (HASH2, pa.uint64()), (PANE, pa.int64())]
        return pa.schema([*own, *rest, *(self.incoming.field(name) for name in self.keys)])

    def _latest(self, lifetimes: KeyLifetimes) -> Numbers:
        """int64[lifetimes]: the number of the past row with the state of each; -1 if it has none."""
        found = np.full(len(lifetimes.groups.hash), -1)
        order = np.argsort(numbers(lifetimes.past, SEQUENCE), kind="stable")
        found[lifetimes.past_keys[order]] = order
        return found

    def _states(self, past: pa.Table, latest: Numbers) -> list[Any]:
        """The state of each key as the function takes it."""
        column = past.column(STATE).combine_chunks().take(pa.array(latest, mask=latest < 0))
        return [None if one is None else restore_state(self.function, one) for one in column.to_pylist()]

    def _past_rows(
        self, rows: pa.Table, lifetimes: KeyLifetimes, latest: Numbers, states: list[Any], now: int
    ) -> Iterator[pa.Table]:
        """The states of the keys whose state does not expire before the next event."""
        groups, times = lifetimes.groups, numbers(rows, TIME)
        last = groups.order[groups.firsts[1:] - 1]
        panes = self.ttl.expiry_panes(times[last])
        sequence = np.zeros(len(last), np.int64)
        known = latest >= 0
        sequence[known] = numbers(lifetimes.past, SEQUENCE)[latest[known]] + 1
        is_known = np.array([state is not None for state in states], bool)
        needed = np.flatnonzero(lifetimes.is_last & (panes > now) & (is_known | known))
        if len(needed):
            at = pa.array(last[needed])
            columns = {name: rows.column(name).take(at) for name in (HASH, HASH2, TIME, *self.keys)}
            columns |= {SEQUENCE: pa.array(sequence[needed]), PANE: pa.array(panes[needed])}
            columns[STATE] = self._array([states[number] for number in needed], self._past_columns.field(STATE).type, "state")
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
        fields[unlike("last_event", self.keys)] = TIMESTAMP
        fields[unlike("state", self.keys)] = self.function.state
        return pa.schema(list(fields.items()))

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The state of each key that has one and has not expired."""
        tables = [table for table in kept.tables(watermark + 1) if is_past(table)]
        if not tables:
            return
        past = whole(tables)
        alive = self.needed_past(past) & self.ttl.are_alive(past, watermark)
        alive &= past.column(STATE).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        rows = past.filter(pa.array(alive))
        keys = as_events(rows, pa.schema([self.incoming.field(name) for name in self.keys]))
        columns = [*keys.columns, as_times(numbers(rows, TIME)), rows.column(STATE).combine_chunks()]
        yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)
