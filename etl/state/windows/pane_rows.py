"""Partial results by pane, merged for windows at a cost that follows the number of results.

Windows that hold the same panes have the same partial results, which are merged once. Where windows overlap much, neighbouring
panes are merged in pairs, pairs of pairs, and so on, so that a window of n panes is made of at most 2 log n of these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.api import PANE
from etl.state.windows.aggregation import Aggregation, Numbers

ROWS_AT_ONCE = 1 << 16
"""Maximum number of rows of several windows that are merged together; a window by itself costs a millisecond of Python."""

_BLOCK_ROWS = 1 << 18
"""Maximum number of rows of panes of which blocks are made at once, unless a window has more."""

_OVERLAP = 8
"""Windows in which a row is, from which on blocks cost less than merging it for each of them."""

_WORTH_IT = 0.8
"""Rows of blocks, of those of the blocks of half the size, up to which larger blocks are made."""

_SLICE_ROWS = 64
"""Rows from which on a slice of a table costs less than taking its rows one by one."""

_RANGE, _BLOCK = "\0range", "\0block"
"""Columns of rows: the number of the range of panes, or of the block, for which they are merged."""


@dataclass(frozen=True)
class PaneRows:
    """Rows in the order of their panes, in several tables."""

    tables: Sequence[pa.Table]
    panes: Sequence[Numbers]
    """The pane of each row of each table."""
    starts: Numbers
    """The panes that have rows, ascending."""
    before: Numbers
    """int64[panes + 1]: how many rows come before each of them."""

    @classmethod
    def of(cls, tables: Sequence[pa.Table]) -> PaneRows:
        """Tables that are each in the order of panes."""
        panes = [table.column(PANE).to_numpy() for table in tables]
        if not panes:
            return cls(tables, panes, np.empty(0, np.int64), np.zeros(1, np.int64))
        firsts = [np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1]))) for own in panes]
        counts = np.concatenate([np.diff(np.append(at, len(own))) for at, own in zip(firsts, panes, strict=True)])
        starts, inverse = np.unique(np.concatenate([own[at] for at, own in zip(firsts, panes, strict=True)]), return_inverse=True)
        totals = np.bincount(inverse, counts, len(starts)).astype(np.int64)
        return cls(tables, panes, starts, np.concatenate(([0], np.cumsum(totals))))

    def between(self, low: int, high: int) -> tuple[list[pa.Table], Numbers]:
        """The rows of the panes with these numbers, ``low`` included, and the number of each row's pane."""
        edges = [self.starts[low], self.starts[high - 1]]
        found, numbers = [], []
        for table, panes in zip(self.tables, self.panes, strict=True):
            first, end = np.searchsorted(panes, edges[0]), np.searchsorted(panes, edges[1], side="right")
            if first < end:
                found.append(table.slice(first, end - first))
                numbers.append(np.searchsorted(self.starts, panes[first:end]))
        return found, np.concatenate(numbers)


@dataclass(frozen=True)
class MergedWindows:
    """Partial results of windows."""

    partials: pa.Table
    rows: Numbers | None
    """The row of ``partials`` of each result; None: each row is one result."""
    windows: Numbers
    """The number of each result's window."""


def merge_windows(
    aggregation: Aggregation, rows: PaneRows, starts: Numbers, ends: Numbers, keys: tuple[str, ...] = ()
) -> Iterator[MergedWindows]:
    """Partial results by group, and by ``keys``, of windows that hold rows; starts and ends ascend."""
    low, high = np.searchsorted(rows.starts, starts), np.searchsorted(rows.starts, ends)
    is_new = np.concatenate(([True], (low[1:] != low[:-1]) | (high[1:] != high[:-1])))
    firsts = np.append(np.flatnonzero(is_new), len(ends))
    all_differ = len(firsts) == len(ends) + 1
    for partials in _merge_ranges(_Merge(aggregation, keys), rows, low[is_new], high[is_new]):
        ranges = partials.column(_RANGE).to_numpy()
        if all_differ:
            yield MergedWindows(partials, None, ranges)
        else:
            yield from _repeat(partials, ranges, firsts)


def _repeat(partials: pa.Table, ranges: Numbers, firsts: Numbers) -> Iterator[MergedWindows]:
    """The partial results of each range of panes for each window that holds it, which are ``firsts[range]`` and those up to the
    next one."""
    counts = firsts[ranges + 1] - firsts[ranges]
    before = np.concatenate(([0], np.cumsum(counts)))
    for begin in range(0, int(before[-1]), ROWS_AT_ONCE):
        numbers = np.arange(begin, min(begin + ROWS_AT_ONCE, before[-1]))
        rows = np.searchsorted(before, numbers, side="right") - 1
        yield MergedWindows(partials, rows, firsts[ranges[rows]] + numbers - before[rows])


@dataclass(frozen=True)
class _Merge:
    """Which rows are merged: those of a group with the same ``keys``."""

    aggregation: Aggregation
    keys: tuple[str, ...]

    def whole(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of several files, without columns that are not merged."""
        return self.aggregation.concat(tables).select([*self.keys, *self.aggregation.columns])

    def by(self, column: str, rows: pa.Table, numbers: Numbers) -> pa.Table:
        """One row for those with the same number, which becomes a column."""
        return self.aggregation.merge(rows.append_column(column, pa.array(numbers)), (column, *self.keys))


def _merge_ranges(merge: _Merge, rows: PaneRows, low: Numbers, high: Numbers) -> Iterator[pa.Table]:
    """Partial results by group and range of panes."""
    counts = rows.before[high] - rows.before[low]
    union = rows.before[high[-1]] - rows.before[low[0]]
    if counts.sum() > _OVERLAP * union and (high - low).mean() > 2 * _OVERLAP:
        yield from _merge_by_blocks(merge, rows, low, high)
        return
    for first, end in _batches(counts):
        tables, panes = rows.between(low[first], high[end - 1])
        ranges = np.arange(first, end)
        whole = merge.whole(tables)
        if (high[first : end - 1] == low[first + 1 : end]).all():
            numbers = ranges[np.searchsorted(low[first:end], panes, side="right") - 1]
        else:
            if (panes[1:] < panes[:-1]).any():
                whole = whole.take(pa.array(np.argsort(panes, kind="stable")))
            before = rows.before - rows.before[low[first]]
            whole, of_range = _repeat_rows(whole, before[low[first:end]], before[high[first:end]])
            numbers = ranges[of_range]
        yield merge.by(_RANGE, whole, numbers)


def _batches(counts: Numbers) -> Iterator[tuple[int, int]]:
    """Ranges of numbers whose counts together are at most `ROWS_AT_ONCE`, or that are one."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        done = ends[first - 1] if first else 0
        end = max(first + 1, int(np.searchsorted(ends, done + ROWS_AT_ONCE, side="right")))
        yield first, end
        first = end


def _repeat_rows(rows: pa.Table, firsts: Numbers, ends: Numbers) -> tuple[pa.Table, Numbers]:
    """The rows from each first to its end, and which of them each is of."""
    taken, of = _expand(firsts, ends)
    if len(taken) < _SLICE_ROWS * len(firsts):
        return rows.take(pa.array(taken)), of
    edges = zip(firsts.tolist(), (ends - firsts).tolist(), strict=True)
    return pa.concat_tables([rows.slice(first, count) for first, count in edges]), of


def _expand(firsts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers from each first to its end, and which of them each is of."""
    counts = ends - firsts
    of = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + firsts[of], of


# ── Blocks ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Level:
    """Blocks of the same number of panes."""

    rows: pa.Table
    before: Numbers
    """How many rows come before each block."""

    @classmethod
    def of(cls, rows: pa.Table, blocks: int) -> _Level:
        """Rows with the column `_BLOCK`."""
        numbers = rows.column(_BLOCK).to_numpy()
        if (np.diff(numbers) < 0).any():
            order = np.argsort(numbers, kind="stable")
            rows, numbers = rows.take(pa.array(order)), numbers[order]
        return cls(rows, np.searchsorted(numbers, np.arange(blocks + 1)))

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.before) - 1

    def next(self, merge: _Merge) -> _Level:
        """Two blocks each as one."""
        numbers = self.rows.column(_BLOCK).to_numpy() >> 1
        return _Level.of(merge.by(_BLOCK, self.rows.drop_columns([_BLOCK]), numbers), (self.blocks + 1) // 2)


def _merge_by_blocks(merge: _Merge, rows: PaneRows, low: Numbers, high: Numbers) -> Iterator[pa.Table]:
    """Partial results by group and range of panes, made of blocks."""
    first = 0
    while first < len(low):
        max_rows = max(_BLOCK_ROWS, 2 * (rows.before[high[first]] - rows.before[low[first]]))
        end = max(first + 1, int(np.searchsorted(rows.before[high], rows.before[low[first]] + max_rows, side="right")))
        tables, panes = rows.between(low[first], high[end - 1])
        whole = merge.whole(tables).append_column(_BLOCK, pa.array(panes - low[first]))
        level = _Level.of(whole, int(high[end - 1] - low[first]))
        longest = int((high[first:end] - low[first:end]).max())
        levels = list(_levels(merge, level, longest))
        yield from _of_blocks(merge, levels, low[first:end] - low[first], high[first:end] - low[first], first)
        first = end


def _levels(merge: _Merge, level: _Level, longest: int) -> Iterator[_Level]:
    """Larger and larger blocks, while they fit into the longest range and have fewer rows than the smaller ones."""
    yield level
    while longest := longest // 2:
        larger = level.next(merge)
        if len(larger.rows) > _WORTH_IT * len(level.rows):
            return
        level = larger
        yield level


def _of_blocks(merge: _Merge, levels: Sequence[_Level], low: Numbers, high: Numbers, number: int) -> Iterator[pa.Table]:
    """Partial results by group of ranges, the first of which has this number."""
    chosen = _chosen_blocks(len(levels), low, high)
    counts = np.zeros(len(low), np.int64)
    for level, (ranges, blocks, ends) in zip(levels, chosen, strict=True):
        np.add.at(counts, ranges, level.before[ends] - level.before[blocks])
    for first, end in _batches(counts):
        parts, numbers = [], []
        for level, (ranges, blocks, ends) in zip(levels, chosen, strict=True):
            inside = (ranges >= first) & (ranges < end)
            taken, of = _expand(level.before[blocks[inside]], level.before[ends[inside]])
            numbers.append(ranges[inside][of] + number)
            parts.append(level.rows.drop_columns([_BLOCK]).take(pa.array(taken)))
        yield merge.by(_RANGE, pa.concat_tables(parts, promote_options="default"), np.concatenate(numbers))


def _chosen_blocks(levels: int, low: Numbers, high: Numbers) -> list[tuple[Numbers, Numbers, Numbers]]:
    """The fewest blocks that make up each range: for each level, the numbers of ranges, and the first and the end of their
    blocks."""
    low, high, found = low.copy(), high.copy(), []
    for _ in range(levels - 1):
        at_low = np.flatnonzero((low < high) & (low & 1 == 1))
        left = low[at_low]
        low[at_low] += 1
        at_high = np.flatnonzero((low < high) & (high & 1 == 1))
        high[at_high] -= 1
        blocks = np.concatenate((left, high[at_high]))
        found.append((np.concatenate((at_low, at_high)), blocks, blocks + 1))
        low, high = low >> 1, high >> 1
    rest = np.flatnonzero(low < high)
    return [*found, (rest, low[rest], high[rest])]
