"""Tumbling and sliding windows: partial results for each pane and group, merged when a window closes or has changed.

A *pane* is the longest span that each window holds whole or not at all: an event is aggregated once, however many windows
hold it. Nothing is looked up while events arrive: their partial results are appended to the state as files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, PANE, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates import group
from etl.state.aggregates.accumulator import MergedByFunctions
from etl.state.windows.aggregation import Aggregation, Numbers, event_times, pane_column

ROWS_AT_ONCE = 1 << 16
"""Most rows of several windows that are merged together; a window by itself costs a millisecond of Python."""

_END = "\0end"
"""Column of rows: the end of the window for which they are merged."""

_CHANGED = "\0changed"
"""Aggregate of partial results: 1 for a group of which some arrived in this micro-batch."""


class _Mark(MergedByFunctions):
    """The aggregate `_CHANGED`."""

    types = (pa.int8(),)
    functions = ("max",)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Never called: partial results are marked when they are read."""
        raise NotImplementedError

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The mark."""
        return columns[0]


def _marked(rows: pa.Table, mark: int) -> pa.Table:
    return rows.append_column(f"{_CHANGED}\x000", pa.array(np.full(len(rows), mark, np.int8)))


@dataclass(frozen=True)
class _Panes:
    """Rows by pane."""

    starts: list[int]
    """Ascending."""
    tables: dict[int, list[pa.Table]]

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> _Panes:
        """Tables of one pane each."""
        found: dict[int, list[pa.Table]] = {}
        for table in tables:
            found.setdefault(table.column(PANE)[0].as_py(), []).append(table)
        return cls(sorted(found), found)

    def first_from(self, start: int) -> int | None:
        """The first pane that starts then or later."""
        at = bisect_left(self.starts, start)
        return self.starts[at] if at < len(self.starts) else None

    def between(self, first: int, end: int) -> list[pa.Table]:
        """The rows with ``first <= pane < end``."""
        inside = self.starts[bisect_left(self.starts, first) : bisect_left(self.starts, end)]
        return [table for pane in inside for table in self.tables[pane]]


def _batched(windows: Iterable[tuple[int, list[pa.Table]]]) -> Iterator[tuple[Numbers, list[pa.Table]]]:
    """Windows, which are an end and rows, together until they have `ROWS_AT_ONCE`: the end of each row, and all rows."""
    ends: list[Numbers] = []
    held: list[pa.Table] = []
    rows = 0
    for end, tables in windows:
        count = sum(map(len, tables))
        if held and rows + count > ROWS_AT_ONCE:
            yield np.concatenate(ends), held
            ends, held, rows = [], [], 0
        ends.append(np.full(count, end))
        held += tables
        rows += count
    if held:
        yield np.concatenate(ends), held


@dataclass(frozen=True)
class TimeWindows:
    """Windows of one length; lengths in microseconds."""

    aggregation: Aggregation
    size: int
    slide: int
    on_change: bool = False
    """Whether each changed window has a result in each micro-batch, or one when it closes."""

    @property
    def hashed(self) -> bool:
        """Windows are merged, not looked up."""
        return False

    @property
    def after_run(self) -> AfterRun:
        """Partial results stay until their last window has closed."""
        return "arrived"

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups, in an order that does not depend on that of ``group_by``."""
        return self.aggregation.keys

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return gcd(self.size, self.slide)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Partial results by pane and group, and the number of events whose windows are all closed."""
        times = event_times(events, self.aggregation.time)
        panes = times - times % self.pane
        late = panes // self.slide * self.slide + self.size <= watermark
        lost = int(late.sum())
        if lost:
            events, panes = events.filter(pa.array(~late)), panes[~late]
        return self.combine(self.aggregation.lift(events, pane_column(panes))), lost

    def combine(self, rows: pa.Table) -> pa.Table:
        """Partial results of the same panes and groups as one."""
        return self.aggregation.merge(rows, (PANE,))

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether a window has changed or closes."""
        if self.on_change:
            return arrived is not None
        spans = [span for span in (arrived, kept) if span is not None]
        return bool(spans) and len(self._closing(clock, min(s.first for s in spans), max(s.last for s in spans))) > 0

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The results of one part in the order of their windows, those of several windows in a batch."""
        if self.on_change:
            yield from self._changed(clock, arrived, kept)
            return
        span = (clock.before + 1 - self.size, clock.now)
        for merged in self._merged(clock, [*kept.tables(*span), *arrived.tables(*span)]):
            yield self._results(merged)

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.aggregation.fields

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The open windows of these parts, those of several windows in a batch."""
        everything = replace(self, aggregation=self.aggregation.unconditional)
        for merged in self._merged(WatermarkAdvance(watermark, ALWAYS), kept.tables(watermark + 1 - self.size)):
            yield everything._results(merged)

    def _merged(self, clock: WatermarkAdvance, tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
        """Partial results by group and `_END` of the windows that close between two watermarks."""
        panes = _Panes.of(tables)
        if not panes.starts:
            return
        windows = self._windows(self._closing(clock, panes.starts[0], panes.starts[-1]), panes)
        for ends, inside in _batched((end, panes.between(end - self.size, end)) for end in windows):
            rows = self.aggregation.concat(inside).append_column(_END, pa.array(ends))
            yield self.aggregation.merge(rows, (_END,))

    def _changed(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The windows and groups that have new events."""
        new = _Panes.of([_marked(table, 1) for table in arrived.tables()])
        if not new.starts:
            return
        all_ends = range(self._ends(new.starts[0]).start, self._ends(new.starts[-1]).stop, self.slide)
        open_ends = all_ends[max(0, (clock.before - all_ends.start) // self.slide + 1) :]
        old = _Panes.of([_marked(table, 0) for table in kept.tables(new.starts[0] - self.size, new.starts[-1] + self.size)])
        spans = ((end - self.size, end) for end in self._windows(open_ends, new))
        for ends, tables in _batched((span[1], [*new.between(*span), *old.between(*span)]) for span in spans):
            rows = self.aggregation.concat(tables).append_column(_END, pa.array(ends))
            merged = group(rows, [_END, *self.keys], {**self.aggregation.accumulators, _CHANGED: _Mark()})
            yield self._results(merged.filter(pc.equal(merged.column(f"{_CHANGED}\x000"), 1)))

    def _windows(self, ends: range, panes: _Panes) -> Iterator[int]:
        """The ends of the windows that hold one of these panes. Windows without any are skipped, however many they are."""
        end = ends.start
        while end < ends.stop:
            following = panes.first_from(end - self.size)
            if following is None:
                return
            if following < end:
                yield end
                end += self.slide
            else:
                end = self._ends(following).start

    def _ends(self, pane: int) -> range:
        """The ends of the windows that a pane is in, ascending."""
        first = -((pane + self.pane - self.size) // -self.slide) * self.slide + self.size
        return range(first, pane // self.slide * self.slide + self.size + 1, self.slide)

    def _closing(self, clock: WatermarkAdvance, first_pane: int, last_pane: int) -> range:
        """The ends of the windows that close between two watermarks, and may hold one of these panes."""
        low = max(clock.before + 1, first_pane + 1)
        high = min(clock.now, last_pane // self.slide * self.slide + self.size)
        first = -((low - self.size) // -self.slide) * self.slide + self.size
        return range(first, high + 1, self.slide)

    def _results(self, merged: pa.Table) -> pa.RecordBatch:
        ends = merged.column(_END).to_numpy()
        return self.aggregation.results(merged, ends - self.size, ends)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the last window with this pane is closed."""
        return last_pane // self.slide * self.slide + self.size <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The start of the first window that is still open."""
        if watermark >= ALWAYS:
            return ALWAYS
        return (watermark - self.size) // self.slide * self.slide + self.slide
