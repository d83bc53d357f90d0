"""One event of each key for each span of time, with the number of events in the span: given when the span is over.

Past rows are spans: the event that stands for one so far, and the number of its events. A later row of a span replaces the one
before, and has the same pane: when the span is over. So a run looks up the keys of events that the watermark has passed, appends
a row for each span that has changed, and reads the spans that end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, NEVER, PANE, TIMESTAMP, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates.accumulator import Numbers
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import COUNT, TIME, EventsByKey, matching_keys
from etl.state.keyed.event_rows import as_events, as_times, hashes_of, numbers, unused_name, whole
from etl.state.keyed.kernels import assign_spans
from etl.state.keyed.latest_rows import LatestRows, existing_columns, with_column
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past

START = "\0start"
"""Column (int64) of past rows: the time of the first event of the span."""

_RUNS = 16
"""Runs in the length of a span, so that a result comes a sixteenth of a span late at most."""


@dataclass(frozen=True)
class SpanEvents(WaitingEvents):
    """Operator of `dedupe` with ``keep: last`` or ``count``."""

    within: int
    """Microseconds."""
    is_last: bool
    """Whether a span's last event is given, or its first."""
    count: str | None
    """The field for the number of events in the span."""

    @property
    def pane(self) -> int:
        """The length of a pane: watermarks in one pane close the same spans. It is even, as waiting rows' panes are."""
        return -(-self.within // (2 * _RUNS)) * 2

    def _last_run(self, watermark: int) -> int:
        """The watermark at which the last run was: the first one in its pane."""
        return max(NEVER, watermark - watermark % self.pane)

    @property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name != self.count])

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events; those older than the watermark are late."""
        return self.prepare_events(events, self._events, watermark)

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the watermark has reached another pane, and there are events."""
        return (arrived is not None or stored is not None) and self._last_run(clock.before) < self._last_run(clock.now)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The events of spans that are over, in the order of their times; and the spans that have changed."""
        runs = WatermarkAdvance(self._last_run(clock.before), self._last_run(clock.now))
        alive = stored.tables(runs.before + 2)
        past = [table for table in alive if is_past(table)]
        waiting = [*(table for table in alive if not is_past(table)), *arrived.tables()]
        passing = [rows for table in waiting if len(rows := self._select_passing(table, runs))]
        if passing:
            yield from self.pass_events(whole(passing), past, runs.now)
        else:
            yield from self._results(past, runs.now)

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """Put the events into spans; results of those that are over, and past rows of the others that have changed."""
        changed = self._changed_spans(rows, past)
        yield from self._results([*past, changed], now)
        goes_on = numbers(changed, PANE) > now + 1
        if goes_on.any():
            yield changed.filter(pa.array(goes_on))

    def _changed_spans(self, rows: pa.Table, past: Sequence[pa.Table]) -> pa.Table:
        """Past rows of the spans that these events are in."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME), numbers(rows, ORDER))
        events, names = rows.take(pa.array(groups.order)), [TIME, *self._events.names]
        latest = LatestRows.of(groups, past, (START, COUNT), (), () if self.is_last else names)
        starts = np.empty(len(rows), np.int64)
        assign_spans(groups.firsts, numbers(events, TIME), np.int64(self.within), latest.values(START, NEVER), starts)
        firsts = _firsts(*hashes_of(events), starts)
        ends = np.append(firsts[1:], len(rows))
        keys = np.repeat(np.arange(len(groups.hash)), groups.sizes)[firsts]
        goes_on = starts[firsts] == latest.values(START, NEVER)[keys]
        chosen = ends - 1 if self.is_last else np.where(goes_on, len(events) + latest.rows[keys], firsts)
        found = whole([existing_columns(events, names), existing_columns(latest.known, names)]).take(pa.array(chosen))
        columns = {
            START: starts[firsts],
            COUNT: ends - firsts + np.where(goes_on, latest.values(COUNT, 0)[keys], 0),
            PANE: -(-(starts[firsts] + self.within) // self.pane) * self.pane + 1,
            HASH: groups.hash[keys],
            HASH2: groups.hash2[keys],
        }
        for name, values in columns.items():
            found = with_column(found, name, values)
        return found

    def _results(self, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch]:
        """The events of spans that are over by now, in the order of their times."""
        over = [rows for table in past if len(rows := table.filter(pa.array(numbers(table, PANE) <= now + 1)))]
        if over:
            rows = whole(over)
            found = rows.filter(pa.array(self.needed_past(rows))).sort_by(TIME)
            counts = found if self.count is None else found.append_column(self.count, found.column(COUNT))
            yield as_events(counts, self.fields)

    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: the last past row of each span."""
        groups = EventsByKey.of(hashes_of(past), numbers(past, START), numbers(past, COUNT))
        ordered = [column[groups.order] for column in (*hashes_of(past), numbers(past, START))]
        needed = np.zeros(len(past), bool)
        needed[groups.order[np.append(_firsts(*ordered)[1:], len(past)) - 1]] = True
        return needed

    # ── State ──

    def warm_up(self) -> None:
        """Compile the look-up of spans in state, which those of sample events do not reach."""
        hashes = np.ones(1, np.uint64)
        zeros = np.zeros(1, np.int64)
        groups = EventsByKey.of((hashes, hashes), zeros, zeros)
        matching_keys((groups.hash, groups.hash2), pa.table({HASH: hashes, HASH2: hashes}))

    @property
    def state_fields(self) -> Schema:
        """The fields of events, without the one for their number, and what is known of the span."""
        names = [unused_name(name, self.fields.names) for name in ("span_start", "span_end", "events")]
        return pa.schema([*self._events, *zip(names, (TIMESTAMP, TIMESTAMP, pa.int64()), strict=True)])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The event of each span that would pass if it were over. A span that has not begun by the watermark can still move."""
        last = self._last_run(watermark)
        alive = stored.tables(last + 2)
        past = [table for table in alive if is_past(table)]
        rest = WatermarkAdvance(last, ALWAYS)
        waiting = [rows for table in alive if not is_past(table) and len(rows := self._select_passing(table, rest))]
        tables = [*past, *([self._changed_spans(whole(waiting), past)] if waiting else [])]
        if tables:
            rows = whole(tables)
            rows = rows.filter(pa.array(self.needed_past(rows)))
            begins = numbers(rows, START)
            spans = [as_times(begins), as_times(begins + self.within), rows.column(COUNT).combine_chunks()]
            columns = [*as_events(rows, self._events).columns, *spans]
            yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether a run has given the results of the pane."""
        return last_pane <= self._last_run(watermark) + 1

    def watermark_after(self, watermark: int) -> int:
        """The earliest time of a span that may not be over."""
        return watermark - self.within - self.pane


def _firsts(*columns: Numbers) -> Numbers:
    """The first row of each group of neighbours that are equal in all columns."""
    changes = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, changes))
