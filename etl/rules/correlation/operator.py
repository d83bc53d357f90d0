"""Correlations at work on the state lane: events that count for them → alerts, and the events that may still count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, PANE, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.rules.correlation.alerts import as_events, as_state, state_fields
from etl.rules.correlation.compiled import CompiledCorrelations
from etl.rules.correlation.evaluation import evaluate, open_windows
from etl.rules.correlation.routes import COUNTED, COUNTS
from etl.rules.correlation.slots import ROWS, Slots


@dataclass(frozen=True)
class CorrelatedGroups:
    """State holds, for each correlation and group, the events that may still count, and the bursts that may go on.

    The pane of a row of state is the watermark at which its part has to run again.
    """

    compile: Callable[[], CompiledCorrelations]
    """Gives the correlations as they are published at the call: they may change between the micro-batches of an operator."""
    fields: Schema
    time: str
    reach: int
    """The timespans of the longest chain, microseconds."""
    keys: tuple[str, ...] = ("head", "group")
    hashed: bool = False
    after_run: AfterRun = "rewritten"

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
        """All rows, in one chunk: whether an event counts depends on the others of its group."""
        return rows.combine_chunks()

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether there are events, a window closes, or events can be removed."""
        return arrived is not None or (kept is not None and kept.first <= clock.now)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The alerts, and the state of the groups."""
        tables = [table.select(ROWS.names).cast(ROWS) for table in (*kept.tables(), *arrived.tables())]
        if not tables:
            return
        compiled = self.compile()
        levels = list(evaluate(pa.concat_tables(tables), compiled.table, clock.now))
        for level in levels:
            alerts = level.alerts.filter(compiled.table.is_head[level.alerts.member])
            if len(alerts.firsts) or not len(level.slots.rows):  # without rows kernels are only compiled
                yield as_events(compiled, alerts, self.fields)
        if due := [time for level in levels for time in level.due()]:
            state = pa.concat_tables([level.state() for level in levels]).combine_chunks()
            yield state.append_column(PANE, pa.array(np.full(len(state), _first(due))))

    @property
    def state_fields(self) -> Schema:
        """The correlation and group, its window so far, what the condition compares, and the number that it asks for."""
        return state_fields(self.fields)

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The windows that are not over, of each correlation that gives alerts and each of its groups."""
        tables = [table.select(ROWS.names).cast(ROWS) for table in kept.tables()]
        if tables:
            compiled = self.compile()
            windows = open_windows(Slots.of(pa.concat_tables(tables), compiled.table))
            last = windows.column("micros", first=False).to_numpy() + windows.slots.spans[windows.slot]
            alive = ~windows.slots.monotonic[windows.slot] | (last > watermark)
            yield as_state(compiled, windows.filter(alive & compiled.table.is_head[windows.member]), self.fields)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Never: each run leaves only what is needed."""
        return False

    def watermark_after(self, watermark: int) -> int:
        """The earliest first event of an alert."""
        return watermark - self.reach


def _first(due: Sequence[tuple[bool, int]]) -> int:
    """The earliest end of a window that is to close; without one, the time at which all state can be removed."""
    closing = [time for is_monotonic, time in due if not is_monotonic]
    return min(closing) if closing else max(time for _, time in due)
