"""Tumbling and sliding windows: partial results for each pane and group, merged when a window closes or has changed.

A *pane* is the longest span that each window holds whole or not at all: an event is aggregated once, however many windows
hold it. Nothing is looked up while events arrive: their partial results are appended to the state as files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, PANE, AfterRun, Clock, PaneSpan, PartRows
from etl.state.aggregates import group
from etl.state.aggregates.accumulator import MergedByFunctions
from etl.state.windows.aggregation import Aggregation, event_times, pane_column

_CHANGED = "__changed"
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
        """Groups."""
        return self.aggregation.group_by

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

    def is_due(self, clock: Clock, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether a window has changed or closes."""
        if self.on_change:
            return arrived is not None
        spans = [span for span in (arrived, kept) if span is not None]
        return bool(spans) and len(self._closing(clock, min(s.first for s in spans), max(s.last for s in spans))) > 0

    def run(self, clock: Clock, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The results of one part, a batch for each window."""
        if self.on_change:
            yield from self._changed(clock, arrived, kept)
            return
        tables = [*kept.tables(), *arrived.tables()]
        if not tables:
            return
        by_pane: dict[int, list[pa.Table]] = {}
        for table in tables:
            by_pane.setdefault(table.column(PANE)[0].as_py(), []).append(table)
        for end in self._closing(clock, min(by_pane), max(by_pane)):
            inside = [table for pane in range(end - self.size, end, self.pane) for table in by_pane.get(pane, ())]
            if inside:
                yield self._results(self.aggregation.merge(self.aggregation.concat(inside), ()), end)

    def _changed(self, clock: Clock, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The windows and groups that have new events."""
        new = arrived.tables()
        panes = sorted({table.column(PANE)[0].as_py() for table in new})
        for end in sorted({end for pane in panes for end in self._ends(pane) if end > clock.before}):
            first = end - self.size
            now = [_marked(table, 1) for table in new if first <= table.column(PANE)[0].as_py() < end]
            old = [_marked(table, 0) for table in kept.tables(first, end)]
            merged = group(self.aggregation.concat([*now, *old]), self.keys, {**self.aggregation.accumulators, _CHANGED: _Mark()})
            yield self._results(merged.filter(pc.equal(merged.column(f"{_CHANGED}\x000"), 1)), end)

    def _ends(self, pane: int) -> range:
        """The ends of the windows that a pane is in, ascending."""
        first = -((pane + self.pane - self.size) // -self.slide) * self.slide + self.size
        return range(first, pane // self.slide * self.slide + self.size + 1, self.slide)

    def _closing(self, clock: Clock, first_pane: int, last_pane: int) -> range:
        """The ends of the windows that close between two watermarks, and may hold one of these panes."""
        low = max(clock.before + 1, first_pane + 1)
        high = min(clock.now, last_pane // self.slide * self.slide + self.size)
        first = -((low - self.size) // -self.slide) * self.slide + self.size
        return range(first, high + 1, self.slide)

    def _results(self, merged: pa.Table, end: int) -> pa.RecordBatch:
        edges = [np.full(len(merged), edge) for edge in (end - self.size, end)]
        return self.aggregation.results(merged, *edges)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the last window with this pane is closed."""
        return last_pane // self.slide * self.slide + self.size <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The start of the first window that is still open."""
        if watermark >= ALWAYS:
            return ALWAYS
        return (watermark - self.size) // self.slide * self.slide + self.slide
