"""Results at intervals: of windows that are open, and of windows that have closed, for events that arrive late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, NEVER, PaneSpan, WatermarkAdvance
from etl.state.windows.aggregation import Numbers
from etl.state.windows.pane_rows import PaneRows
from etl.state.windows.shape_run import Largest, ShapeRun, WindowGroups, without_marks
from etl.state.windows.shapes import WindowShape

ARRIVAL_WATERMARK = "\0seen"
"""Aggregate of partial results: the watermark before the micro-batch in which the last of them arrived."""

TICK = "\0tick"
"""Aggregate of partial results: the number of micro-batches without events before the last of them arrived; null for none."""

LATE = "\0late"
"""Column of rows that arrived after a window of theirs had closed: a time between that window's end and the watermark then, so
that a row is late for a window exactly if this is not before its end. It has one value for each interval of results."""

LATE_TICK = "\0late tick"
"""Column beside `LATE`: the same number for these rows; null for none."""

_END = "\0end"
_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class OnInterval:
    """Open windows each time the watermark passes a multiple of an interval, in microseconds, or no events come that long."""

    every: int
    all_groups: bool = False
    """Whether all groups have results, or those of which something arrived since the last time."""

    @property
    def looks_up(self) -> bool:
        """Groups that changed in earlier micro-batches have results."""
        return False

    def is_due(self, shape: WindowShape, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are open windows at such a time."""
        span = union_of(arrived, stored)
        return span is not None and _has_tick(clock, self.every) and shape.last_end(span.last) > clock.now

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """The windows that stay open."""
        clock = windows.clock
        if not _has_tick(clock, self.every):
            return
        for groups in _arrived_since(windows, None if self.all_groups else self.every, clock.now, ALWAYS):
            yield windows.results(groups, "every")


@dataclass(frozen=True)
class OnLateEvents:
    """Closed windows of which something arrived since; ``keep`` and ``every`` in microseconds."""

    keep: int
    """How long after a window's end."""
    every: int | None = None
    """Interval at whose multiples results are given; None for each micro-batch."""
    separate: bool = False
    """Whether a result is that of the late events only that no result has yet, or that of the whole window."""

    @property
    def looks_up(self) -> bool:
        """At intervals groups that changed in earlier micro-batches have results."""
        return self.every is None

    def is_due(self, shape: WindowShape, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether something may have arrived late, and an interval ends or a window takes nothing more."""
        span = arrived if self.every is None else union_of(arrived, stored)
        if span is None or shape.first_end(span.first) > clock.before:
            return False
        after, until = self._ends(clock)
        return shape.may_end(after, until, span.first, span.last)

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """The windows that something arrived late for."""
        after, until = self._ends(windows.clock)
        for groups in self._due_groups(windows, after, until):
            yield windows.results(groups, "late")

    def _ends(self, clock: WatermarkAdvance) -> tuple[int, int]:
        """The ends of windows that are closed, and have results now: all, or those that take nothing more."""
        all_of_them = self.every is None or _has_tick(clock, self.every)
        until = clock.before if all_of_them else min(clock.before, clock.now - self.keep)
        return max(clock.before - self.keep, clock.emission.final), until

    def _due_groups(self, windows: ShapeRun, after: int, until: int) -> Iterator[WindowGroups]:
        if self.every is None and not self.separate:
            yield from windows.changed(after, until)
        elif self.every is None:
            rows = PaneRows.of(without_marks(windows.arrived.in_order()))
            yield from windows.merged(rows, windows.shape.ends(rows.starts, after, until))
        elif self.separate:
            yield from self._separate(windows, self.every, after, until)
        else:
            yield from _arrived_since(windows, self.every, after, until)

    def _separate(self, windows: ShapeRun, every: int, after: int, until: int) -> Iterator[WindowGroups]:
        """The late rows that no result has yet, for each window for which they are late."""
        tables = [table for table in windows.tables(after - windows.shape.size, until) if LATE in table.column_names]
        chosen = (table.filter(pa.array(_is_without_result(table, windows.clock, every, LATE, LATE_TICK))) for table in tables)
        rows = PaneRows.of([late for late in chosen if len(late)])
        parts = []
        for groups in windows.merged(rows, windows.shape.ends(rows.starts, after, until), keys=(LATE,)):
            late = groups.where(groups.numbers(LATE) >= groups.ends)
            parts.append(late.take_rows(late.partials).append_column(_END, pa.array(late.ends)))
        if parts:
            merged = windows.aggregation.merge(pa.concat_tables(parts), (_END,))
            ends = merged.column(_END).to_numpy()
            yield WindowGroups(merged, None, windows.shape.starts(ends), ends)

    def late_columns(self, panes: Numbers, shapes: Sequence[WindowShape], watermark: int, ticks: int) -> dict[str, pa.Array]:
        """The columns `LATE` and `LATE_TICK` of rows that arrive at this watermark."""
        if self.every is None or not self.separate:
            return {}
        first_end = np.min([shape.first_end(panes) for shape in shapes], axis=0)
        value = max(watermark // self.every * self.every, *(shape.last_end_until(watermark) for shape in shapes))
        columns = {LATE: value, LATE_TICK: ticks} if ticks else {LATE: value}
        return {name: pa.array(np.full(len(panes), number), mask=first_end > watermark) for name, number in columns.items()}


def _has_tick(clock: WatermarkAdvance, every: int) -> bool:
    """Whether the watermark passes a multiple of an interval, or the interval is over without events."""
    return clock.now // every > clock.before // every or every in clock.quiet


def _arrived_since(windows: ShapeRun, every: int | None, after: int, until: int) -> Iterator[WindowGroups]:
    """The windows that end in ``after < end <= until``: groups of which something arrived since the interval's last results, late
    if the window had closed; or, without interval, all groups."""
    rows, clock = PaneRows.of(windows.tables(max(after - windows.shape.size, NEVER))), windows.clock
    if every is None:
        yield from windows.merged(rows, windows.shape.ends(rows.starts, after, until))
        return
    names = f"{ARRIVAL_WATERMARK}\x000", f"{TICK}\x000"
    chosen = [p[_is_without_result(t, clock, every, *names)] for t, p in zip(rows.tables, rows.panes, strict=True)]
    ends = windows.shape.ends(np.unique(np.concatenate(chosen or [rows.starts])), after, until)
    for groups in windows.merged(rows, ends, {ARRIVAL_WATERMARK: Largest(), TICK: Largest()}):
        arrivals, ticks = (groups.numbers(name) for name in names)
        is_late_if_closed = (groups.ends > clock.before) | (arrivals >= groups.ends)
        yield groups.where(is_late_if_closed & _is_new(arrivals, ticks, clock, every))


def _is_without_result(rows: pa.Table, clock: WatermarkAdvance, every: int, arrival: str, tick: str) -> Numbers:
    """Which rows arrived since the last results of an interval, by the columns that say when they did."""
    return _is_new(_numbers(rows, arrival), _numbers(rows, tick), clock, every)


def _is_new(arrivals: Numbers, ticks: Numbers, clock: WatermarkAdvance, every: int) -> Numbers:
    """What arrived after the watermark passed the last multiple of an interval, and since its last micro-batch without
    events."""
    new: Numbers = arrivals >= clock.before // every * every
    last = clock.emission.last.get(every)
    return new if last is None else new & (ticks >= last)


def _numbers(rows: pa.Table, name: str) -> Numbers:
    if name not in rows.column_names:
        return np.full(len(rows), _NO_TIME)
    found: Numbers = pc.fill_null(rows.column(name), _NO_TIME).to_numpy()
    return found


def union_of(one: PaneSpan | None, other: PaneSpan | None) -> PaneSpan | None:
    if one is None or other is None:
        return one or other
    return PaneSpan(min(one.first, other.first), max(one.last, other.last))
