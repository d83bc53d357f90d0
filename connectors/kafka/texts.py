"""Fields as the texts that keys, headers and topics have."""

from __future__ import annotations

import pyarrow as pa

from connectors.json_values import as_text, iso_times


def as_texts(values: pa.Array) -> pa.Array:
    """Each value as a text, null as null: times in ISO 8601, lists and maps as JSON, others as they are written in JSON."""
    type_ = values.type
    if type_ in (pa.string(), pa.large_string()):
        return values
    if pa.types.is_timestamp(type_):
        return iso_times(values)
    is_simple = pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_date32(type_) or pa.types.is_null(type_)
    return values.cast(pa.string()) if is_simple else as_text(values)


def as_bytes(values: pa.Array) -> list[bytes | str | None]:
    """The same for a client that takes bytes and texts: bytes stay bytes."""
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return (values if is_bytes else as_texts(values)).to_pylist()
