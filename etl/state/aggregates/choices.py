"""The value of one event of a group, and the values of its earliest events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET
from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.group_keys import canonical
from etl.state.aggregates.lists import ListElements, as_lists, order_keys

_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class FirstOrLast:
    """``first(x)``, ``last(x)``: columns are the event time, the offset and x; all null while no event has a value."""

    argument: AggregateArgument
    time: str
    last: bool = False

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), pa.int64(), self.argument.type)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = self.argument.values(batch)
        return [*(_where_valid(values, column) for column in event_order(batch, self.time)), values]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        keys = [column.fill_null(0).to_numpy()[grouping.order] for column in columns[:2]]
        candidates = columns[0].is_valid().to_numpy(zero_copy_only=False)[grouping.order]
        rows = smallest_rows(grouping, candidates, [~key for key in keys] if self.last else keys)
        return [column.take(pa.array(rows)) for column in columns]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[2]


@dataclass(frozen=True)
class MinOrMaxBy:
    """``min_by(x, y)``, ``max_by(x, y)``: columns are y, the event time, the offset and x.

    Of events with the same y it is x of the earliest, or for the greatest y of the latest.
    """

    x: AggregateArgument
    y: AggregateArgument
    time: str
    greatest: bool = False

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.y.type, pa.int64(), pa.int64(), self.x.type)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        by = canonical(self.y.values(batch))
        return [by, *event_order(batch, self.time), self.x.values(batch, by.is_valid())]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        keys = [key[grouping.order] for key in map(order_keys, columns[:3])]
        candidates = columns[0].is_valid().to_numpy(zero_copy_only=False)[grouping.order]
        rows = smallest_rows(grouping, candidates, [~key for key in keys] if self.greatest else keys)
        return [column.take(pa.array(rows)) for column in columns]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Null where no event has a y."""
        return pc.if_else(columns[0].is_valid(), columns[3], pa.scalar(None, self.x.type))


@dataclass(frozen=True)
class Collect:
    """``collect(x, n)``: columns are lists of event times, offsets and x, in this order and of at most n elements."""

    argument: AggregateArgument
    time: str
    limit: int
    nulls: bool = False
    """Whether nulls are elements, too."""

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(pa.int64()), pa.list_(pa.int64()), pa.list_(self.argument.type))

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values, order = self.argument.values(batch), event_order(batch, self.time)
        if self.nulls:
            mask = self.argument.mask(batch)
            counts = np.ones(len(values), np.int64) if mask is None else mask.to_numpy(zero_copy_only=False)
            offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
            columns = [column if mask is None else column.filter(mask) for column in (*order, values)]
            return [pa.ListArray.from_arrays(offsets, column) for column in columns]
        offsets, present = as_lists(values)
        columns = [column.filter(values.is_valid()) for column in order]
        return [pa.ListArray.from_arrays(offsets, column) for column in (*columns, present)]

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        elements = ListElements.of(grouping, columns)
        times, offsets, _ = elements.columns
        return elements.sort(times.to_numpy(), offsets.to_numpy()).first(self.limit).lists()

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[2]


def event_order(batch: pa.RecordBatch, time: str) -> list[pa.Array]:
    """int64 columns by which events are ordered: microseconds of the event time, offset."""
    times = batch.column(time)
    unit = pa.timestamp("us", times.type.tz)
    return [(times if times.type == unit else times.cast(unit, safe=False)).view(pa.int64()), batch.column(OFFSET)]


def smallest_rows(grouping: Grouping, candidates: Numbers, keys: Sequence[Numbers]) -> Numbers:
    """The candidate of each group with the smallest keys, the first key most significant; of a group without one, its first row.

    ``candidates`` (bool) and ``keys`` (int64) are in the order of the grouping. Of equal ones the first row is taken.
    """
    starts = grouping.ends[:-1]
    if not len(starts):
        return starts
    for key in keys:
        numbers = np.where(candidates, key, _LARGEST)
        candidates = candidates & (numbers == np.minimum.reduceat(numbers, starts)[grouping.ids])
    hits = np.flatnonzero(candidates)
    at = np.append(hits, len(candidates))[np.searchsorted(hits, starts)]
    return grouping.order[np.where(at < grouping.ends[1:], at, starts)]


def _where_valid(values: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), column, pa.scalar(None, pa.int64())) if values.null_count else column
