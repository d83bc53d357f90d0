"""Aggregates of the distinct values of a group, each with its number of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.extremes import from_ordered_bits, ordered_bits
from etl.state.aggregates.group_keys import canonical, gather, scatter
from etl.state.aggregates.lists import Elements, as_lists, constant_lists, order_keys

_ID, _VALUE, _COUNT = "id", "value", "count"


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
        return distinct_elements(Elements.of(grouping, columns)).lists()

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
        return counted_elements(Elements.of(grouping, columns)).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """As Spark: the rank ``share * (n - 1)`` counted from 0, and between two ranks on the line between their values."""
        elements = Elements.of_results(columns)
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
class _Tally:
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
        return counted_elements(Elements.of(grouping, columns)).lists()


@dataclass(frozen=True)
class Mode(_Tally):
    """``mode(x)``: the most frequent value, of equally frequent ones the smallest."""

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        elements = _most_frequent(columns)
        ends = elements.ends()
        return elements.columns[0].take(pa.array(ends[:-1], mask=np.diff(ends) == 0))


@dataclass(frozen=True)
class Top(_Tally):
    """``top(x, n)``: the n most frequent values with their numbers of events, of equally frequent ones the smallest first."""

    limit: int

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        elements = _most_frequent(columns).first(self.limit)
        counted = pa.StructArray.from_arrays(elements.columns, names=["value", "count"])
        return Elements(elements.groups, elements.ids, [counted]).lists()[0]


def _most_frequent(columns: Sequence[pa.Array]) -> Elements:
    """The values and counts of each group, the most frequent ones first, then the smallest."""
    elements = Elements.of_results(columns)
    values, counts = elements.columns
    return elements.sort(-counts.to_numpy(), order_keys(values))


@dataclass(frozen=True)
class DistinctCollect:
    """``collect_set(x, n)``: a list of the n smallest distinct values, in their order."""

    argument: AggregateArgument
    limit: int

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.argument.type),)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [pa.ListArray.from_arrays(*as_lists(canonical(self.argument.values(batch))))]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = distinct_elements(Elements.of(grouping, columns))
        return elements.sort(order_keys(elements.columns[0])).first(self.limit).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


def distinct_elements(elements: Elements) -> Elements:
    """The distinct values of each group, of one column."""
    values = elements.columns[0]
    table = pa.table({_ID: elements.ids, _VALUE: scatter(values)})
    distinct = table.group_by([_ID, _VALUE], use_threads=False).aggregate([])
    return _grouped(elements.groups, distinct.column(_ID), [gather(distinct.column(_VALUE), values.type)])


def counted_elements(elements: Elements) -> Elements:
    """The distinct values of each group with the sums of their counts; the columns are values and counts."""
    values, counts = elements.columns
    table = pa.table({_ID: elements.ids, _VALUE: scatter(values), _COUNT: counts})
    counted = table.group_by([_ID, _VALUE], use_threads=False).aggregate([(_COUNT, "sum")])
    columns = [gather(counted.column(_VALUE), values.type), counted.column(f"{_COUNT}_sum").combine_chunks()]
    return _grouped(elements.groups, counted.column(_ID), columns)


def group_totals(elements: Elements, counts: Numbers) -> tuple[Numbers, Numbers]:
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


def _grouped(groups: int, numbers: pa.ChunkedArray, columns: list[pa.Array]) -> Elements:
    """group_by gives groups in no particular order."""
    ids = numbers.to_numpy()
    elements = Elements(groups, ids, columns)
    return elements if (ids[1:] >= ids[:-1]).all() else elements.take(np.argsort(ids, kind="stable"))
