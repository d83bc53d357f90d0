"""Correlations on the state lane: events that count for them → alerts, and the events that may still count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import HASH, NEVER, OFFSET, PANE, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.rules.correlation.alerts import as_events, as_state, state_fields
from etl.rules.correlation.closed_windows import open_windows
from etl.rules.correlation.compiled_correlations import CompiledCorrelations
from etl.rules.correlation.evaluation import evaluate
from etl.rules.correlation.member_table import MemberTable
from etl.rules.correlation.routes import COUNTED, COUNTS
from etl.rules.correlation.slots import Slots, whole_rows, without_replaced
from etl.rules.correlation.state_rows import PANES, StateUpdate, pane_lengths

_MIN_PANE = 600_000_000
"""Microseconds of the longest panes where only tables have correlations, of which nothing is known when a run starts."""

FEW_OTHERS = 8
"""Stored rows for each that arrives up to which all are read: a look-up costs more."""


@dataclass(frozen=True)
class CorrelatedGroups:
    """State holds, for each correlation and group, the events that may still count, and the bursts that may go on.

    A micro-batch reads the rows of groups that have events or a window to close, and adds rows for them: see `StateUpdate`.
    """

    compile: Callable[[], CompiledCorrelations]
    """Gives the correlations as they are published at the call: they may change between the micro-batches of an operator."""
    fields: Schema
    time: str
    longest: int
    """The sum of the timespans of the longest chain of correlations, microseconds."""
    keys: tuple[str, ...] = ("head", "group")
    hashed: bool = False
    indexed: bool = True
    after_run: AfterRun = "appended"

    @property
    def _longest_pane(self) -> int:
        return max(self.longest // PANES, _MIN_PANE)

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
        columns[PANE] = pa.array(np.zeros(len(rows), np.int64))
        return pa.table(columns), lost

    def combine(self, rows: pa.Table) -> pa.Table:
        """Prepared rows as they are: whether an event counts depends on the others of its group. State rows without those that
        others replace."""
        return without_replaced(rows) if "epoch" in rows.column_names else rows.combine_chunks()

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events, or a window may close."""
        if arrived is not None:
            return True
        return stored is not None and clock.before < clock.now and stored.first <= clock.now + self._longest_pane

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether many windows may close."""
        return clock.now - clock.before > self._longest_pane

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The alerts, and the rows that are added to the state of the groups."""
        compiled = self.compile()
        tables = [*arrived.tables(), *self._stored_rows(clock, arrived, stored, compiled.table)]
        if not tables:
            return
        for level in evaluate(whole_rows(tables), compiled.table, clock.now):
            alerts = level.alerts.filter(compiled.table.is_head[level.alerts.member])
            if len(alerts.firsts) or not len(level.slots.rows):  # without rows kernels are only compiled
                yield as_events(compiled, alerts, self.fields)
            added = StateUpdate(level, clock.now, self._longest_pane).table()
            if len(added):
                yield added

    def _stored_rows(
        self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows, table: MemberTable
    ) -> Sequence[pa.Table]:
        """The stored rows of groups with events or a window that is to close: of all groups, if there are few others."""
        old, new = stored.in_order(clock.before + 1), arrived.in_order()
        if sum(map(len, old)) <= FEW_OTHERS * sum(map(len, new)):
            return old
        found, closing = list(stored.of_keys(arrived, clock.before + 1)), self._find_closing_groups(clock, stored, table)
        if len(closing) and new:
            closing = np.setdiff1d(closing, np.concatenate([rows.column(HASH).to_numpy() for rows in new]))
        return found + list(stored.of_hashes(np.unique(closing), clock.before + 1))

    def _find_closing_groups(self, clock: WatermarkAdvance, stored: PartRows, table: MemberTable) -> Any:
        """uint64[n]: the hashes of groups with a window that is to close; some of these may have closed."""
        spans = table.spans[~table.monotonic]
        if not len(spans) or clock.before == clock.now:
            return np.empty(0, np.uint64)
        last = clock.now + int(pane_lengths(spans, self._longest_pane).max())
        found = [np.empty(0, np.uint64)]
        for rows in stored.in_order(clock.before + 1, last + 1):
            due, panes = rows.column("due").to_numpy(), rows.column(PANE).to_numpy()
            is_due = (clock.before < due) & (due <= clock.now)
            is_due |= (due > NEVER) & (panes <= clock.now)  # stored when the timespan was another one
            found.append(rows.column(HASH).to_numpy()[is_due])
        return np.concatenate(found)

    @property
    def state_fields(self) -> Schema:
        """The correlation and group, its window so far, what the condition compares, and the number that it asks for."""
        return state_fields(self.fields)

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The windows that are not over, of each correlation that gives alerts and each of its groups."""
        tables = stored.tables(watermark + 1)
        if tables:
            compiled = self.compile()
            windows = open_windows(Slots.of(whole_rows(tables), compiled.table))
            last = windows.column("micros", first=False).to_numpy() + windows.slots.spans[windows.slot]
            alive = ~windows.slots.monotonic[windows.slot] | (last > watermark)
            yield as_state(compiled, windows.filter(alive & compiled.table.is_head[windows.member]), self.fields, watermark)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether no event or burst of the pane counts any more."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The earliest first event of an alert."""
        return watermark - self.longest
