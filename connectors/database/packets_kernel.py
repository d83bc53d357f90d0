"""Kernels that cut rows out of MySQL's text protocol: where each value lies in the bytes that the server sent.

A packet is three bytes of length, one that counts packets, and a row: its values one behind the other, each in front of its
length (a byte below 0xFB, or 0xFC, 0xFD, 0xFE and 2, 3 or 8 bytes of it), or 0xFB for null. MySQL's and MariaDB's manuals
describe it under "text resultset row" and "length-encoded string". Nothing outside of the given bytes is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, part

MORE, END, REFUSED, LARGE, BROKEN = 0, 1, 2, 3, 4
"""Why cutting stopped: more bytes (or room) are needed; the last row was there; an error of the server; a row of 16 MB and
more, which comes in several packets; or bytes that are no rows of so many columns."""

HEADER = 4
LARGEST = 0xFFFFFF
"""The length of a packet that another one continues."""

_NULL, _TWO, _THREE, _EIGHT, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_END_BYTES = 9
"""A packet that begins with 0xFE and is shorter ends the rows; a longer one is a row whose first value is huge."""


@part
def _number(at: Any, size: Any) -> Any:
    """A little-endian number of so many bytes."""
    number = np.int64(0)
    for place in range(size):
        number |= np.int64(load_byte(at + np.uint64(place))) << np.int64(8 * place)
    return number


@part
def _row(at: Any, end: Any, row: Any, address: Any, length: Any) -> Any:
    """Note the values of one row; whether they fill the bytes exactly."""
    for column in range(address.shape[0]):
        if at >= end:
            return False
        size = np.int64(load_byte(at))
        at += np.uint64(1)
        if size == _NULL:
            address[column, row], length[column, row] = at, -1
            continue
        if size > _NULL:
            wide = 2 if size == _TWO else 3 if size == _THREE else 8
            if size == _ERROR or np.uint64(wide) > end - at:
                return False
            size = _number(at, wide)
            at += np.uint64(wide)
        if size < 0 or np.uint64(size) > end - at:
            return False
        address[column, row], length[column, row] = at, size
        at += np.uint64(size)
    return at == end


@kernel
def cut_rows(base: Any, begin: Any, end: Any, count: Any, first: Any, address: Any, length: Any) -> Any:
    """Rows from ``base + begin`` up to ``base + end``, from row ``first`` of ``address`` (uint64[columns, rows]) and ``length``
    (int64, -1 for null) on, while there is room. ``count`` is the number that the next packet must have. Returns why it
    stopped, where the next packet begins, its number, and how many rows there are."""
    row = first
    while row < address.shape[1] and end - begin >= HEADER:
        at = base + np.uint64(begin)
        size = _number(at, 3)
        behind = begin + HEADER + size
        if np.int64(load_byte(at + np.uint64(3))) != count:
            return BROKEN, begin, count, row
        if size == LARGEST:
            return LARGE, begin, count, row
        if behind > end:
            break
        at += np.uint64(HEADER)
        kind = np.int64(load_byte(at)) if size else np.int64(0)
        if kind == _ERROR:
            return REFUSED, begin, count, row
        if kind == _EIGHT and size < _END_BYTES:
            return END, begin, count, row
        if not _row(at, base + np.uint64(behind), row, address, length):
            return BROKEN, begin, count, row
        begin, count, row = behind, (count + 1) & 0xFF, row + 1
    return MORE, begin, count, row


@kernel
def cut_row(base: Any, end: Any, address: Any, length: Any) -> Any:
    """One row that fills the bytes from ``base`` to ``base + end``; whether it does."""
    return _row(base, base + np.uint64(end), 0, address, length)
