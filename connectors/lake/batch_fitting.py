"""Turns batches of events into rows of a table, and rejects events that do not fit its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from connectors.lake.table_schema import can_narrow, column_type, is_wider
from etl.api import Rejects, flat_schema, format_type, visible
from etl.columns.texts import filter_batch, materialize_array

MISFIT = "does-not-fit"
"""Code of events that a column cannot store."""


_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Unit of a timestamp → units in a second."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A flat column of the table and what is done to the field of that name."""

    name: str
    type: pa.DataType
    required: bool


class BatchFitting:
    """Casts the fields of events to the columns of a table. Columns without a field are left out of files: readers see null."""

    def __init__(self, table: pa.Schema, events: pa.Schema) -> None:
        names = set(visible(events).names)
        self.columns = [_Column(leaf.name, leaf.type, required) for leaf, required in _leaves(table) if leaf.name in names]
        self.file_schema = pruned_schema(table, {column.name for column in self.columns})

    def fit(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Sequence[Rejects]]:
        """Rows of ``file_schema`` without its nesting, and the rejected events."""
        rejected: list[Rejects] = []
        for column in self.columns:
            misfits, reason = _misfits(batch.column(column.name), column)
            if misfits is not None and misfits.true_count:
                rejected.append(Rejects(filter_batch(batch, misfits), MISFIT, reason))
                batch = filter_batch(batch, pc.invert(misfits))
        arrays = [_cast(batch.column(column.name), column.type) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self.columns]), rejected


def nested_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Flat columns gathered into the structs of a schema, with its field metadata (ids of Iceberg)."""
    arrays = [_gather(rows, column, column.name) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=_with_types(schema, arrays))


def pruned_schema(table: pa.Schema, names: set[str]) -> pa.Schema:
    """The columns of a table that have at least one of these flat names."""
    return pa.schema([pruned_field for column in table if (pruned_field := _pruned(column, column.name, names)) is not None])


def _pruned(column: pa.Field, name: str, names: set[str]) -> pa.Field | None:
    if not kinds.is_struct(column.type):
        return column if name in names else None
    members = [
        pruned_member for member in column.type if (pruned_member := _pruned(member, f"{name}.{member.name}", names)) is not None
    ]
    return column.with_type(pa.struct(members)) if members else None


def _leaves(table: pa.Schema) -> list[tuple[pa.Field, bool]]:
    """The flat columns, and whether each must not be null."""
    required = {name for column in table for name in _required(column, column.name)}
    return [(leaf, leaf.name in required) for leaf in flat_schema(table)]


def _required(column: pa.Field, name: str) -> list[str]:
    if kinds.is_struct(column.type):
        return [found for member in column.type for found in _required(member, f"{name}.{member.name}")]
    return [] if column.nullable else [name]


def _misfits(values: pa.Array, column: _Column) -> tuple[pa.BooleanArray | None, str]:
    """Which events a column cannot store, and why; None if all fit."""
    if column.required and values.null_count:
        return values.is_null(), f"{column.name} is null, and the column must not be"
    if kinds.is_timestamp(values.type) and kinds.is_timestamp(column.type):
        return _times_beyond(values, column.type), f"{column.name} is beyond the times of the column, {format_type(column.type)}"
    if values.type == column.type or not can_narrow(column.type, values.type):
        return None, ""
    if is_wider(column.type, column_type(values.type, "delta")):
        return None, ""
    stored = values.cast(column.type, safe=False).cast(values.type, safe=False)
    return pc.fill_null(
        pc.not_equal(stored, values), False
    ), f"{column.name} is too large for the column, {format_type(column.type)}"


def _times_beyond(values: pa.Array, type_: pa.DataType) -> pa.BooleanArray | None:
    """Which times have no 64 bits in the finer unit of a column; None if all have."""
    factor = _UNITS[type_.unit] // _UNITS[values.type.unit]
    if factor <= 1 or not len(values):
        return None
    limit = (1 << 63) // factor - 1
    counts = values.cast(pa.int64())
    return pc.fill_null(pc.or_(pc.greater(counts, limit), pc.less(counts, -limit)), False)


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Values as the table stores them. Views are copied: Parquet of Arrow writes none that is a slice."""
    values = materialize_array(values)
    if values.type == type_:
        return values
    if kinds.is_dictionary(values.type) and kinds.is_string(type_):
        return values  # a file has the same dictionary
    truncates = kinds.is_timestamp(type_)
    return values.cast(type_, safe=not truncates)


def _gather(rows: pa.RecordBatch, column: pa.Field, name: str) -> pa.Array:
    if not kinds.is_struct(column.type):
        return rows.column(name)
    members = [_gather(rows, member, f"{name}.{member.name}") for member in column.type]
    fields = [_stored_field(member, array) for member, array in zip(column.type, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields)


def _with_types(schema: pa.Schema, arrays: Sequence[pa.Array]) -> pa.Schema:
    return pa.schema([_stored_field(column, array) for column, array in zip(schema, arrays, strict=True)])


def _stored_field(column: pa.Field, array: pa.Array) -> pa.Field:
    """A column with the type of its values, which may be a dictionary; types inside lists and maps keep their ids."""
    return column if kinds.is_list(column.type) or kinds.is_map(column.type) else column.with_type(array.type)
