"""The operator of `over`: running values beside the events of a key, in the order of their times.

Past rows are the columns of aggregates of events that still count, or the running totals of a key, of which the last row counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import OFFSET, PANE, TIMESTAMP, PartRows, Schema
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.argument import check_arguments
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import arrival_order, as_events, as_times, hashes_of, numbers, unused_name, whole
from etl.state.keyed.time_to_live import UNLIMITED, UNLIMITED_PANE, KeyLifetimes, TimeToLive, panes_after
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past
from etl.state.over.functions import RunningAggregate
from etl.state.over.key_series import SEQUENCE, KeySeries, past_rows_of

FIRST = "\0first"
"""Column (bool): whether a past row is the first of its key with some value."""


@dataclass(frozen=True)
class RunningValues(WaitingEvents):
    """``fields`` are those of the event, then aggregates."""

    within: int | None
    """Microseconds."""
    rows: int | None
    aggregates: Mapping[str, RunningAggregate]
    ttl: TimeToLive = UNLIMITED
    """Of keys, where the time does not bound their past rows."""

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events whose values can be computed. Raises FailedRowsError."""
        check_arguments(events, self.aggregates.values())
        return self.prepare_events(events, self._events, watermark)

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in self.aggregates])

    # ── Running values ──

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """Results for these events, then their past rows."""
        events, times, offsets = as_events(rows, self._events), numbers(rows, TIME), numbers(rows, ORDER)
        keys = EventsByKey.of(hashes_of(rows), times, offsets)
        lifetimes = self.ttl.split_lifetimes(keys, times, *past_rows_of(keys, past, self._past_columns))
        series = KeySeries.of(lifetimes.groups, times, lifetimes.past_keys, lifetimes.past, self.within, self.rows)
        lifted = self._lift(events.append_column(OFFSET, rows.column(ORDER).combine_chunks()))
        columns = self._columns(series, lifted)
        running = self._slide(series, columns)
        order = arrival_order(times, offsets)
        results = self._results(running, series.rows_of_events[order])
        arrays = [*(column.take(pa.array(order)) for column in events.columns), *results]
        yield pa.RecordBatch.from_arrays(arrays, names=self.fields.names)
        firsts = self._first_values(series, columns)[series.rows_of_events]
        panes = self._past_panes(lifetimes.groups, times)
        needed = np.flatnonzero(self._needed_later(lifetimes, times, firsts, now) & (panes > now))
        if len(needed):
            later = self._past_rows(rows, series, lifted | self._totals(running, series), firsts, needed)
            later = later.append_column(PANE, pa.array(panes[needed]))
            yield later if self.ttl.micros is None else self._with_older(later, lifetimes, panes)

    def _lift(self, events: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns of events that aggregates need, by name."""
        return {
            f"{name}\0{number}": column for name, one in self.aggregates.items() for number, column in enumerate(one.lift(events))
        }

    def _columns(self, series: KeySeries, lifted: Mapping[str, pa.Array]) -> dict[str, list[pa.Array]]:
        """The columns of past rows and events, by aggregate."""
        return {
            name: [
                series.column(f"{name}\0{number}", lifted[f"{name}\0{number}"], self._is_total(one))
                for number in range(len(one.types))
            ]
            for name, one in self.aggregates.items()
        }

    def _slide(self, series: KeySeries, columns: Mapping[str, Sequence[pa.Array]]) -> dict[str, list[pa.Array]]:
        """The running columns of each aggregate."""
        return {name: one.slide(columns[name], series.frames) for name, one in self.aggregates.items()}

    def _results(self, running: Mapping[str, Sequence[pa.Array]], rows: Numbers) -> list[pa.Array]:
        """The results of the aggregates for some rows."""
        chosen = pa.array(rows)
        found = {name: one.finish([c.take(chosen) for c in running[name]]) for name, one in self.aggregates.items()}
        return [column.cast(self.fields.field(name).type) for name, column in found.items()]

    # ── Past rows ──

    @property
    def _unbounded(self) -> bool:
        return self.within is None and self.rows is None

    def _is_total(self, aggregate: RunningAggregate) -> bool:
        """Whether past rows hold the running columns of an aggregate, not those of the event."""
        return self._unbounded and aggregate.is_total

    @cached_property
    def _depth(self) -> int | None:
        """The number of past rows of a key that are needed; None if their time tells. One more than events need: with it people
        can read the values of the last event."""
        if self._unbounded:
            return 1 + max(one.distance for one in self.aggregates.values())
        return self.rows

    @cached_property
    def _past_columns(self) -> Schema:
        """The columns of past rows that events need."""
        own = [(f"{name}\0{number}", type_) for name, one in self.aggregates.items() for number, type_ in enumerate(one.types)]
        found = pa.schema([(TIME, pa.int64()), (SEQUENCE, pa.int64()), *own])
        if self.ttl.micros is None:
            return found
        rest = pa.schema([(HASH, pa.uint64()), (HASH2, pa.uint64()), (PANE, pa.int64()), (FIRST, pa.bool_())])
        return pa.unify_schemas([found, rest, pa.schema([self.fields.field(name) for name in self.keys])])

    def _totals(self, running: Mapping[str, Sequence[pa.Array]], series: KeySeries) -> dict[str, pa.Array]:
        """The running columns of events that stand for all events up to them."""
        at = pa.array(series.rows_of_events)
        return {
            f"{name}\0{number}": column.take(at)
            for name, one in self.aggregates.items()
            for number, column in enumerate(running[name] if self._is_total(one) else ())
        }

    def _first_values(self, series: KeySeries, columns: Mapping[str, Sequence[pa.Array]]) -> Numbers:
        """bool[rows]: which rows are the first of their key with some value that has to be distinguished for ever."""
        found = np.zeros(len(series.source), bool)
        for name, one in self.aggregates.items():
            if self._unbounded and one.distinct:
                found |= series.frames.is_new(columns[name][0])
        return found

    def _needed_later(self, lifetimes: KeyLifetimes, times: Numbers, firsts: Numbers, now: int) -> Numbers:
        """bool[events]: which events count for later ones."""
        groups = lifetimes.groups
        needed = np.ones(len(times), bool) if self._depth is None else groups.last(self._depth) | firsts
        if self.within is not None:
            return needed & (times > now - self.within)
        return needed if self.ttl.micros is None else needed & lifetimes.is_last[groups.numbers()]

    def _past_rows(
        self, rows: pa.Table, series: KeySeries, columns: Mapping[str, pa.Array], firsts: Numbers, chosen: Numbers
    ) -> pa.Table:
        """The past rows of the chosen events, of which ``columns`` are those of aggregates."""
        at = pa.array(chosen)
        found = {name: rows.column(name).take(at) for name in (HASH, HASH2, TIME, *self.keys)}
        found[SEQUENCE], found[FIRST] = pa.array(series.sequence[chosen]), pa.array(firsts[chosen])
        return pa.table(found | {name: column.take(at) for name, column in columns.items()})

    def _with_older(self, later: pa.Table, lifetimes: KeyLifetimes, panes: Numbers) -> pa.Table:
        """The new past rows, and older ones of these keys that are still needed, where they get a later pane."""
        groups = lifetimes.groups
        own = panes[groups.order[groups.firsts[:-1]]][lifetimes.past_keys]
        moved = (own > numbers(lifetimes.past, PANE)) & lifetimes.is_last[lifetimes.past_keys]
        if not moved.any():
            return later
        older = lifetimes.past.set_column(lifetimes.past.column_names.index(PANE), PANE, pa.array(own)).filter(pa.array(moved))
        both = whole([later, older])
        return both.filter(pa.array(self.needed_past(both)))

    def _past_panes(self, groups: EventsByKey, times: Numbers) -> Numbers:
        """int64[events]: from when on events no longer count; with a time to live, that of the last event of their key counts."""
        if self.within is not None:
            return panes_after(times, self.within)
        last = times[groups.order[groups.firsts[1:] - 1]]
        return self.ttl.expiry_panes(last)[groups.numbers()]

    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: the last past rows of each key, and the first ones of their values; all where their time tells."""
        if self._depth is None:
            return np.ones(len(past), bool)
        current = self.ttl.are_current(past)
        if not current.all():
            found = np.zeros(len(past), bool)
            found[current] = self.needed_past(past.filter(pa.array(current)))
            return found
        firsts = past.column(FIRST).combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
        needed: Numbers = EventsByKey.of(hashes_of(past), numbers(past, SEQUENCE)).last(self._depth) | firsts
        return needed

    # ── Reading ──

    @property
    def state_fields(self) -> Schema:
        """Keys, the time of the last event, and its running values."""
        fields = {name: self.fields.field(name).type for name in self.keys}
        fields[unused_name("last_event", self.fields.names)] = TIMESTAMP
        return pa.schema([*fields.items(), *(self.fields.field(name) for name in self.aggregates)])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The running values of each key, of the events that still count at the watermark."""
        oldest = watermark - (self.within or UNLIMITED_PANE)
        tables = [table for table in stored.tables(watermark + 1) if is_past(table)]
        rows = [counting for table in tables if len(counting := table.filter(pa.array(numbers(table, TIME) > oldest)))]
        if rows:
            past = whole(rows)
            alive = self.ttl.are_alive(past, watermark)
            yield self._read(past if alive.all() else past.filter(pa.array(alive)))

    def _read(self, rows: pa.Table) -> pa.RecordBatch:
        """The running values of the last of these past rows of each key."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, SEQUENCE))
        none = EventsByKey.of(np.empty((2, 0), np.uint64), np.empty(0, np.int64))
        keyed = none._replace(firsts=np.zeros(len(groups.hash) + 1, np.int64), hash=groups.hash)
        series = KeySeries.of(keyed, np.empty(0, np.int64), groups.numbers(), rows, self.within, self.rows)
        empty = {name: pa.nulls(0, type_) for name, type_ in zip(self._past_columns.names, self._past_columns.types, strict=True)}
        running = self._slide(series, self._columns(series, empty))
        keys = as_events(rows.take(pa.array(series.last_past)), pa.schema([self.fields.field(name) for name in self.keys]))
        results = self._results(running, series.frames.begins[1:] - 1)
        arrays = [*keys.columns, as_times(numbers(rows, TIME)[series.last_past]), *results]
        return pa.RecordBatch.from_arrays(arrays, names=self.state_fields.names)
