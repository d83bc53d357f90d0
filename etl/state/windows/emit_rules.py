"""When a window gives results: when it closes, when it changes, at intervals, as soon as a condition holds, or after it closed.

The rules of a window are independent: each gives its results in each micro-batch as if it were the only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, FAILED, PANE, PaneSpan, WatermarkAdvance
from etl.expressions import CompiledExpression
from etl.state.aggregates import group
from etl.state.windows.aggregation import Numbers, is_met
from etl.state.windows.interval_results import union_of
from etl.state.windows.pane_rows import PaneRows
from etl.state.windows.shape_run import MARK, Largest, ShapeRun, WindowGroups, with_number
from etl.state.windows.shapes import WindowShape

GIVEN = "\0given"
"""Aggregate of marks: the watermark after the micro-batch in which the last result was given."""

_END, _ROW = "\0end", "\0row"
_NO_TIME = np.iinfo(np.int64).min


class EmitRule(Protocol):
    """One occasion for results."""

    @property
    def looks_up(self) -> bool:
        """Whether it reads only rows of groups of which something arrived in the micro-batch."""

    def is_due(self, shape: WindowShape, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there may be results in this micro-batch."""

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """Results, and rows for the state."""


@dataclass(frozen=True)
class OnClose:
    """Each window once, when it closes."""

    @property
    def looks_up(self) -> bool:
        """All groups of a window have results."""
        return False

    def is_due(self, shape: WindowShape, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether a window closes."""
        span = union_of(arrived, stored)
        return span is not None and shape.may_end(clock.before, clock.now, span.first, span.last)

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """The windows that close."""
        clock, shape = windows.clock, windows.shape
        rows = PaneRows.of(windows.tables(clock.before + 1 - shape.size, clock.now))
        for groups in windows.merged(rows, shape.ends(rows.starts, clock.before, clock.now)):
            yield windows.results(groups, "on_close")


class _OnArrival:
    """An occasion in each micro-batch in which something arrives for a window."""

    @property
    def looks_up(self) -> bool:
        """Groups of which nothing arrived have no results."""
        return True

    def is_due(self, shape: WindowShape, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether something arrived."""
        return arrived is not None


@dataclass(frozen=True)
class OnChange(_OnArrival):
    """Each open window and group of which something arrived, in each micro-batch."""

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """The windows that have changed, also those that close now."""
        for groups in windows.changed(windows.clock.before, ALWAYS):
            yield windows.results(groups, "on_change")


@dataclass(frozen=True)
class OnCondition(_OnArrival):
    """A window and group in the micro-batch in which a condition first holds."""

    name: str
    """What marks are known by."""
    condition: CompiledExpression
    again_after: int | None = None
    """Microseconds by the watermark after which a further result is given, with the next change for which the condition holds."""

    def run(self, windows: ShapeRun) -> Iterator[pa.RecordBatch | pa.Table]:
        """Results of changed windows that had none yet, and marks that they have one now."""
        having, marks = windows.aggregation.having, None
        for groups in windows.changed(windows.clock.before, ALWAYS):
            passes, batch = is_met("when", self.condition, windows.batch(groups, "when"))
            mask = passes.to_numpy(zero_copy_only=False)
            if having is not None:
                passes, batch = is_met("having", having, batch)
                mask = mask & passes.to_numpy(zero_copy_only=False)
            if FAILED in batch.schema.names:
                failed = batch.column(FAILED).is_valid()
                yield batch.filter(failed)
                mask = mask & ~failed.to_numpy(zero_copy_only=False)
            if not mask.any():
                continue
            marks = self._marks(windows) if marks is None else marks
            mask[mask] = self._is_new(windows, groups.where(mask), marks)
            yield windows.aggregation.sorted(batch.filter(pa.array(mask)))
            yield self._mark(windows, groups.where(mask))

    def _id(self, shape: WindowShape) -> str:
        """Windows of several sizes may end at the same time."""
        return f"{shape.size} {self.name}"

    def _marks(self, windows: ShapeRun) -> list[pa.Table]:
        """The windows and groups that had a result, with its time."""
        columns = [PANE, *windows.aggregation.keys, f"{GIVEN}\x000"]
        tables = [
            table for table in windows.stored.of_keys(windows.arrived, windows.clock.before + 1) if MARK in table.column_names
        ]
        own = [table.filter(pc.equal(table.column(MARK), self._id(windows.shape))).select(columns) for table in tables]
        return [table.rename_columns([_END, *columns[1:]]) for table in own if len(table)]

    def _is_new(self, windows: ShapeRun, groups: WindowGroups, marks: Sequence[pa.Table]) -> Numbers:
        """Which of these have no mark, or one that is old enough."""
        if not marks:
            return np.ones(len(groups.ends), bool)
        keys = [_END, *windows.aggregation.keys]
        requested = self._table_of_groups(windows, groups).append_column(f"{_ROW}\x000", pa.array(np.arange(len(groups.ends))))
        rows = pa.concat_tables([requested, *marks], promote_options="default")
        found = group(rows, keys, {_ROW: Largest(), GIVEN: Largest()})
        found = found.filter(pc.is_valid(found.column(f"{_ROW}\x000")))
        given = np.empty(len(groups.ends), np.int64)
        given[found.column(f"{_ROW}\x000").to_numpy()] = pc.fill_null(found.column(f"{GIVEN}\x000"), _NO_TIME).to_numpy()
        new: Numbers = given == _NO_TIME
        return new if self.again_after is None else new | (given <= windows.clock.now - self.again_after)

    def _table_of_groups(self, windows: ShapeRun, groups: WindowGroups) -> pa.Table:
        names = windows.aggregation.keys
        return pa.table(
            {_END: pa.array(groups.ends), **{n: groups.take_rows(groups.partials.select([n])).column(n) for n in names}}
        )

    def _mark(self, windows: ShapeRun, groups: WindowGroups) -> pa.Table:
        """Marks, in panes that are over no earlier than their windows."""
        rows = self._table_of_groups(windows, groups)
        marks = pa.repeat(self._id(windows.shape), len(rows))
        rows = rows.rename_columns([PANE, *rows.column_names[1:]]).append_column(MARK, marks)
        return with_number(rows, GIVEN, windows.clock.now)
