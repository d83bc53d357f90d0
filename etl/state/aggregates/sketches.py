"""Approximate aggregates in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.lists import ListElements, as_lists, constant_lists, order_keys
from etl.state.aggregates.tallies import Tally, counted_elements, counted_values, distinct_elements, group_totals, most_frequent

RANKS = 1024
"""Values that each level of a percentile holds at most: with fewer the percentile is exact, else its rank is off by 0.5 % of the
events or less in 99 of 100 cases. All levels hold some 3,000 values at most."""

COUNTERS = 2048
"""Values that an estimate of the most frequent ones counts: with fewer it is exact, else each count is less than 0.05 % of the
group's events too low."""

_SHRINK = 2 / 3
"""Capacity of a level of values in proportion to the level above."""

_MIN_CAPACITY = 8
"""The smallest capacity of a level."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class DistinctEstimate:
    """``approx_count_distinct(x, error)``: a list of the smallest k distinct hashes (bottom-k sketch). With fewer it is exact.

    With the largest of k hashes at the share u of their range, the estimate is (k - 1) / u; its standard error is 1 / √(k - 2).
    """

    argument: AggregateArgument
    hashes: int
    """k"""

    types = (pa.list_(pa.uint64()),)
    functions = None

    @classmethod
    def within(cls, argument: AggregateArgument, error: float) -> DistinctEstimate:
        """The estimate with this relative standard error: of 0.0443 for 512 hashes (4 KB)."""
        return cls(argument, math.ceil(error**-2) + 2)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        from etl.state.key_hash import key_hashes

        values = self.argument.values(batch)
        offsets, present = as_lists(values)
        hashes = key_hashes(pa.table({"value": present}), ["value"])[0]
        return [pa.ListArray.from_arrays(offsets, pa.array(hashes))]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = distinct_elements(ListElements.of(grouping, columns))
        return elements.sort(elements.columns[0].to_numpy()).first(self.hashes).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        elements = ListElements.of_results(columns)
        ends, hashes = elements.ends(), elements.columns[0].to_numpy()
        counts = np.diff(ends)
        full = counts == self.hashes
        largest = np.ones(len(counts))
        largest[full] = (hashes[ends[1:][full] - 1].astype(np.float64) + 1) / 2.0**64
        return pa.array(np.where(full, np.rint((self.hashes - 1) / largest), counts).astype(np.int64))


@dataclass(frozen=True)
class PercentileEstimate:
    """``approx_percentile(x, share)``: lists of values and of their levels; a value of level h stands for 2**h events.

    The result is a value that occurs, and NaN is the greatest. Spark's differs there: it compares values as doubles, returns
    integers and decimals of more than 15 digits rounded, and has no order for NaN.

    Where a level has more values than it holds, every second one in their order goes up a level (KLL sketch: Karnin, Lang,
    Liberty, "Optimal Quantile Approximation in Streams", 2016). Odd or even ones, a hash of the level's values decides, so that
    a batch that runs again gives the same.
    """

    argument: AggregateArgument
    share: float

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.argument.type), pa.list_(pa.int8()))

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        offsets, values = as_lists(self.argument.values(batch))
        return [pa.ListArray.from_arrays(offsets, values), constant_lists(offsets, 0, pa.int8())]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = ListElements.of(grouping, columns)
        if elements.max_size() <= RANKS:
            return elements.lists()
        levels = elements.columns[1].to_numpy().copy()
        remaining = _compact(elements, order_keys(elements.columns[0]), levels)
        values = elements.take(remaining)
        return ListElements(values.groups, values.ids, [values.columns[0], pa.array(levels[remaining])]).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The value of rank ⌈share · n⌉, counted from 1, as Spark."""
        elements = ListElements.of_results(columns)
        elements = elements.sort(order_keys(elements.columns[0]))
        weights = np.int64(1) << elements.columns[1].to_numpy().astype(np.int64)
        totals, before = group_totals(elements, weights)
        rank = np.maximum(np.ceil(self.share * totals), 1)
        at = np.searchsorted(np.cumsum(weights), before + rank, side="left")
        return elements.columns[0].take(pa.array(at, mask=totals == 0))


@dataclass(frozen=True)
class TopEstimate(Tally):
    """``approx_top(x, n)``: lists of at most `COUNTERS` values and of their numbers of events (Misra-Gries summary).

    Where there are more values, the count of the first one too many, in the order of counts, is subtracted from all counts, and
    values that have none left go (Agarwal et al., "Mergeable Summaries", 2012). Each subtraction takes its number of events from
    more than `COUNTERS` values, so that all of them, in whatever order, take less than 1 / `COUNTERS` of the events from a value.
    """

    limit: int

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return _reduce(counted_elements(ListElements.of(grouping, columns))).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return counted_values(most_frequent(ListElements.of_results(columns)).first(self.limit))


def _reduce(elements: ListElements) -> ListElements:
    """Values and counts, of groups with too many the counts less that of the first one too many."""
    ends = elements.ends()
    many = np.flatnonzero(np.diff(ends) > COUNTERS)
    if not len(many):
        return elements
    values, counts = elements.columns[0], elements.columns[1].to_numpy()
    discounts = np.zeros(elements.groups, np.int64)
    for group in many:
        own = counts[ends[group] : ends[group + 1]]
        discounts[group] = np.partition(own, len(own) - COUNTERS - 1)[len(own) - COUNTERS - 1]
    left = counts - discounts[elements.ids]
    return ListElements(elements.groups, elements.ids, [values, pa.array(left)]).take(np.flatnonzero(left > 0))


def _compact(elements: ListElements, keys: Numbers, levels: Numbers) -> Numbers:
    """The numbers of the elements that remain, after changing ``levels`` of those that went up."""
    remaining = np.ones(len(levels), bool)
    top = np.zeros(elements.groups, np.int64)
    np.maximum.at(top, elements.ids, levels)
    level = 0
    while level <= int(levels.max(initial=0)):
        capacity = np.maximum(RANKS * _SHRINK ** np.maximum(top - level, 0), _MIN_CAPACITY)
        rows = np.flatnonzero(remaining & (levels == level))
        counts = np.bincount(elements.ids[rows], minlength=elements.groups)
        rows = rows[(counts > capacity)[elements.ids[rows]]]
        if len(rows):
            dropped, raised = _halve(elements.ids, keys, rows, level)
            remaining[dropped] = False
            levels[raised] = level + 1
        level += 1
    return np.flatnonzero(remaining)


def _halve(ids: Numbers, keys: Numbers, rows: Numbers, level: int) -> tuple[Numbers, Numbers]:
    """Of each pair of neighbours in the order of a group's values one is dropped, the other raised; an odd last one stays."""
    rows = rows[np.lexsort((keys[rows], ids[rows]))]
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ids[rows]) != 0)))
    counts = np.diff(np.append(starts, len(rows)))
    ordinal = np.arange(len(rows)) - np.repeat(starts, counts)
    paired = ordinal < np.repeat(counts - counts % 2, counts)
    sums = np.add.reduceat(keys[rows].astype(np.uint64) + np.uint64(level), starts)
    coins = (((sums ^ (sums >> np.uint64(32))) * _MIX) >> np.uint64(63)).astype(np.int64)
    raised = (ordinal + np.repeat(coins, counts)) % 2 == 0
    return rows[paired & ~raised], rows[paired & raised]
