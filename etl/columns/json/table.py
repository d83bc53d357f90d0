"""The table that the JSON kernel reads: types and addresses of a batch's columns. See `json_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table: TypeAlias = NDArray[np.uint64]

KIND, QUOTED, RAW, LITERAL, LITERAL_BYTES, VALIDITY, FIRST, VALUES, DATA, END, DETAIL, ZONED = range(12)
"""Fields of a column: its kind; whether it is quoted; whether it is JSON already; address and length of the literal before it;
address of its validity bitmap, or 0; index of the first row in its buffers; addresses of its values (bits, numbers, offsets or
views), of its texts, and of the end of what may be read; number of its first data buffer (views) or digits of a second
(times); whether a Z follows."""

FIELDS = 12

VIEWS, STRINGS, WIDE_STRINGS, SIGNED, UNSIGNED, BIT, TIME, DATE = (np.uint64(kind) for kind in range(8))

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_KINDS: Sequence[tuple[Callable[[pa.DataType], bool], np.uint64]] = (
    (pa.types.is_string_view, VIEWS),
    (pa.types.is_string, STRINGS),
    (pa.types.is_large_string, WIDE_STRINGS),
    (pa.types.is_int64, SIGNED),
    (pa.types.is_uint64, UNSIGNED),
    (pa.types.is_boolean, BIT),
    (pa.types.is_timestamp, TIME),
    (pa.types.is_date32, DATE),
)
_QUOTED = (VIEWS, STRINGS, WIDE_STRINGS, TIME, DATE)


def kind_of(type_: pa.DataType) -> np.uint64 | None:
    """The kind of a column of this type, or None if the kernel does not read it."""
    return next((kind for is_type, kind in _KINDS if is_type(type_)), None)


def is_quoted(type_: pa.DataType) -> bool:
    """Whether values of this type are quoted."""
    return kind_of(type_) in _QUOTED


def describe_column(type_: pa.DataType, raw: bool) -> Table:
    """The row of a column, with the fields that are equal for all batches."""
    column = np.zeros(FIELDS, np.uint64)
    kind = kind_of(type_)
    if kind is None:
        raise TypeError(f"the JSON kernel does not read {type_}")
    column[KIND], column[RAW], column[QUOTED] = kind, raw, is_quoted(type_) and not raw
    if kind == TIME:
        column[DETAIL], column[ZONED] = _DIGITS[type_.unit], type_.tz is not None
    return column


def add_addresses(table: Table, columns: Sequence[pa.Array]) -> tuple[Table, Table]:
    """The table with the addresses of these columns, and address and end of each data buffer of views.

    The addresses are valid as long as the columns exist.
    """
    table = table.copy()
    buffers: list[tuple[int, int]] = []
    for row, column in zip(table, columns, strict=False):
        _LOCATE.get(row[KIND], _locate_values)(row, column, buffers)
        row[FIRST] = column.offset
    return table, np.array(buffers or [(0, 0)], np.uint64)


def _locate_values(row: Table, column: pa.Array, _: list[tuple[int, int]]) -> None:
    validity, values = column.buffers()
    row[VALIDITY], row[VALUES] = _validity(column, validity), values.address if values else 0


def _locate_strings(row: Table, column: pa.Array, _: list[tuple[int, int]]) -> None:
    validity, offsets, data = column.buffers()
    row[VALIDITY], row[VALUES] = _validity(column, validity), offsets.address if offsets else 0
    row[DATA], row[END] = _range(data)


def _locate_views(row: Table, column: pa.Array, buffers: list[tuple[int, int]]) -> None:
    validity, views, *data = column.buffers()
    row[VALIDITY], row[DETAIL] = _validity(column, validity), len(buffers)
    row[VALUES], row[END] = _range(views)
    buffers.extend(_range(buffer) for buffer in data)


def _validity(column: pa.Array, bits: pa.Buffer | None) -> int:
    return bits.address if bits and column.null_count else 0


def _range(buffer: pa.Buffer | None) -> tuple[int, int]:
    return (buffer.address, buffer.address + buffer.size) if buffer else (0, 0)


_LOCATE = {VIEWS: _locate_views, STRINGS: _locate_strings, WIDE_STRINGS: _locate_strings}
