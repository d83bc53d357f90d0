"""Rows of several keys in their order, and the frame of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.aggregates.all_rows import Frame
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.lists import order_keys


@dataclass(frozen=True)
class SortedRows:
    """Positions are those of rows sorted by key and order; ends are the position after the last row. int64[rows] each."""

    order: Numbers
    """The number of the row at each position."""
    first: Numbers
    """The first row of the key."""
    end: Numbers
    peer: Numbers
    """The first row of the key that is equal in the order."""
    peer_end: Numbers

    @classmethod
    def of(cls, hashes: Sequence[Numbers], by: Sequence[tuple[pa.Array, bool]]) -> SortedRows:
        """``by`` are columns, and whether the smallest value comes first; null is smaller than any value."""
        keys = [key for column, ascending in by for key in sort_keys(column, ascending)]
        order = np.lexsort((*keys[::-1], *hashes[::-1]))
        first, end = _runs(_differs(order, hashes))
        peer, peer_end = _runs(_differs(order, [*hashes, *keys]))
        return cls(order, first, end, peer, peer_end)

    @property
    def positions(self) -> Numbers:
        """int64[rows]: 0, 1, 2 …"""
        return np.arange(len(self.order))

    def frames(self, frame: Frame, values: Numbers | None, invalid: Numbers | None) -> tuple[Numbers, Numbers]:
        """The first position of each row's frame, and its end; ``values``, of sorted rows, are what distances go by, in ascending
        order, and ``invalid`` which of them are null."""
        if frame.goes_by_value:
            assert values is not None
            assert invalid is not None
            return self._frames_by_value(frame, values, invalid)
        at = self.positions
        if frame.by_rows:
            low = self.first if frame.start is None else np.maximum(self.first, at + _rows(frame.start))
            high = self.end if frame.end is None else np.minimum(self.end, at + 1 + _rows(frame.end))
        else:
            low = self.first if frame.start is None else self.peer
            high = self.end if frame.end is None else self.peer_end
        return low, np.maximum(low, high)

    def _frames_by_value(self, frame: Frame, values: Numbers, invalid: Numbers) -> tuple[Numbers, Numbers]:
        low, high = self.first, self.end
        if frame.start is not None:
            low = np.where(invalid, self.peer, self._search(values, invalid, frame.start, after=False))
        if frame.end is not None:
            high = np.where(invalid, self.peer_end, self._search(values, invalid, frame.end, after=True))
        return low, np.maximum(low, high)

    def _search(self, values: Numbers, invalid: Numbers, distance: float, after: bool) -> Numbers:
        """The first position in each row's key with a value of at least its own plus a distance, or of more than that."""
        count = len(values)
        moved = values + (distance if values.dtype.kind == "f" else int(distance))
        kind = np.repeat([after, not after], count)  # of equal ones first the requested value, or the values
        both, keys = np.concatenate((moved, values)), np.concatenate((self.first, self.first))
        nulls = np.concatenate((invalid, invalid))
        order = np.lexsort((kind, both, ~nulls, keys))
        before = np.cumsum(order >= count)
        found = np.empty(2 * count, np.int64)
        found[order] = before
        return np.clip(found[:count], self.first, self.end)


def _rows(distance: float) -> int:
    return int(max(-(1 << 40), min(1 << 40, distance)))


def sort_keys(column: pa.Array, ascending: bool) -> list[Numbers]:
    """Numbers in the order of a column: whether there is a value, and the value."""
    keys = order_keys(column)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    keys = np.where(valid, keys, 0)
    return [valid, keys] if ascending else [~valid, ~keys]


def _differs(order: Numbers, keys: Sequence[Numbers]) -> Numbers:
    """bool[rows]: whether a sorted row has other keys than the one before it."""
    found = np.zeros(len(order), bool)
    found[:1] = True
    for key in keys:
        taken = key[order]
        found[1:] |= taken[1:] != taken[:-1]
    return found


def _runs(begins: Numbers) -> tuple[Numbers, Numbers]:
    """The first position of each row's run, and the run's end."""
    starts = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    return starts[number], np.append(starts[1:], len(begins))[number]
