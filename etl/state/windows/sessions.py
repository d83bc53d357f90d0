"""Sessions: events of a group that follow one another within a gap, as partial results that merge where they touch.

Rows of a session are added as its events arrive, and read once, when the watermark passes their end: then the session is over,
or rows that touch them end later. The rows that were read of a session that goes on become one row, which ends where the session
ends as far as it is known: so a session is written again once in a gap, and no row of other sessions is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, AfterRun, EmitProgress, PaneSpan, PartRows, PreparedEvents, Schema, WatermarkAdvance
from etl.state.aggregates import group_rows
from etl.state.key_hash import HASH
from etl.state.windows.aggregation import Aggregation, EventLengths, Numbers, event_times, pane_column

_START, _END, _SESSION = "\0start", "\0end", "\0session"

_PANES = 32
"""Panes in a gap: so much of the open sessions is looked through in a micro-batch, besides what ends."""


class _Spans(NamedTuple):
    """Sessions, each of rows of one group that touch."""

    of_rows: Numbers
    """int64[rows]: the session of each row."""
    starts: Numbers
    """int64[sessions]"""
    ends: Numbers


@dataclass(frozen=True)
class Sessions:
    """Sessions of groups; ``gap`` in microseconds, which for gaps of events is that of events without one.

    A row is a part of a session that is known so far, from its start to the time at which it ends without a further event. Its
    pane is that of its end less the gap. Rows whose end the watermark has passed are not needed.
    """

    aggregation: Aggregation
    gap: int
    gaps: EventLengths | None = None
    """The gap after each event, if events have one each."""
    on_close: bool = True
    on_change: bool = False
    hashed: bool = False
    indexed: bool = True
    after_run: AfterRun = "added"

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return -(-self.gap // _PANES)

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups, in an order that does not depend on that of ``group_by``."""
        return self.aggregation.keys

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Parts of sessions, and the number of events whose sessions are closed."""
        prepared = self.prepare_or_reject(events, watermark, EmitProgress())
        return prepared.rows, prepared.late

    def prepare_or_reject(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> PreparedEvents:
        """The same, with the events for which an aggregate fails."""
        times = event_times(events, self.aggregation.time)
        ends = times + (self.gaps.of(events) if self.gaps else self.gap)
        late = ends <= watermark
        lost = int(late.sum())
        if lost:
            events, times, ends = events.filter(pa.array(~late)), times[~late], ends[~late]
        edges = {_START: pa.array(times), _END: pa.array(ends)}
        rows, rejects = self.aggregation.lift(events, {**pane_column(times), **edges})
        return PreparedEvents(self.combine(rows), lost, rejects)

    def combine(self, rows: pa.Table) -> pa.Table:
        """One row for all that touch."""
        return self._merged(rows, self._spans(rows))

    def _spans(self, rows: pa.Table) -> _Spans:
        grouping = group_rows(rows, self.keys)
        starts, ends = (rows.column(name).to_numpy() for name in (_START, _END))
        groups = np.empty(len(rows), np.int64)
        groups[grouping.order] = grouping.ids
        order = np.lexsort((starts, groups))
        sorted_starts, sorted_groups = starts[order], groups[order]
        last_ends = _running_maximum(ends[order], sorted_groups)
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(sorted_groups) != 0) | (sorted_starts[1:] > last_ends[:-1])
        at = np.flatnonzero(first)
        of_rows = np.empty(len(rows), np.int64)
        of_rows[order] = np.cumsum(first) - 1
        return _Spans(of_rows, sorted_starts[at], np.append(last_ends[at[1:] - 1], last_ends[-1:]))

    def _merged(self, rows: pa.Table, spans: _Spans) -> pa.Table:
        """One row for each session that has some, with the span of the session."""
        merged = self.aggregation.merge(rows.append_column(_SESSION, pa.array(spans.of_rows[: len(rows)])), (_SESSION,))
        numbers = merged.column(_SESSION).to_numpy()
        starts, ends = spans.starts[numbers], spans.ends[numbers]
        positions = ends - self.gap
        edges = {**pane_column(positions - positions % self.pane), _START: pa.array(starts), _END: pa.array(ends)}
        return pa.table({**edges, **{name: merged.column(name) for name in self.aggregation.columns}})

    def remaining(self, rows: pa.Table, watermark: int) -> pa.Table:
        """The rows that end after the watermark."""
        return _rows_ending(rows, watermark)

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether a session has changed, or the end of a row may have been passed."""
        if self.on_change and arrived is not None:
            return True
        spans = [span for span in (arrived, stored) if span is not None]
        return clock.before < clock.now and any(
            span.first + self.gap <= clock.now and not self.is_over(span.last, clock.before) for span in spans
        )

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether many sessions may end."""
        return clock.now - clock.before > self.pane

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The sessions that have changed and those that close, and of those that stay open what ends by now, with their end."""
        if self.on_change:
            yield from self._changed_sessions(clock, arrived, stored)
        span = (self._first_pane(clock.before), clock.now - self.gap + 1)
        passed = [_rows_ending(table, clock.before, clock.now) for table in (*stored.in_order(*span), *arrived.in_order(*span))]
        passed = [table for table in passed if len(table)]
        if not passed:
            return
        rows = self.aggregation.concat(passed)
        later = (table for state in (stored, arrived) for table in self._rows_after(clock.now, state, rows))
        spans = self._spans(self._edges([rows, *later]))
        merged = self._merged(rows, spans)
        closed = merged.column(_END).to_numpy() <= clock.now
        if self.on_close:
            yield _results(self.aggregation, merged.filter(pa.array(closed)))
        yield merged.filter(pa.array(~closed))

    def _changed_sessions(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch]:
        """The sessions that have new events."""
        new = arrived.in_order()
        if not new:
            return
        first = self.aggregation.concat(new)
        rows = self.aggregation.concat([first, *self._rows_after(clock.before, stored, first)])
        spans = self._spans(rows)
        changed = np.isin(spans.of_rows, spans.of_rows[: len(first)])
        merged = self._merged(rows.filter(pa.array(changed)), spans._replace(of_rows=spans.of_rows[changed]))
        yield _results(self.aggregation, merged, "on_change")

    def _rows_after(self, watermark: int, state: PartRows, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows of the same groups that end after a watermark."""
        hashes = np.unique(rows.column(HASH).to_numpy())
        yield from (_rows_ending(table, watermark) for table in state.of_hashes(hashes, self._first_pane(watermark)))

    def _edges(self, tables: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables([table.select([*self.keys, _START, _END]) for table in tables], promote_options="default")

    def _first_pane(self, watermark: int) -> int:
        """The first pane that can have rows that end after the watermark."""
        return watermark - self.gap - self.pane + 1

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.aggregation.fields

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The open sessions, which end at ``window_end`` if no event follows."""
        tables = [_rows_ending(table, watermark) for table in stored.in_order(self._first_pane(watermark))]
        if any(map(len, tables)):
            yield _results(self.aggregation.unconditional, self.combine(self.aggregation.concat(tables)))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the watermark has passed the end of all rows of the pane."""
        return last_pane + self.pane + self.gap <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The watermark: a session may have begun long before, and is late for a downstream step that goes by its start."""
        return watermark


def _rows_ending(rows: pa.Table, after: int, until: int = ALWAYS) -> pa.Table:
    """The rows with ``after < end <= until``."""
    ends = rows.column(_END).to_numpy()
    chosen = (ends > after) & (ends <= until)
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def _results(aggregation: Aggregation, sessions: pa.Table, reason: str = "on_close") -> pa.RecordBatch:
    return aggregation.results(sessions, sessions.column(_START).to_numpy(), sessions.column(_END).to_numpy(), reason)


def _running_maximum(values: Numbers, groups: Numbers) -> Numbers:
    """The largest value of a group so far; ``groups`` ascend."""
    order = np.lexsort((values, groups))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    found: Numbers = values[order][np.maximum.accumulate(rank)]
    return found
