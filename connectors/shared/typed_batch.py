"""Converts values of a database to columns of declared types: the bytes that MySQL sends, or Python values of SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema, format_type

_PIECE_ROWS = 128
"""Rows that are converted together after the whole column failed."""
_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class UnreadableRows:
    """Rows with a value that is not of the declared type: their numbers in the batch, and the reasons."""

    rows: list[int]
    reasons: list[str]


def to_typed_batch(columns: Sequence[pa.Array | Sequence[Any]], schema: Schema) -> tuple[pa.RecordBatch, UnreadableRows | None]:
    """Convert columns to a batch; unreadable values become null.

    Columns are bytes (in string arrays that may not be UTF-8) or Python values.
    """
    arrays, reasons = [], {}
    for field, values in zip(schema, columns, strict=True):
        try:
            arrays.append(_convert(values, field.type))
        except _CONVERSION_ERRORS:
            array, bad = _convert_in_pieces(values, field, _PIECE_ROWS)
            arrays.append(array)
            reasons.update({row: reason for row, reason in bad.items() if row not in reasons})
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch, UnreadableRows(list(reasons), list(reasons.values())) if reasons else None


def _convert_in_pieces(values: Any, field: pa.Field, size: int) -> tuple[pa.Array, dict[int, str]]:
    """Convert a column that failed as a whole; also return the reasons of unreadable values by row."""
    arrays: list[pa.Array] = []
    bad: dict[int, str] = {}
    for at in range(0, len(values), size):
        piece = values[at : at + size]
        try:
            arrays.append(_convert(piece, field.type))
        except _CONVERSION_ERRORS:
            array, found = (
                (pa.nulls(1, field.type), {0: _reason(piece, field)}) if size == 1 else _convert_in_pieces(piece, field, 1)
            )
            arrays.append(array)
            bad |= {at + row: reason for row, reason in found.items()}
    return pa.concat_arrays(arrays), bad


def _reason(piece: Any, field: pa.Field) -> str:
    value = _as_binary(piece)[0].as_py() if isinstance(piece, pa.Array) else piece[0]
    shown = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return f"{field.name} is {shown!r:.100}, not {format_type(field.type)}"


def _convert(values: Any, type_: pa.DataType) -> pa.Array:
    return _convert_bytes(_as_binary(values), type_) if isinstance(values, pa.Array) else _convert_objects(values, type_)


# ── Bytes ─────────────────────────────────────────────────────────────────────────────────────────


def _as_binary(values: pa.Array) -> pa.Array:
    return values.view(pa.large_binary() if values.type == pa.large_string() else pa.binary())


def _convert_bytes(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ == pa.binary():
        return values.cast(type_)
    if pa.types.is_boolean(type_):  # MySQL's BIT(1) is a single byte
        values = pc.if_else(pc.equal(values, b"\x01"), b"1", pc.if_else(pc.equal(values, b"\x00"), b"0", values))
    return _convert_texts(values.cast(pa.string()), type_)


def _convert_texts(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        return texts.cast(pa.int64()).cast(type_)
    if pa.types.is_timestamp(type_):  # always UTC, with or without a zone in the text
        return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us")).cast(type_)
    return texts.cast(type_)


# ── Python values ─────────────────────────────────────────────────────────────────────────────────


def _convert_objects(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if type_ in (pa.string(), pa.binary()):
        return _objects_to_texts(values, type_)
    found = next((value for value in values if value is not None), None)
    if isinstance(found, bytes):
        return pa.array(values, pa.binary()).cast(pa.string()).cast(type_)
    return _convert_texts(pa.array(values, pa.string()), type_) if isinstance(found, str) else pa.array(values).cast(type_)


def _objects_to_texts(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError):  # numbers declared as text; bytes that may be UTF-8
        texts = [value if value is None or isinstance(value, bytes | str) else str(value) for value in values]
        return pa.array([v.encode() if isinstance(v, str) else v for v in texts], pa.binary()).cast(type_)
