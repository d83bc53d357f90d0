"""Types of Arrow and Iceberg: `event_columns` → a schema of Iceberg, and back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as kinds

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType


def iceberg_schema(columns: pa.Schema) -> Schema:
    """A schema with ids; a catalog gives it others when it creates a table."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    ids = count(1)
    return Schema(*[NestedField(next(ids), one.name, iceberg_type(one.type, ids), required=False) for one in columns])


def iceberg_type(type_: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """The type of Iceberg for one that `column_type` gives; the fields inside take their ids from ``ids``."""
    from pyiceberg import types

    if kinds.is_struct(type_):
        members = [types.NestedField(next(ids), one.name, iceberg_type(one.type, ids), required=False) for one in type_]
        return types.StructType(*members)
    if kinds.is_list(type_):
        return types.ListType(next(ids), iceberg_type(type_.value_type, ids), element_required=False)
    if kinds.is_map(type_):
        key = iceberg_type(type_.key_type, ids)
        return types.MapType(next(ids), key, next(ids), iceberg_type(type_.item_type, ids), value_required=False)
    if kinds.is_decimal(type_):
        return types.DecimalType(type_.precision, type_.scale)
    if kinds.is_timestamp(type_):
        return types.TimestamptzType() if type_.tz else types.TimestampType()
    by_arrow: dict[pa.DataType, IcebergType] = {
        pa.string(): types.StringType(),
        pa.binary(): types.BinaryType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(),
        pa.bool_(): types.BooleanType(),
        pa.date32(): types.DateType(),
    }
    return by_arrow[type_]


def arrow_columns(schema: Schema, with_ids: bool) -> pa.Schema:
    """The columns of a table as Arrow has them, with small offsets; with ids as Parquet stores them in field metadata."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    found: pa.Schema = schema_to_pyarrow(schema, include_field_ids=with_ids)
    return pa.schema([_small(column) for column in found])


def _small(column: pa.Field) -> pa.Field:
    type_ = column.type
    if kinds.is_large_string(type_):
        return column.with_type(pa.string())
    if kinds.is_large_binary(type_):
        return column.with_type(pa.binary())
    if kinds.is_large_list(type_) or kinds.is_list(type_):
        return column.with_type(pa.list_(_small(type_.value_field)))
    if kinds.is_map(type_):
        return column.with_type(pa.map_(_small(type_.key_field), _small(type_.item_field)))
    if kinds.is_struct(type_):
        return column.with_type(pa.struct([_small(member) for member in type_]))
    return column
