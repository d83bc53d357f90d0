"""Columns of the events of both sides of a join: of either side, of pairs, and the pairs that meet a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import SIDE_PREFIXES, Rejects, Schema, side_fields, widen, wider
from etl.expressions import CompiledExpression


def is_one_side(sides: Any) -> bool:
    """Whether all events, of which there is one, are of the same side."""
    return len(sides) > 0 and bool((sides == sides[0]).all())


def of_both_types(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of both sides with a type that has both: an integer and an equal double have different hashes."""
    type_ = wider(left.type, right.type) or left.type
    return widen(left, type_), widen(right, type_)


def coalesce(left: pa.Array, right: pa.Array) -> pa.Array:
    """The values of either side."""
    return pc.coalesce(*of_both_types(left, right))


def batch_of(columns: Mapping[str, pa.Array | pa.ChunkedArray], fields: Schema, rows: int) -> pa.RecordBatch:
    """A number of rows with these fields, null where there is no column."""
    arrays = [_as(columns[f.name], f.type) if f.name in columns else pa.nulls(rows, f.type) for f in fields]
    return pa.RecordBatch.from_arrays(arrays, names=fields.names)


def _as(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """The values as one array of a type; of the type that they have if it is unknown."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == type_ or pa.types.is_null(type_) else widen(array, type_)


WHERE_FAILED = "where-failed"
"""Code of pairs for which the condition of a join cannot be computed."""


def take_rejects(rejected: list[Rejects]) -> list[Rejects]:
    """The rejects so far, which are removed from the list."""
    found = list(rejected)
    rejected.clear()
    return found


class ConditionResult(NamedTuple):
    """For which pairs a condition is true, and of which it cannot be computed."""

    met: Any
    """bool[n]"""
    failed: Any | None
    """bool[n]; None where there are none."""
    reasons: pa.Array | None
    """Of those that failed."""


def rows_that_meet(where: CompiledExpression, pairs: pa.RecordBatch) -> ConditionResult:
    """The result of a condition for pairs; one for which it fails does not meet it."""
    mask, failed, reasons = where(pairs)
    met = pc.fill_null(mask.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
    if failed is None or reasons is None or not failed.true_count:
        return ConditionResult(met, None, None)
    fails = pc.fill_null(failed, False)
    texts = pc.binary_join_element_wise("where cannot be computed for a pair: ", reasons.filter(fails), "")
    at = fails.to_numpy(zero_copy_only=False)
    return ConditionResult(met & ~at, at, texts)


class PairEvents:
    """Events of pairs of rows, whose columns are those of the left and the right event of a pair by their names."""

    incoming: Schema
    on: Mapping[str, str]
    right_names: Mapping[str, str]

    def _pair_events(self, left: pa.Table | None, right: pa.Table | None, fields: Schema) -> pa.RecordBatch:
        """Events with the fields of pairs of these rows; without rows of a side its fields are null."""
        sides = [(rows, side) for side, rows in ((1, right), (0, left)) if rows is not None]
        columns = {new: column for rows, side in sides for new, column in self._side_columns(rows, side)}
        return batch_of(columns, fields, len(sides[0][0]))

    def _side_columns(self, rows: pa.Table, side: int) -> Iterator[tuple[str, pa.ChunkedArray]]:
        """The fields of rows of a side, by their names in pairs."""
        for name, new in self._pair_names[side].items():
            if SIDE_PREFIXES[side] + name in rows.column_names:
                yield new, rows.column(SIDE_PREFIXES[side] + name)

    @cached_property
    def _pair_names(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Field of each side → its name in pairs; a key of the same name on both sides is a field of both."""
        same = {name: name for name, other in self.on.items() if name == other}
        return {name: name for name in side_fields(self.incoming)[0].names}, same | dict(self.right_names)
