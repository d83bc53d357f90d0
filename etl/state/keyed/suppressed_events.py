"""One event of each key in a time, with the number of those that were suppressed before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, NEVER, PANE, TIMESTAMP, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates.accumulator import Numbers
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import COUNT, TIME, EventsByKey
from etl.state.keyed.event_rows import as_events, as_times, hashes_of, numbers, prepare_rows, unused_name, whole
from etl.state.keyed.kernels import suppress_repeats
from etl.state.keyed.latest_rows import LatestRows, existing_columns, with_column

VERSION = "\0version"
"""Column (int64) of state rows: of several rows of a key the one with the largest version is valid."""

_PANES, _SUMMARY_PANES = 4, 16
"""Number of panes that a row's time is divided into, without and with summaries. More panes remove rows earlier, and need more
files: rows stay at most a quarter of the time longer than they are needed, and a summary is late by at most a sixteenth."""


@dataclass(frozen=True)
class SuppressedEvents:
    """State has a row for each key: when its last event passed, and how many were suppressed since. A later row of a key replaces
    the earlier one. Its pane is the time from which on it is no longer needed, and is never earlier than that of the row before.
    """

    fields: Schema
    """Fields of the results: those of the events, then `count` and `summary`."""
    keys: tuple[str, ...]
    time: str
    within: int
    """How long events of a key are suppressed after one that passes, in microseconds."""
    remember: int
    """How long the number of suppressed events is stored after `within`, in microseconds."""
    count: str
    """The new field for the number of suppressed events."""
    summary: str | None
    """The new boolean field that is true for summaries and false for events that pass; None if there are no summaries."""
    hashed: bool = True
    indexed: bool = True
    after_run: AfterRun = "appended"

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in (self.count, self.summary)])

    @property
    def _stored_fields(self) -> list[str]:
        """The fields that a state row has: the keys, or with summaries all fields of the last suppressed event."""
        return self._events.names if self.summary else list(self.keys)

    @property
    def _pane(self) -> int:
        """The length, in microseconds, of a pane of keys without suppressed events."""
        return -(-self.within // (_SUMMARY_PANES if self.summary else _PANES))

    # ── Events ──

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Return the events with a pane, and how many were late: older than the watermark."""
        weights = {COUNT: np.ones(events.num_rows, np.int64)}
        return prepare_rows(events, self._events, self.time, self._pane, watermark, weights)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Combine state rows to the last one of each key, and events with equal key and time to the first one.

        Whatever other events there are, all but the first are suppressed: it carries their number. With summaries the last one
        stays as well, because a summary shows it.
        """
        if VERSION in rows.column_names:
            return rows.filter(pa.array(EventsByKey.of(hashes_of(rows), numbers(rows, VERSION)).last(1)))
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME))
        keys, times = (column[groups.order] for column in (groups.numbers(), numbers(rows, TIME)))
        firsts = np.flatnonzero(np.append(True, (np.diff(times) != 0) | (np.diff(keys) != 0))[: len(rows)])
        if len(firsts) == len(rows):
            return rows
        lasts = np.append(firsts[1:], len(rows)) - 1
        weights = numbers(rows, COUNT)[groups.order]
        total = np.add.reduceat(weights, firsts)
        weights[firsts] = total - (lasts > firsts) if self.summary else total
        remaining = np.union1d(firsts, lasts) if self.summary else firsts
        return with_column(rows.take(pa.array(groups.order[remaining])), COUNT, weights[remaining])

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events, or summaries may be due."""
        return arrived is not None or (self.summary is not None and stored is not None and clock.before < stored.last)

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether all keys are read, not only those of events: at the end of all sources each key may have a summary."""
        return self.summary is not None and clock.now >= ALWAYS

    def reads_panes(self, clock: WatermarkAdvance, panes: Numbers) -> Numbers:
        """Return which panes are read: those of keys whose time is over, for which summaries may be due."""
        return (panes > clock.before) & (panes <= clock.now) & (self.summary is not None)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """Yield the events that pass, in the order of their times, then summaries, then state rows."""
        known, tables = stored.tables(clock.before + 1), [*arrived.tables()]
        if self.summary:  # a row without an event for each key whose time may be over
            tables += [_without_event(table) for table in stored.tables(clock.before + 1, clock.now + 1)]
        if not tables:
            return
        rows = whole(tables)
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME))
        latest = LatestRows.of(groups, known, (VERSION,), (PANE, TIME, COUNT), self._stored_fields if self.summary else ())
        events = rows.take(pa.array(groups.order))
        times, weights = numbers(events, TIME), numbers(events, COUNT)
        passed, waiting = latest.values(TIME, NEVER), latest.values(COUNT, 0)
        passes, counts = np.empty(len(rows), bool), np.zeros(len(rows), np.int64)
        suppress_repeats(groups.firsts, times, weights, np.int64(self.within), passed, waiting, passes, counts)
        passing = np.flatnonzero(passes)
        passing = passing[np.argsort(times[passing], kind="stable")]
        if len(passing):
            yield self._results(events.take(pa.array(passing)), counts[passing], is_summary=False)
        yield from self._summaries_and_rows(latest, events, passed, waiting, clock.now)

    # ── Keys ──

    def _summaries_and_rows(
        self, latest: LatestRows, events: pa.Table, passed: Numbers, waiting: Numbers, now: int
    ) -> Iterator[pa.RecordBatch | pa.Table]:
        """Summaries of the keys whose time is over, then state rows of the others that have new events."""
        last = latest.groups.firsts[1:] - 1
        changed = numbers(events, COUNT)[last] > 0
        panes = np.maximum(self._panes(passed, waiting), latest.values(PANE, NEVER))
        over = np.flatnonzero((panes <= now) & (waiting > 0) & (self.summary is not None))
        if len(over):
            candidates = whole(
                [existing_columns(events, self._stored_fields), existing_columns(latest.known, self._stored_fields)]
            )
            rows = np.where(changed, last, len(events) + latest.rows)[over]
            yield self._results(candidates.take(pa.array(rows)), waiting[over], is_summary=True)
        alive = np.flatnonzero(changed & (panes > now))
        if len(alive):
            own = existing_columns(events, [HASH, HASH2, *self._stored_fields]).take(pa.array(last[alive]))
            values = {PANE: panes, TIME: passed, COUNT: waiting, VERSION: latest.values(VERSION, 0) + 1}
            for name, column in values.items():
                own = own.append_column(name, pa.array(column[alive]))
            yield own

    def _panes(self, passed: Numbers, waiting: Numbers) -> Numbers:
        """int64[keys]: from when on the row of each key is no longer needed, in microseconds."""
        panes = -(-(passed + self.within) // self._pane) * self._pane
        if self.summary:
            return panes
        pane = -(-self.remember // _PANES)
        return np.where(waiting > 0, -(-(passed + self.within + self.remember) // pane) * pane, panes)

    def _results(self, rows: pa.Table, counts: Numbers, is_summary: bool) -> pa.RecordBatch:
        marks = [pa.array(np.full(len(rows), is_summary))] if self.summary else []
        columns = [*as_events(rows, self._events).columns, pa.array(counts), *marks]
        return pa.RecordBatch.from_arrays(columns, names=self.fields.names)

    # ── State ──

    @property
    def state_fields(self) -> Schema:
        """The fields that are stored, when an event passed last, and how many were suppressed since."""
        stored = [self._events.field(name) for name in self._stored_fields]
        return pa.schema([*stored, (unused_name("passed_at", self.fields.names), TIMESTAMP), (self.count, pa.int64())])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yield the keys of which events are suppressed, or were suppressed and are not yet counted in a result."""
        tables = stored.tables(watermark + 1)
        if tables:
            rows = self.combine(whole(tables))
            events = as_events(rows, pa.schema([self._events.field(name) for name in self._stored_fields]))
            columns = [*events.columns, as_times(numbers(rows, TIME)), rows.column(COUNT).combine_chunks()]
            yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the watermark has reached the time from which on the rows are no longer needed."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The watermark of the results: events pass as they come, summaries are of events older by up to `within` and a pane."""
        return watermark - self.within - self._pane if self.summary else watermark


def _without_event(table: pa.Table) -> pa.Table:
    """Convert state rows to rows without an event, which are before all events of their key."""
    return with_column(with_column(table, COUNT, np.zeros(len(table), np.int64)), TIME, np.full(len(table), NEVER))
