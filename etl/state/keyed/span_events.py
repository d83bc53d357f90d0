"""One event of each key for each span of time, with the number of events in the span: given when the span is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.api import PANE, TIMESTAMP, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.keyed.decisions import COUNT, TIME, EventsByKey
from etl.state.keyed.event_rows import as_events, as_times, hashes_of, numbers, prepare_rows, unlike, whole
from etl.state.keyed.kernels import assign_spans
from etl.state.windows.aggregation import Numbers, event_times

ORDER = "\0order"
"""Column (int64): the time by which a row is sorted: its event's, or the start of the span that it stands for."""

_RUNS = 16
"""Runs in the length of a span: each rewrites the state, so that a result comes a sixteenth of a span late at most."""


@dataclass(frozen=True)
class SpanEvents:
    """State holds an event for each span that has begun, and all events behind the watermark: spans can still begin there."""

    fields: Schema
    keys: tuple[str, ...]
    time: str
    within: int
    """Microseconds."""
    last: bool
    """Whether a span's last event is given, or its first."""
    count: str | None
    """The field for the number of events in the span."""
    hashed: bool = True
    after_run: AfterRun = "rewritten"

    @property
    def pane(self) -> int:
        """The length of a pane: watermarks in one pane close the same spans."""
        return -(-self.within // _RUNS)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events; those older than the watermark are late."""
        one_each = {ORDER: event_times(events, self.time), COUNT: np.ones(events.num_rows, np.int64)}
        return prepare_rows(events, self.fields, self.time, self.pane, watermark, one_each)

    def combine(self, rows: pa.Table) -> pa.Table:
        """All rows: where spans begin depends on those of other splits."""
        return rows

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether the watermark has reached another pane, and there are events."""
        return (arrived is not None or kept is not None) and clock.before // self.pane < clock.now // self.pane

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The events of spans that are over, in the order of their times; and what remains."""
        tables = [*kept.tables(), *arrived.tables()]
        if not tables:
            return
        rows, starts = self._in_spans(tables)
        begun = starts <= clock.now  # no event that is not late can move the start
        if begun.any():
            yield from self._results(rows.filter(pa.array(begun)), starts[begun], clock.now)
        if not begun.all():
            yield rows.filter(pa.array(~begun))

    @property
    def state_fields(self) -> Schema:
        """The fields of events, without the one for their number, and what is known of the span."""
        events = [field for field in self.fields if field.name != self.count]
        names = [unlike(name, self.fields.names) for name in ("span_start", "span_end", "events")]
        return pa.schema([*events, *zip(names, (TIMESTAMP, TIMESTAMP, pa.int64()), strict=True)])

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The event of each span that would pass if it were over. A span that has not begun by the watermark can still move."""
        tables = kept.tables()
        if tables:
            rows = self._one_each(*self._in_spans(tables))
            begins = numbers(rows, ORDER)
            fields = self.state_fields
            events = as_events(rows, pa.schema(list(fields)[:-3])).columns
            spans = [as_times(begins), as_times(begins + self.within), rows.column(COUNT).combine_chunks()]
            yield pa.RecordBatch.from_arrays([*events, *spans], schema=fields)

    def _in_spans(self, tables: Sequence[pa.Table]) -> tuple[pa.Table, Numbers]:
        """The rows by key and time, and the starts of their spans."""
        rows = whole(tables)
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, ORDER))
        rows = rows.take(pa.array(groups.order))
        starts = np.empty(len(rows), np.int64)
        assign_spans(groups.firsts, numbers(rows, ORDER), np.int64(self.within), starts)
        return rows, starts

    def _one_each(self, rows: pa.Table, starts: Numbers) -> pa.Table:
        """One row for each span, with its start and the number of its events. ``starts`` are those of the rows' spans."""
        firsts = _firsts(*hashes_of(rows), starts)
        chosen = self._latest(numbers(rows, TIME), firsts) if self.last else firsts
        begins, counts = starts[firsts], np.add.reduceat(numbers(rows, COUNT), firsts)
        changed = {ORDER: begins, PANE: begins - begins % self.pane, COUNT: counts}
        found = rows.take(pa.array(chosen))
        for name, values in changed.items():
            found = found.set_column(found.column_names.index(name), name, pa.array(values))
        return found

    def _results(self, rows: pa.Table, starts: Numbers, now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """One row for each span: as a result if it is over, else for the state. ``starts`` are those of the rows' spans."""
        found = self._one_each(rows, starts)
        over = numbers(found, ORDER) + self.within <= now
        if over.any():
            results = found.filter(pa.array(over)).sort_by(TIME)
            yield as_events(
                results if self.count is None else results.append_column(self.count, results.column(COUNT)), self.fields
            )
        if not over.all():
            yield found.filter(pa.array(~over))

    def _latest(self, times: Numbers, firsts: Numbers) -> Numbers:
        """The last row of each span by time; of the same time, the one behind."""
        spans = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(times))))
        order = np.lexsort((times, spans))
        return order[np.append(firsts[1:], len(times)) - 1]

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Never: each run leaves only what is needed."""
        return False

    def watermark_after(self, watermark: int) -> int:
        """The earliest time of a span that may not be over."""
        return watermark - self.within - self.pane


def _firsts(*columns: Numbers) -> Numbers:
    """The first row of each group of neighbours that are equal in all columns."""
    changes = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, changes))
