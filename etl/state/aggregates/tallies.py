"""Aggregates of the distinct values of a group, each with its number of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.aggregates.parameters import Buckets
from etl.api import ComponentError
from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.extremes import from_ordered_bits, ordered_bits
from etl.state.aggregates.group_keys import canonical, gather, scatter
from etl.state.aggregates.lists import ListElements, as_lists, constant_lists, order_keys

_ID, _VALUE, _COUNT = "id", "value", "count"

MAX_DISTINCT = 5_000_000
"""Distinct values of a group that an exact aggregate holds: the task that merges them needs some 250 bytes for each."""

MAX_BUCKETS = 10_000
"""Buckets of one width in a group: each is an element of the result."""

_WHOLE = 2.0**53
"""Whole numbers below are exact as double."""


@dataclass(frozen=True)
class Distinct:
    """``count(distinct x)``: a list of the distinct values. NaN is one value, and -0.0 is 0.0."""

    argument: AggregateArgument

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.argument.type),)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [pa.ListArray.from_arrays(*as_lists(canonical(self.argument.values(batch))))]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        values = distinct_elements(ListElements.of(grouping, columns))
        return _limit(values, self.argument, "approx_count_distinct(x)").lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return pc.list_value_length(columns[0]).cast(pa.int64())


@dataclass(frozen=True)
class Percentile:
    """``percentile(x, share)``: lists of the distinct values, as bits in their order, and of their numbers of events."""

    argument: AggregateArgument
    share: float

    types = (pa.list_(pa.int64()), pa.list_(pa.int64()))
    functions = None

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = canonical(self.argument.values(batch).cast(pa.float64(), safe=False))
        offsets, bits = as_lists(ordered_bits(values))
        return [pa.ListArray.from_arrays(offsets, bits), constant_lists(offsets, 1, pa.int64())]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        values = counted_elements(ListElements.of(grouping, columns))
        return _limit(values, self.argument, f"approx_percentile(x, {self.share})").lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """As Spark: the rank ``share * (n - 1)`` counted from 0, and between two ranks on the line between their values."""
        elements = ListElements.of_results(columns)
        elements = elements.sort(elements.columns[0].to_numpy())
        bits, counts = (column.to_numpy() for column in elements.columns)
        totals, before = group_totals(elements, counts)
        rank = np.maximum(totals - 1, 0) * self.share
        low, high = np.floor(rank), np.ceil(rank)
        ends = np.cumsum(counts)
        below, above = (_value_at(bits, ends, before + at, totals > 0) for at in (low, high))
        with np.errstate(invalid="ignore"):  # infinities
            between = below + (rank - low) * (above - below)
        same = (low == high) | (below == above)
        return pa.array(np.where(same, below, between), mask=totals == 0)


@dataclass(frozen=True)
class Tally:
    """Lists of the distinct values, and of their numbers of events."""

    argument: AggregateArgument

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.argument.type), pa.list_(pa.int64()))

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        offsets, values = as_lists(canonical(self.argument.values(batch)))
        return [pa.ListArray.from_arrays(offsets, values), constant_lists(offsets, 1, pa.int64())]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return _limit(counted_elements(ListElements.of(grouping, columns)), self.argument, "approx_top(x, 10)").lists()


@dataclass(frozen=True)
class Mode(Tally):
    """``mode(x)``: the most frequent value, of equally frequent ones the smallest."""

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        elements = most_frequent(ListElements.of_results(columns))
        ends = elements.ends()
        return elements.columns[0].take(pa.array(ends[:-1], mask=np.diff(ends) == 0))


@dataclass(frozen=True)
class Top(Tally):
    """``top(x, n)``: the n most frequent values with their numbers of events, of equally frequent ones the smallest first."""

    limit: int

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return counted_values(most_frequent(ListElements.of_results(columns)).first(self.limit))


def most_frequent(elements: ListElements) -> ListElements:
    """The values and counts of each group, the most frequent ones first, then the smallest."""
    values, counts = elements.columns
    return elements.sort(-counts.to_numpy(), order_keys(values))


def counted_values(elements: ListElements) -> pa.Array:
    """Lists of ``value`` and ``count``."""
    counted = pa.StructArray.from_arrays(elements.columns, names=["value", "count"])
    return ListElements(elements.groups, elements.ids, [counted]).lists()[0]


@dataclass(frozen=True)
class Histogram:
    """``histogram(x, …)``: lists of the numbers of buckets that have values, and of their numbers of events.

    A bucket holds ``from <= x < to``. NaN is in none, and infinity in none that has both edges.
    """

    argument: AggregateArgument
    buckets: Buckets

    types = (pa.list_(pa.int64()), pa.list_(pa.int64()))
    functions = None

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = self.argument.values(batch).cast(pa.float64(), safe=False)
        offsets, numbers = as_lists(self._numbers(values.fill_null(np.nan).to_numpy(zero_copy_only=False)))
        return [pa.ListArray.from_arrays(offsets, numbers), constant_lists(offsets, 1, pa.int64())]

    def _numbers(self, values: Numbers) -> pa.Array:
        """int64[values]: the number of each one's bucket, null if it has none."""
        if self.buckets.width is None:
            return pa.array(np.searchsorted(self.buckets.bounds, values, side="right"), mask=np.isnan(values))
        with np.errstate(over="ignore"):
            numbers = np.floor(values / self.buckets.width)
        outside = ~(np.abs(numbers) < _WHOLE)
        return pa.array(np.where(outside, 0, numbers).astype(np.int64), mask=outside)

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = counted_elements(ListElements.of(grouping, columns))
        if elements.max_size() > MAX_BUCKETS:
            hint = "give a larger width, or a list of bounds"
            raise ComponentError(
                f"aggregate {self.argument.aggregate!r} has more than {MAX_BUCKETS:,} buckets in a group; {hint}"
            )
        return elements.lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Of buckets of one width those that have values, and all between bounds, whose first and last have one edge."""
        elements = ListElements.of_results(columns)
        if self.buckets.width is None:
            return self._between_bounds(elements)
        elements = elements.sort(elements.columns[0].to_numpy())
        numbers, counts = (column.to_numpy() for column in elements.columns)
        edges = [pa.array(number * self.buckets.width) for number in (numbers, numbers + 1)]
        return _buckets(ListElements(elements.groups, elements.ids, [*edges, pa.array(counts)]))

    def _between_bounds(self, elements: ListElements) -> pa.Array:
        bounds, groups = self.buckets.bounds, elements.groups
        numbers, counts = (column.to_numpy() for column in elements.columns)
        every = np.zeros((groups, len(bounds) + 1), np.int64)
        every[elements.ids, numbers] = counts
        edges = [pa.array(list(edge) * groups, pa.float64()) for edge in ((None, *bounds), (*bounds, None))]
        ids = np.repeat(np.arange(groups), len(bounds) + 1)
        return _buckets(ListElements(groups, ids, [*edges, pa.array(every.ravel())]))


def _buckets(elements: ListElements) -> pa.Array:
    """Lists of ``from``, ``to`` and ``count``."""
    buckets = pa.StructArray.from_arrays(elements.columns, names=["from", "to", "count"])
    return ListElements(elements.groups, elements.ids, [buckets]).lists()[0]


@dataclass(frozen=True)
class DistinctCollect(Distinct):
    """``collect_set(x, n)``: a list of the n smallest distinct values, in their order."""

    limit: int

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = distinct_elements(ListElements.of(grouping, columns))
        return elements.sort(order_keys(elements.columns[0])).first(self.limit).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


def _limit(elements: ListElements, argument: AggregateArgument, other: str) -> ListElements:
    """The elements. Raises ComponentError if a group has too many, which names an aggregate in bounded memory."""
    if elements.max_size() > MAX_DISTINCT:
        found = f"aggregate {argument.aggregate!r} has more than {MAX_DISTINCT:,} distinct values in a group"
        raise ComponentError(f"{found}: use {other}, under another name")
    return elements


def distinct_elements(elements: ListElements) -> ListElements:
    """The distinct values of each group, of one column."""
    values = elements.columns[0]
    table = pa.table({_ID: elements.ids, _VALUE: scatter(values)})
    distinct = table.group_by([_ID, _VALUE], use_threads=False).aggregate([])
    return _group(elements.groups, distinct.column(_ID), [gather(distinct.column(_VALUE), values.type)])


def counted_elements(elements: ListElements) -> ListElements:
    """The distinct values of each group with the sums of their counts; the columns are values and counts."""
    values, counts = elements.columns
    table = pa.table({_ID: elements.ids, _VALUE: scatter(values), _COUNT: counts})
    counted = table.group_by([_ID, _VALUE], use_threads=False).aggregate([(_COUNT, "sum")])
    columns = [gather(counted.column(_VALUE), values.type), counted.column(f"{_COUNT}_sum").combine_chunks()]
    return _group(elements.groups, counted.column(_ID), columns)


def group_totals(elements: ListElements, counts: Numbers) -> tuple[Numbers, Numbers]:
    """int64[groups]: the sum of the counts of each group, and of all groups before it."""
    ends = elements.ends()
    until = np.concatenate(([0], np.cumsum(counts)))[ends]
    return np.diff(until), until[:-1]


def _value_at(bits: Numbers, ends: Numbers, rank: Numbers, exists: Numbers) -> Numbers:
    """float64[groups]: the value whose events have this rank, counted from 0 over all groups."""
    at = np.searchsorted(ends, np.where(exists, rank, 0), side="right")
    found = bits[at] if len(bits) else np.zeros(len(rank), np.int64)
    values: Numbers = from_ordered_bits(pa.array(found)).to_numpy()
    return values


def _group(groups: int, numbers: pa.ChunkedArray, columns: list[pa.Array]) -> ListElements:
    """group_by gives groups in no particular order."""
    ids = numbers.to_numpy()
    elements = ListElements(groups, ids, columns)
    return elements if (ids[1:] >= ids[:-1]).all() else elements.take(np.argsort(ids, kind="stable"))
