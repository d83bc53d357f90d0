"""Field values as the texts of keys, headers and topics."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.json.values import as_text, iso_times


def to_texts(values: pa.Array) -> pa.Array:
    """Convert each value to text, null to null: times in ISO 8601, bytes in Base64, lists and maps as JSON, others as JSON writes
    them, without quotes.
    """
    type_ = values.type
    if type_ in (pa.string(), pa.large_string()):
        return values
    if pa.types.is_timestamp(type_):
        return iso_times(values)
    is_simple = pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_date32(type_) or pa.types.is_null(type_)
    if is_simple:
        return values.cast(pa.string())
    return as_text(values) if pa.types.is_nested(type_) else pc.ascii_trim(as_text(values), '"')


def to_payloads(values: pa.Array) -> list[bytes | str | None]:
    """Like `to_texts`, for a client that takes bytes and texts: bytes stay bytes."""
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return (values if is_bytes else to_texts(values)).to_pylist()
