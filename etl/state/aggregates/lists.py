"""Partial results that are lists: their elements, and numbers in the order of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Grouping, Numbers
from etl.state.aggregates.extremes import ordered_bits


class ListElements(NamedTuple):
    """The elements of the lists of several groups."""

    groups: int
    """The number of groups, also of those without elements."""

    ids: Numbers
    """int64[elements]: the group number of each, ascending."""

    columns: list[pa.Array]

    @classmethod
    def of(cls, grouping: Grouping, columns: Sequence[pa.ListArray]) -> ListElements:
        """The elements of lists of equal lengths: those of the rows of one group follow one another."""
        rows = pa.array(grouping.order)
        taken = [column.take(rows) for column in columns]
        return cls(grouping.count, np.repeat(grouping.ids, _lengths(taken[0])), [column.flatten() for column in taken])

    @classmethod
    def of_results(cls, columns: Sequence[pa.ListArray]) -> ListElements:
        """The elements of partial results, each of which is a group."""
        ids = np.repeat(np.arange(len(columns[0])), _lengths(columns[0]))
        return cls(len(columns[0]), ids, [column.flatten() for column in columns])

    def take(self, rows: Numbers) -> ListElements:
        """The elements of these numbers; their groups must be ascending."""
        return ListElements(self.groups, self.ids[rows], [column.take(pa.array(rows)) for column in self.columns])

    def sort(self, *keys: Numbers) -> ListElements:
        """Sort the elements of each group by keys (int64[elements]), the first one most significant."""
        return self.take(np.lexsort((*reversed(keys), self.ids)))

    def first(self, limit: int) -> ListElements:
        """The first elements of each group."""
        remaining = self.ordinals() < limit
        return self if remaining.all() else self.take(np.flatnonzero(remaining))

    def ordinals(self) -> Numbers:
        """int64[elements]: the number of each within its group."""
        return np.arange(len(self.ids)) - self.ends()[self.ids]

    def ends(self) -> Numbers:
        """int64[groups + 1]: group g has the elements from ``ends[g]`` to ``ends[g + 1]``."""
        return np.concatenate(([0], np.cumsum(np.bincount(self.ids, minlength=self.groups))))

    def max_size(self) -> int:
        """The number of elements of the largest group."""
        return int(np.diff(self.ends()).max(initial=0))

    def lists(self) -> list[pa.Array]:
        """A list per group."""
        offsets = pa.array(self.ends(), pa.int32())
        return [pa.ListArray.from_arrays(offsets, column) for column in self.columns]


def as_lists(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The offsets and the elements of lists of each value, and of no value for a null."""
    if not values.null_count:
        return pa.array(np.arange(len(values) + 1), pa.int32()), values
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(valid))), pa.int32()), values.drop_null()


def constant_lists(offsets: pa.Array, value: int, type_: pa.DataType) -> pa.Array:
    """Lists with these offsets of one value."""
    return pa.ListArray.from_arrays(offsets, pa.array(np.full(offsets[-1].as_py(), value), type_))


def order_keys(values: pa.Array) -> Numbers:
    """int64[n]: numbers in the order of the values of one column; that of a null has no meaning."""
    type_ = values.type
    if pa.types.is_floating(type_):
        values = ordered_bits(values)
    elif pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        values = values.cast(pa.int64())
    elif pa.types.is_temporal(type_):
        values = values.view(f"int{type_.bit_width}").cast(pa.int64())
    else:
        values = pc.rank(values, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())
    return (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)


def _lengths(lists: pa.ListArray) -> Numbers:
    return np.diff(lists.offsets.to_numpy())
