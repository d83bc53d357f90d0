"""The windows of one shape in a micro-batch: their rows, merged and made results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, PartRows, WatermarkAdvance
from etl.state.aggregates.accumulator import Accumulator, MergedByFunctions
from etl.state.part_rows import PartsOfFiles
from etl.state.windows.aggregation import Aggregation, Numbers
from etl.state.windows.pane_rows import PaneRows, merge_windows
from etl.state.windows.shapes import WindowShape

MARK = "\0mark"
"""Column of rows that are not partial results: what was given once for a window and group."""

CHANGED = "\0changed"
"""Aggregate of partial results: 1 for a group of which some arrived in this micro-batch."""


class Largest(MergedByFunctions):
    """An aggregate of partial results: the largest number."""

    types = (pa.int64(),)
    functions = ("max",)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Never called: partial results get their numbers when they are written or read."""
        raise NotImplementedError

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The number."""
        return columns[0]


def with_number(rows: pa.Table, name: str, number: int) -> pa.Table:
    """Rows with a number, which `Largest` merges."""
    return rows.append_column(f"{name}\x000", pa.array(np.full(len(rows), number, np.int64)))


def without_marks(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """The partial results among the rows of some tables."""
    filtered = (table.filter(pc.is_null(table.column(MARK))) if MARK in table.column_names else table for table in tables)
    return [table for table in filtered if len(table)]


NO_ROWS = PartsOfFiles((), ())


@dataclass(frozen=True)
class WindowGroups:
    """Partial results by window and group."""

    partials: pa.Table
    rows: Numbers | None
    """The row of ``partials`` of each result; None: each row is one result."""
    starts: Numbers
    ends: Numbers

    def take_rows(self, table: pa.Table) -> pa.Table:
        """A row for each result, of a table with a row for each of ``partials``."""
        return table if self.rows is None else table.take(pa.array(self.rows))

    def numbers(self, name: str) -> Numbers:
        """The column of numbers of each result; the smallest for null."""
        values = pc.fill_null(self.partials.column(name), np.iinfo(np.int64).min).to_numpy()
        return values if self.rows is None else values[self.rows]

    def where(self, mask: Numbers) -> WindowGroups:
        """The results for which it is true."""
        starts, ends = self.starts[mask], self.ends[mask]
        if self.rows is None:
            return WindowGroups(self.partials.filter(pa.array(mask)), None, starts, ends)
        return WindowGroups(self.partials, self.rows[mask], starts, ends)


@dataclass(frozen=True)
class ShapeRun:
    """The windows of one shape in a micro-batch, for some parts."""

    aggregation: Aggregation
    shape: WindowShape
    clock: WatermarkAdvance
    arrived: PartRows
    stored: PartRows

    def tables(self, first: int, end: int = ALWAYS) -> list[pa.Table]:
        """The partial results of panes, of this micro-batch and earlier ones."""
        return without_marks([*self.stored.in_order(first, end), *self.arrived.in_order(first, end)])

    def merged(
        self, rows: PaneRows, ends: Iterable[Numbers], hidden: Mapping[str, Accumulator] | None = None, keys: tuple[str, ...] = ()
    ) -> Iterator[WindowGroups]:
        """Rows merged for the windows with these ends, which hold some."""
        aggregation = replace(self.aggregation, hidden=hidden or {})
        for some in ends:
            starts = self.shape.starts(some)
            for found in merge_windows(aggregation, rows, starts, some, keys):
                yield WindowGroups(found.partials, found.rows, starts[found.windows], some[found.windows])

    def changed(self, after: int, until: int) -> Iterator[WindowGroups]:
        """The windows that end in ``after < end <= until``, and the groups of which something arrived in this micro-batch."""
        new = without_marks(self.arrived.in_order())
        if not new:
            return
        panes = PaneRows.of(new).starts
        old = without_marks(self.stored.of_keys(self.arrived, int(panes[0]) - self.shape.size, int(panes[-1]) + self.shape.size))
        marked = [*(with_number(table, CHANGED, 1) for table in new), *(with_number(table, CHANGED, 0) for table in old)]
        found = self.merged(PaneRows.of(marked), self.shape.ends(panes, after, until), {CHANGED: Largest()})
        for groups in found:
            yield groups.where(groups.numbers(f"{CHANGED}\x000") == 1)

    def batch(self, groups: WindowGroups, reason: str) -> pa.RecordBatch:
        """The results of these groups, whatever ``having`` says."""
        finished = groups.take_rows(self.aggregation.finish(groups.partials))
        return self.aggregation.batch(finished, groups.starts, groups.ends, reason)

    def results(self, groups: WindowGroups, reason: str) -> pa.RecordBatch:
        """The results of these groups that ``having`` lets pass."""
        return self.aggregation.sorted(self.aggregation.met(self.batch(groups, reason)))
