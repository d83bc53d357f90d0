"""Tumbling windows whose size each event has in a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, PANE, AfterRun, EmitProgress, PaneSpan, PartRows, PreparedEvents, Schema, WatermarkAdvance
from etl.state.windows.aggregation import Aggregation, EventLengths, event_times
from etl.state.windows.shape_run import CHANGED, NO_ROWS, Largest, with_number

_START = "\0start"


@dataclass(frozen=True)
class FieldWindows:
    """Windows that begin at multiples of their size. The pane of a row is the end of its window."""

    aggregation: Aggregation
    sizes: EventLengths
    on_close: bool = True
    on_change: bool = False

    @property
    def hashed(self) -> bool:
        """Windows are merged, not looked up."""
        return False

    @property
    def after_run(self) -> AfterRun:
        """Partial results stay until their window has closed."""
        return "arrived"

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups, in an order that does not depend on that of ``group_by``."""
        return self.aggregation.keys

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Partial results by window and group, and the number of events whose window is closed."""
        prepared = self.prepare_or_reject(events, watermark, EmitProgress())
        return prepared.rows, prepared.late

    def prepare_or_reject(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> PreparedEvents:
        """The same, with the events for which an aggregate fails."""
        times, sizes = event_times(events, self.aggregation.time), self.sizes.of(events)
        starts = times - times % sizes
        late = starts + sizes <= watermark
        edges = pa.table({PANE: pa.array(starts + sizes), _START: pa.array(starts)}).filter(pa.array(~late))
        columns = {name: edges.column(name).combine_chunks() for name in edges.column_names}
        rows, rejects = self.aggregation.lift(events.filter(pa.array(~late)), columns)
        return PreparedEvents(self.combine(rows), int(late.sum()), rejects)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Partial results of the same windows and groups as one."""
        return self.aggregation.merge(rows, (PANE, _START))

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether a window has changed or closes."""
        if self.on_change and arrived is not None:
            return True
        spans = [span for span in (arrived, stored) if span is not None]
        return self.on_close and any(span.first <= clock.now and span.last > clock.before for span in spans)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The results of one part."""
        if self.on_close:
            yield from self._results(arrived, stored, clock.before + 1, clock.now + 1)
        if self.on_change:
            yield from self._changed_windows(arrived, stored, clock.before + 1)

    def _results(self, arrived: PartRows, stored: PartRows, first: int, end: int) -> Iterator[pa.RecordBatch]:
        if tables := [*stored.in_order(first, end), *arrived.in_order(first, end)]:
            merged = self.combine(self.aggregation.concat(tables))
            yield self.aggregation.results(merged, merged.column(_START).to_numpy(), merged.column(PANE).to_numpy())

    def _changed_windows(self, arrived: PartRows, stored: PartRows, first: int) -> Iterator[pa.RecordBatch]:
        new = arrived.in_order(first)
        if not new:
            return
        tables = [with_number(table, CHANGED, 1) for table in new] + [with_number(t, CHANGED, 0) for t in stored.in_order(first)]
        marked = replace(self.aggregation, hidden={CHANGED: Largest()})
        merged = marked.merge(marked.concat(tables), (PANE, _START))
        merged = merged.filter(pc.equal(merged.column(f"{CHANGED}\x000"), 1))
        starts, ends = merged.column(_START).to_numpy(), merged.column(PANE).to_numpy()
        yield self.aggregation.results(merged, starts, ends, "on_change")

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.aggregation.fields

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The open windows of these parts."""
        everything = replace(self, aggregation=self.aggregation.unconditional)
        yield from everything._results(stored, NO_ROWS, watermark + 1, ALWAYS)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the window is closed."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """No window that is open began before."""
        return ALWAYS if watermark >= ALWAYS else watermark - self.sizes.longest
