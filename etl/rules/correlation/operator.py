"""Correlations at work on the state lane: events that count for them → alerts, and the events that may still count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, PANE, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.rules.correlation.alerts import as_events
from etl.rules.correlation.bucket import Bucket
from etl.rules.correlation.columns import ROWS
from etl.rules.correlation.compiled import CompiledCorrelations
from etl.rules.correlation.routes import COUNTED, COUNTS


@dataclass(frozen=True)
class CorrelatedGroups:
    """State holds, for each correlation and group, the events that may still count, and the bursts that may go on.

    The pane of a row of state is the watermark at which its part has to run again.
    """

    compile: Callable[[], CompiledCorrelations]
    """Gives the correlations as they are published now."""
    fields: Schema
    time: str
    reach: int
    """The timespans of the longest chain, microseconds."""
    keys: tuple[str, ...] = ("group",)
    hashed: bool = False
    after_run: AfterRun = "rewritten"

    @cached_property
    def _compiled(self) -> CompiledCorrelations:
        return self.compile()

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """A row for each correlation that an event counts for; events older than the watermark are late."""
        times = events.column(self.time).cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
        late = pc.less(times, watermark)
        lost = pc.sum(late).as_py() or 0
        if lost:
            events, times = events.filter(pc.invert(late)), times.filter(pc.invert(late))
        counts = events.column(COUNTS)
        of_event, rows = pc.list_parent_indices(counts), counts.flatten()
        columns = dict(zip(COUNTED.names, rows.flatten(), strict=True))
        columns |= {"micros": times.take(of_event), "offset": events.column(OFFSET).take(of_event)}
        columns |= {"burst_end": pa.nulls(len(rows), pa.int64()), PANE: pa.array(np.zeros(len(rows), np.int64))}
        return pa.table(columns), lost

    def combine(self, rows: pa.Table) -> pa.Table:
        """All rows: whether an event counts depends on the others of its group."""
        return rows

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether there are events, a window closes, or events can be removed."""
        return arrived is not None or (kept is not None and kept.first <= clock.now)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The alerts, and the state of the groups."""
        tables = [table.select(ROWS.names).cast(ROWS) for table in (*kept.tables(), *arrived.tables())]
        if not tables:
            return
        bucket = Bucket.of(pa.concat_tables(tables))
        alerts = bucket.advance(self._compiled.families, clock.now)
        if alerts:
            yield as_events(self._compiled, alerts, self.fields)
        if bucket.due is not None:
            state = bucket.state()
            yield state.append_column(PANE, pa.array(np.full(len(state), bucket.due)))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Never: each run leaves only what is needed."""
        return False

    def watermark_after(self, watermark: int) -> int:
        """The earliest first event of an alert."""
        return watermark - self.reach
