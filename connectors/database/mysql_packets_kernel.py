"""Kernels that locate the values of rows in MySQL's text protocol, in the bytes that the server sent.

A packet is three bytes of length, a sequence number of one byte, and a row: its values, each preceded by its length (a byte
below 0xFB, or 0xFC, 0xFD, 0xFE and 2, 3 or 8 bytes of it), or 0xFB for null. MySQL's and MariaDB's manuals describe it under
"text resultset row" and "length-encoded string". No byte outside of the given range is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

NEEDS_MORE, END, SERVER_ERROR, LARGE_ROW, MALFORMED = 0, 1, 2, 3, 4
"""Why cutting stopped: more bytes or space are needed; end of the rows; an error of the server; a row of 16 MB or more, which
has several packets; or data that is not a row with this number of columns."""

HEADER_BYTES = 4
MAX_PACKET_BYTES = 0xFFFFFF
"""Length of a packet that the next one continues."""

_NULL, _TWO, _THREE, _EIGHT, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_END_BYTES = 9
"""A packet that begins with 0xFE ends the rows if it is shorter than this; a longer one is a row with a very large first
value.
"""


@kernel_function
def _number(at: Any, size: Any) -> Any:
    """Return a little-endian number of ``size`` bytes."""
    number = np.int64(0)
    for byte in range(size):
        number |= np.int64(load_byte(at + np.uint64(byte))) << np.int64(8 * byte)
    return number


@kernel_function
def _locate_values(at: Any, end: Any, row: Any, address: Any, length: Any) -> Any:
    """Write the address and length of each value of a row; return whether they fill the bytes exactly."""
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
def cut_rows(base: Any, begin: Any, end: Any, sequence: Any, first: Any, address: Any, length: Any) -> Any:
    """Locate the values of rows between ``base + begin`` and ``base + end``, while there is space.

    Writes to ``address`` (uint64[columns, rows]) and ``length`` (int64, -1 for null) from row ``first`` on. ``sequence`` is the
    sequence number that the next packet must have. Returns why it stopped, begin and sequence number of the next packet, and
    the number of rows.
    """
    row = first
    while row < address.shape[1] and end - begin >= HEADER_BYTES:
        at = base + np.uint64(begin)
        size = _number(at, 3)
        packet_end = begin + HEADER_BYTES + size
        if np.int64(load_byte(at + np.uint64(3))) != sequence:
            return MALFORMED, begin, sequence, row
        if size == MAX_PACKET_BYTES:
            return LARGE_ROW, begin, sequence, row
        if packet_end > end:
            break
        at += np.uint64(HEADER_BYTES)
        kind = np.int64(load_byte(at)) if size else np.int64(0)
        if kind == _ERROR:
            return SERVER_ERROR, begin, sequence, row
        if kind == _EIGHT and size < _END_BYTES:
            return END, begin, sequence, row
        if not _locate_values(at, base + np.uint64(packet_end), row, address, length):
            return MALFORMED, begin, sequence, row
        begin, sequence, row = packet_end, (sequence + 1) & 0xFF, row + 1
    return NEEDS_MORE, begin, sequence, row


@kernel
def cut_row(base: Any, end: Any, address: Any, length: Any) -> Any:
    """Locate the values of one row that fills the bytes from ``base`` to ``base + end``; return whether it does."""
    return _locate_values(base, base + np.uint64(end), 0, address, length)
