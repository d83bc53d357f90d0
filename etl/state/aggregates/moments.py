"""Variance, standard deviation and correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument


@dataclass(frozen=True)
class Variance:
    """``variance(x)``, ``stddev(x)`` of a sample: columns are the number of values, their mean, and the sum of the squares of
    their differences from it, which does not cancel as a sum of squares does."""

    argument: AggregateArgument
    root: bool = False

    types = (pa.int64(), pa.float64(), pa.float64())
    functions = None

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = _doubles(self.argument.values(batch))
        return [values.is_valid().cast(pa.int64()), values.fill_null(0.0), _zeros(len(values))]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        count, mean, squares = _order(grouping, columns)
        (merged_mean,), (merged,) = _merge(grouping, count, [mean], [(0, 0, squares)])
        return [pa.array(_sum(grouping, count)), pa.array(merged_mean), pa.array(merged)]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Null for fewer than two values."""
        count = columns[0].to_numpy()
        variance = columns[2].to_numpy() / np.maximum(count - 1, 1)
        return pa.array(np.sqrt(variance) if self.root else variance, mask=count < 2)


@dataclass(frozen=True)
class Correlation:
    """``correlation(x, y)``, Pearson's, of events that have both: columns are their number, the means of x and y, and the sums of
    the products of differences from the means: x·x, y·y, x·y."""

    x: AggregateArgument
    y: AggregateArgument

    types = (pa.int64(), *(pa.float64(),) * 5)
    functions = None

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        x, y = _doubles(self.x.values(batch)), _doubles(self.y.values(batch))
        both = pc.and_(x.is_valid(), y.is_valid())
        means = [pc.if_else(both, one, 0.0) for one in (x, y)]
        return [both.cast(pa.int64()), *means, *[_zeros(len(x))] * 3]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        count, mean_x, mean_y, xx, yy, xy = _order(grouping, columns)
        means, products = _merge(grouping, count, [mean_x, mean_y], [(0, 0, xx), (1, 1, yy), (0, 1, xy)])
        return [pa.array(column) for column in (_sum(grouping, count), *means, *products)]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Null for fewer than two events, and where x or y does not vary."""
        count, _, _, xx, yy, xy = (column.to_numpy() for column in columns)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale = np.sqrt(xx * yy)
            return pa.array(xy / scale, mask=(count < 2) | (xx == 0) | (yy == 0) | (scale == 0))


def _merge(
    grouping: Grouping, count: Numbers, means: Sequence[Numbers], products: Sequence[tuple[int, int, Numbers]]
) -> tuple[list[Numbers], list[Numbers]]:
    """Means, and sums of products of the differences of two variables from them, of each group.

    Means are added to the first value of their group, so that those of equal values are exact.
    """
    total = np.maximum(_sum(grouping, count), 1)
    ids, weights = grouping.ids, count.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        merged, differences = [], []
        for mean in means:
            first = _first_means(grouping, count, mean)
            shift = np.where(count > 0, mean - first[ids], 0.0)
            merged.append(first + _sum(grouping, weights * shift) / total)
            differences.append(np.where(count > 0, mean - merged[-1][ids], 0.0))
        sums = [_sum(grouping, product + weights * differences[a] * differences[b]) for a, b, product in products]
    return merged, sums


def _first_means(grouping: Grouping, count: Numbers, mean: Numbers) -> Numbers:
    """The mean of the first row of each group that has values."""
    hits = np.flatnonzero(count > 0)
    at = np.append(hits, 0)[np.searchsorted(hits, grouping.ends[:-1])]
    return np.asarray(mean[at] if len(mean) else np.zeros(grouping.count))


def _sum(grouping: Grouping, numbers: Numbers) -> Numbers:
    return np.asarray(np.add.reduceat(numbers, grouping.ends[:-1]) if grouping.count else numbers)


def _order(grouping: Grouping, columns: Sequence[pa.Array]) -> list[Numbers]:
    return [column.to_numpy()[grouping.order] for column in columns]


def _doubles(values: pa.Array) -> pa.Array:
    return values.cast(pa.float64(), safe=False)


def _zeros(length: int) -> pa.Array:
    return pa.array(np.zeros(length))
