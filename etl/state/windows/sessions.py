"""Sessions: events of a group that follow one another within a gap, as partial results that merge where they touch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates import group_rows
from etl.state.windows.aggregation import Aggregation, EventLengths, Numbers, event_times, pane_column
from etl.state.windows.shape_run import CHANGED, Largest, with_number

_START, _END, _SESSION = "\0start", "\0end", "\0session"


@dataclass(frozen=True)
class Sessions:
    """Sessions of groups; ``gap`` in microseconds, which for gaps of events is that of events without one.

    A row is the part of a session that is known so far, from its start to the time at which it ends without a further event. Its
    pane is the time of its last event, rounded down to whole gaps.
    """

    aggregation: Aggregation
    gap: int
    gaps: EventLengths | None = None
    """The gap behind each event, if events have one each."""
    on_close: bool = True
    on_change: bool = False

    @property
    def hashed(self) -> bool:
        """Windows are merged, not looked up."""
        return False

    @property
    def after_run(self) -> AfterRun:
        """Closed sessions leave the state."""
        return "rewritten"

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups, in an order that does not depend on that of ``group_by``."""
        return self.aggregation.keys

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Parts of sessions, and the number of events whose sessions are closed."""
        times = event_times(events, self.aggregation.time)
        ends = times + (self.gaps.of(events) if self.gaps else self.gap)
        late = ends <= watermark
        lost = int(late.sum())
        if lost:
            events, times, ends = events.filter(pa.array(~late)), times[~late], ends[~late]
        edges = {_START: pa.array(times), _END: pa.array(ends)}
        return self.combine(self.aggregation.lift(events, {**pane_column(times), **edges})), lost

    def combine(self, rows: pa.Table) -> pa.Table:
        """One row for all that touch."""
        grouping = group_rows(rows, self.keys)
        starts, ends = (rows.column(name).to_numpy() for name in (_START, _END))
        groups = np.empty(len(rows), np.int64)
        groups[grouping.order] = grouping.ids
        order = np.lexsort((starts, groups))
        sorted_starts, sorted_groups = starts[order], groups[order]
        reached = _running_maximum(ends[order], sorted_groups)
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(sorted_groups) != 0) | (sorted_starts[1:] > reached[:-1])
        at = np.flatnonzero(first)
        sessions = np.cumsum(first) - 1
        merged = self.aggregation.merge(rows.take(pa.array(order)).append_column(_SESSION, pa.array(sessions)), (_SESSION,))
        numbers = merged.column(_SESSION).to_numpy()
        return self._rows(merged, sorted_starts[at][numbers], np.append(reached[at[1:] - 1], reached[-1:])[numbers])

    def _rows(self, merged: pa.Table, starts: Numbers, ends: Numbers) -> pa.Table:
        panes = (ends - self.gap) // self.gap * self.gap
        edges = {**pane_column(panes), _START: pa.array(starts), _END: pa.array(ends)}
        return pa.table({**edges, **{name: merged.column(name) for name in self.aggregation.columns}})

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether a session has changed or may close."""
        if self.on_change and arrived is not None:
            return True
        return any(span is not None and span.first + self.gap <= clock.now for span in (arrived, kept))

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The sessions of one part that have changed or close, and those that stay open."""
        new, old = arrived.tables(), kept.tables()
        if not new and not old:
            return
        if self.on_change:
            marked = [with_number(table, CHANGED, 1) for table in new] + [with_number(table, CHANGED, 0) for table in old]
            counting = replace(self, aggregation=replace(self.aggregation, hidden={CHANGED: Largest()}))
            rows = counting.combine(counting.aggregation.concat(marked))
            changed = pc.equal(rows.column(f"{CHANGED}\x000"), 1)
            rows = rows.drop_columns([f"{CHANGED}\x000"])
            yield _results(self.aggregation, rows.filter(changed), "on_change")
        else:
            rows = self.combine(self.aggregation.concat([*old, *new]))
        closed = rows.column(_END).to_numpy() <= clock.now
        if self.on_close:
            yield _results(self.aggregation, rows.filter(pa.array(closed)))
        yield rows.filter(pa.array(~closed))

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.aggregation.fields

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The open sessions, which end at ``window_end`` if no event follows."""
        tables = kept.tables()
        if tables:
            rows = self.combine(self.aggregation.concat(tables))
            is_open = rows.column(_END).to_numpy() > watermark
            yield _results(self.aggregation.unconditional, rows.filter(pa.array(is_open)))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Never: a run that closes sessions leaves the others."""
        return False

    def watermark_after(self, watermark: int) -> int:
        """The watermark: a session may have begun long before, and is late for a step behind that goes by its start."""
        return watermark


def _results(aggregation: Aggregation, sessions: pa.Table, reason: str = "on_close") -> pa.RecordBatch:
    return aggregation.results(sessions, sessions.column(_START).to_numpy(), sessions.column(_END).to_numpy(), reason)


def _running_maximum(values: Numbers, groups: Numbers) -> Numbers:
    """The largest value of a group so far; ``groups`` ascend."""
    order = np.lexsort((values, groups))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    found: Numbers = values[order][np.maximum.accumulate(rank)]
    return found
