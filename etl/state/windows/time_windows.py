"""Tumbling, sliding and cumulating windows: partial results for each pane and group, merged when a window gives results.

A *pane* is the longest span that each window holds whole or not at all: an event is aggregated once, however many windows
hold it. Nothing is looked up while events arrive: their partial results are appended to the state as files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, PANE, AfterRun, EmitProgress, PaneSpan, PartRows, PreparedEvents, Schema, WatermarkAdvance
from etl.state.windows.aggregation import Aggregation, event_times, pane_column
from etl.state.windows.emit_rules import GIVEN, EmitRule, OnClose
from etl.state.windows.interval_results import ARRIVAL_WATERMARK, LATE, LATE_TICK, TICK, OnInterval, OnLateEvents
from etl.state.windows.shape_run import MARK, NO_ROWS, Largest, ShapeRun, with_number
from etl.state.windows.shapes import WindowShape


@dataclass(frozen=True)
class TimeWindows:
    """Windows of one or several shapes over the same panes."""

    aggregation: Aggregation
    shapes: Sequence[WindowShape]
    rules: Sequence[EmitRule] = field(default=(OnClose(),))

    @property
    def hashed(self) -> bool:
        """Windows are merged, not looked up."""
        return False

    @property
    def indexed(self) -> bool:
        """Whether changed groups are looked up."""
        return any(rule.looks_up for rule in self.rules)

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether other groups may have results."""
        rules = (rule for rule in self.rules if not rule.looks_up)
        return any(rule.is_due(shape, clock, arrived, stored) for rule in rules for shape in self.shapes)

    @property
    def after_run(self) -> AfterRun:
        """Partial results stay until their last window has closed, with marks of what was given once."""
        return "added"

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups, in an order that does not depend on that of ``group_by``."""
        return self.aggregation.keys

    @cached_property
    def pane(self) -> int:
        """The length of a pane."""
        return gcd(*(shape.pane for shape in self.shapes))

    @cached_property
    def _late(self) -> OnLateEvents | None:
        return next((rule for rule in self.rules if isinstance(rule, OnLateEvents)), None)

    @cached_property
    def _records_arrival(self) -> bool:
        """Whether rows say when they arrived."""
        early = any(isinstance(rule, OnInterval) and not rule.all_groups for rule in self.rules)
        return early or (self._late is not None and self._late.every is not None and not self._late.separate)

    @cached_property
    def _allowed_lateness(self) -> int:
        """How long windows take events after they have closed."""
        return self._late.keep if self._late else 0

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Partial results by pane and group, and the number of events that no window takes any more."""
        return self.prepare_after(events, watermark, EmitProgress())

    def prepare_after(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> tuple[pa.Table, int]:
        """The same after these results of earlier micro-batches."""
        prepared = self.prepare_or_reject(events, watermark, emission)
        return prepared.rows, prepared.late

    def prepare_or_reject(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> PreparedEvents:
        """The same, with the events for which an aggregate fails."""
        times = event_times(events, self.aggregation.time)
        panes = times - times % self.pane
        ends = [shape.last_end(panes) for shape in self.shapes]
        final = max(watermark - self._allowed_lateness, emission.final)
        lost = (ends[0] if len(ends) == 1 else np.max(ends, axis=0)) <= final
        count = int(lost.sum())
        if count:
            events, panes = events.filter(pa.array(~lost)), panes[~lost]
        late = self._late.late_columns(panes, self.shapes, watermark, emission.quiet) if self._late else {}
        rows, rejects = self.aggregation.lift(events, {**pane_column(panes), **late})
        numbers = (
            ({ARRIVAL_WATERMARK: watermark, TICK: emission.quiet} if emission.quiet else {ARRIVAL_WATERMARK: watermark})
            if self._records_arrival
            else {}
        )
        for name, number in numbers.items():
            rows = with_number(rows, name, number)
        return PreparedEvents(self.combine(rows), count, rejects)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Partial results of the same panes and groups as one. Rows that other versions of the pipeline need are kept apart."""
        names = rows.column_names
        hidden = {name: Largest() for name in (ARRIVAL_WATERMARK, TICK, GIVEN) if f"{name}\x000" in names}
        aggregation = replace(self.aggregation, hidden=hidden) if hidden else self.aggregation
        return aggregation.merge(rows, (PANE, *(name for name in (MARK, LATE, LATE_TICK) if name in names)))

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether a rule may give results."""
        return any(rule.is_due(shape, clock, arrived, stored) for rule in self.rules for shape in self.shapes)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The results of one part in the order of their windows, those of several windows in a batch."""
        for shape in self.shapes:
            windows = ShapeRun(self.aggregation, shape, clock, arrived, stored)
            for rule in self.rules:
                yield from rule.run(windows)

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.aggregation.fields

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The open windows of these parts, those of several windows in a batch."""
        everything = replace(self, aggregation=self.aggregation.unconditional, rules=(OnClose(),))
        for found in everything.run(WatermarkAdvance(watermark, ALWAYS), stored, NO_ROWS):
            if isinstance(found, pa.RecordBatch):
                yield found

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the last window with this pane takes nothing more."""
        return max(shape.last_end(last_pane) for shape in self.shapes) + self._allowed_lateness <= watermark

    def final_until(self, watermark: int) -> int:
        """The time up to which windows take nothing more."""
        return watermark - self._allowed_lateness

    def watermark_after(self, watermark: int) -> int:
        """The start of the first window that may still give results."""
        if watermark >= ALWAYS:
            return ALWAYS
        return min(shape.first_open_start(watermark - self._allowed_lateness) for shape in self.shapes)
