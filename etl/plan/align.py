"""Giving the branches of a union one schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pyarrow as pa

from etl.api import ArrowStep, Outcome, Schema, with_columns


def merged(schemas: Sequence[Schema]) -> Schema:
    """Fields of all schemas by name, in order of appearance; a field of unknown type takes the known one's."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            known = types.get(field.name)
            types[field.name] = field.type if known is None else wider(known, field.type)
    return pa.schema(list(types.items()))


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type that holds both: numbers widen, an unknown type gives way; else the left one."""
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return left if left.bit_width >= right.bit_width else right
    if {left, right} <= {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()}:
        return pa.float64()
    return left


class Align(ArrowStep):
    """Give events the fields of a union, missing ones null."""

    type: Literal["align"] = "align"
    to: pa.Schema

    def fields(self, incoming: Schema) -> Schema:
        """The union's fields."""
        return self.to

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Add missing columns as nulls and cast narrower numbers; hidden columns stay behind."""
        known = set(self.to.names)

        def run(batch: pa.RecordBatch) -> Outcome:
            columns = {field.name: _column(batch, field) for field in self.to}
            hidden = {name: batch.column(name) for name in batch.schema.names if name not in known}
            return Outcome(with_columns(pa.RecordBatch.from_pydict(columns), hidden))

        return run


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    return column if column.type.equals(field.type) else column.cast(field.type)
