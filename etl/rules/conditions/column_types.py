"""Which columns events have, and the types of those that contain texts or lists."""

from __future__ import annotations

import pyarrow as pa

from etl.api import Schema

TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())


def is_list_type(type_: pa.DataType) -> bool:
    """Return whether values of a type are lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def has_field(schema: Schema, name: str) -> bool:
    """Return whether there is a field. Thousands of predicates ask, and ``schema.names`` makes a list of all names."""
    return bool(schema.get_field_index(name) >= 0)
