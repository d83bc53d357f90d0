"""Rows of the two sides of a join, and the pairs of them with equal keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import Numbers

MAX_PAIRS = 1 << 17
"""Pairs of one yielded piece."""


@dataclass(frozen=True)
class JoinSide:
    """Rows of one side, with the number of their keys; those with a null key, which match nothing, have -1."""

    rows: pa.Table
    keys: Numbers
    weights: Numbers

    def where(self, mask: Numbers) -> JoinSide:
        """The rows for which the mask is true."""
        return self if mask.all() else JoinSide(self.rows.filter(pa.array(mask)), self.keys[mask], self.weights[mask])


def matching_rows(left: Numbers, right: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """The pairs of rows with equal keys, which are not negative: the rows of the left and of the right side (int64[n] each)."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    low, high = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    sizes = np.where(left >= 0, high - low, 0)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(left):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + MAX_PAIRS, "right")))
        part = sizes[first:last]
        if total := int(part.sum()):
            rows = np.repeat(np.arange(first, last), part)
            index = np.arange(total) - np.repeat(np.cumsum(part) - part, part)
            yield rows, order[low[rows] + index]
        first = last
