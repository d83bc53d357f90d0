"""Values of a database as columns of declared types: the bytes that MySQL sends, or the Python values that SQLite has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema, format_type

_PIECE = 128
"""Values that are tried together when not all of a column can be read."""
_UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Bad:
    """Rows that are not of the declared types: their number in the batch, and why."""

    rows: list[int]
    reasons: list[str]


def typed(columns: Sequence[pa.Array | Sequence[Any]], schema: Schema) -> tuple[pa.RecordBatch, Bad | None]:
    """Columns of bytes (in string arrays, which may be no UTF-8) or of Python values → a batch; null for what is at fault."""
    arrays, faults = [], {}
    for field, values in zip(schema, columns, strict=True):
        try:
            arrays.append(_array(values, field.type))
        except _UNREADABLE:
            array, bad = _in_pieces(values, field, _PIECE)
            arrays.append(array)
            faults.update({row: reason for row, reason in bad.items() if row not in faults})
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch, Bad(list(faults), list(faults.values())) if faults else None


def _in_pieces(values: Any, field: pa.Field, size: int) -> tuple[pa.Array, dict[int, str]]:
    """Which values are at fault, where a column as a whole could not be read."""
    arrays: list[pa.Array] = []
    bad: dict[int, str] = {}
    for at in range(0, len(values), size):
        piece = values[at : at + size]
        try:
            arrays.append(_array(piece, field.type))
        except _UNREADABLE:
            array, found = (pa.nulls(1, field.type), {0: _reason(piece, field)}) if size == 1 else _in_pieces(piece, field, 1)
            arrays.append(array)
            bad |= {at + row: reason for row, reason in found.items()}
    return pa.concat_arrays(arrays), bad


def _reason(piece: Any, field: pa.Field) -> str:
    value = _bytes(piece)[0].as_py() if isinstance(piece, pa.Array) else piece[0]
    shown = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return f"{field.name} is {shown!r:.100}, which is no {format_type(field.type)}"


def _array(values: Any, type_: pa.DataType) -> pa.Array:
    return _of_bytes(_bytes(values), type_) if isinstance(values, pa.Array) else _of_objects(values, type_)


# ── Bytes ─────────────────────────────────────────────────────────────────────────────────────────


def _bytes(values: pa.Array) -> pa.Array:
    return values.view(pa.large_binary() if values.type == pa.large_string() else pa.binary())


def _of_bytes(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ == pa.binary():
        return values.cast(type_)
    if pa.types.is_boolean(type_):  # of MySQL's BIT(1) the byte itself
        values = pc.if_else(pc.equal(values, b"\x01"), b"1", pc.if_else(pc.equal(values, b"\x00"), b"0", values))
    return _of_texts(values.cast(pa.string()), type_)


def _of_texts(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        return texts.cast(pa.int64()).cast(type_)
    if pa.types.is_timestamp(type_):  # written in UTC, whether they say so or not
        return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us")).cast(type_)
    return texts.cast(type_)


# ── Python values ─────────────────────────────────────────────────────────────────────────────────


def _of_objects(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if type_ in (pa.string(), pa.binary()):
        return _texts_of_objects(values, type_)
    found = next((value for value in values if value is not None), None)
    if isinstance(found, bytes):
        return pa.array(values, pa.binary()).cast(pa.string()).cast(type_)
    return _of_texts(pa.array(values, pa.string()), type_) if isinstance(found, str) else pa.array(values).cast(type_)


def _texts_of_objects(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError):  # numbers that are declared as texts, bytes that are texts or are not
        texts = [value if value is None or isinstance(value, bytes | str) else str(value) for value in values]
        return pa.array([v.encode() if isinstance(v, str) else v for v in texts], pa.binary()).cast(type_)
