"""Kernels of intervals: find the innermost interval that contains a value.

The ends of all intervals are sorted and numbered. A *slot* is an end itself (2 n) or the open gap after it (2 n + 1), so that
intervals of integers, fractions and addresses all become closed intervals of slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel

OUTSIDE = np.uint32(0xFFFFFFFF)
"""Row number of a slot that is in no interval."""


@kernel
def cover(firsts: Any, lasts: Any, rows: Any, stack: Any, at: Any) -> None:
    """uint32[slots]: for each slot the row of the interval around it that starts last.

    Intervals (int64[n]) are sorted by their start; ``stack`` is working memory, int64[n].
    """
    top, interval = -1, 0
    for slot in range(at.shape[0]):
        while interval < firsts.shape[0] and firsts[interval] == slot:
            top += 1
            stack[top] = interval
            interval += 1
        while top >= 0 and lasts[stack[top]] < slot:
            top -= 1
        at[slot] = rows[stack[top]] if top >= 0 else OUTSIDE


@kernel
def find_pairs(high: Any, low: Any, valid: Any, highs: Any, lows: Any, begin: Any, directory: Any, at: Any, rows: Any) -> None:
    """int64[n]: the row at each 128-bit value, -1 for none. ``directory`` narrows the search among the ends that are IPv4
    addresses by their upper 16 bits; ``begin`` is the first of them."""
    for row in range(high.shape[0]):
        rows[row] = -1
        if valid[row]:
            first, last = np.int64(0), np.int64(highs.shape[0])
            if high[row] == np.uint64(0) and low[row] >> np.uint64(32) == np.uint64(0xFFFF):
                slot = (low[row] >> np.uint64(16)) & np.uint64(0xFFFF)
                first, last = begin + np.int64(directory[slot]), begin + np.int64(directory[slot + np.uint64(1)])
            while first < last:  # the first end greater than the value
                middle = (first + last) >> 1
                if highs[middle] < high[row] or (highs[middle] == high[row] and lows[middle] <= low[row]):
                    first = middle + 1
                else:
                    last = middle
            if first > 0:
                same = highs[first - 1] == high[row] and lows[first - 1] == low[row]
                found = at[2 * (first - 1) + (0 if same else 1)]
                rows[row] = np.int64(found) if found != OUTSIDE else -1


@kernel
def find_values(values: Any, valid: Any, ends: Any, at: Any, rows: Any) -> None:
    """int64[n]: the row at each value, -1 for none; ``ends`` are of the values' type, in order."""
    for row in range(values.shape[0]):
        rows[row] = -1
        if valid[row]:
            first, last = 0, ends.shape[0]
            while first < last:
                middle = (first + last) >> 1
                if ends[middle] <= values[row]:
                    first = middle + 1
                else:
                    last = middle
            if first > 0:
                found = at[2 * (first - 1) + (0 if ends[first - 1] == values[row] else 1)]
                rows[row] = np.int64(found) if found != OUTSIDE else -1
