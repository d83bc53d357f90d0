"""Cuts a block of bytes into views of its lines, in two passes that compare 16 bytes at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.intrinsics import equal_bytes, high_bytes, load_byte, ones, trailing_zeros
from etl.columns.kernels import kernel, kernel_function
from etl.columns.texts import make_view_array
from etl.columns.views import put_view

_NEWLINE, _RETURN = np.uint8(10), np.uint8(13)


class Survey(NamedTuple):
    """The result of `survey`."""

    newlines: int
    ascii: bool


class Lines(NamedTuple):
    """The lines of a block, without their newlines ``\\n`` and ``\\r\\n``."""

    texts: pa.Array
    """string_view[n] into the block."""

    starts: np.ndarray[Any, Any]
    """int64[n]: the offset at which each line begins; the block's first byte has the offset ``at``."""

    longest: int
    """Bytes of the longest line, including a carriage return at its end."""


def survey(block: pa.Buffer) -> Survey:
    """Count the newlines of a block, and find out whether it is ASCII."""
    newlines, high = _survey(np.uint64(block.address), np.int64(block.size))
    return Survey(int(newlines), not high)


def cut(block: pa.Buffer, newlines: int, last: bool, skip: int = 0, at: int = 0) -> Lines:
    """Cut valid UTF-8 with this number of newlines into lines. ``last``: the bytes after the last newline are a line, even if
    there are none. The first ``skip`` bytes do not belong to the first line's text."""
    count = newlines + last
    views, starts = np.empty((count, 4), np.uint32), np.empty(count, np.int64)
    bounds = np.uint64(block.address), np.int64(block.size), np.int64(skip), last, np.int64(at)
    longest = _cut(*bounds, np.uint64(views.ctypes.data), starts)
    return Lines(make_view_array(views, None, block), starts, int(longest))


@kernel
def _survey(block: Any, size: Any) -> Any:
    newlines, high, at = np.int64(0), np.uint32(0), np.int64(0)
    while at + 16 <= size:
        newlines += ones(equal_bytes(block + np.uint64(at), _NEWLINE))
        high |= high_bytes(block + np.uint64(at))
        at += 16
    while at < size:
        byte = load_byte(block + np.uint64(at))
        newlines += byte == _NEWLINE
        high |= np.uint32(byte >> np.uint8(7))
        at += 1
    return newlines, high != np.uint32(0)


@kernel_function
def _put_line(block: Any, begin: Any, end: Any, view: Any) -> None:
    """Write the view of a line that ends before ``end``, without a carriage return at its end."""
    if end > begin and load_byte(block + np.uint64(end - 1)) == _RETURN:
        end -= 1
    put_view(view, block + np.uint64(begin), end - begin, begin)


@kernel
def _cut(block: Any, size: Any, skip: Any, last: Any, at: Any, view: Any, starts: Any) -> Any:
    begin, index, row, longest = np.int64(0), np.int64(0), 0, np.int64(0)
    while index < size:
        found = equal_bytes(block + np.uint64(index), _NEWLINE) if index + 16 <= size else _newlines_in_tail(block, index, size)
        while found:
            end = index + trailing_zeros(found)
            _put_line(block, begin if row else skip, end, view)
            starts[row] = at + begin
            longest = max(longest, end - begin)
            begin, row, view = end + 1, row + 1, view + np.uint64(16)
            found &= found - np.uint32(1)
        index += 16
    if last:
        _put_line(block, begin if row else skip, size, view)
        starts[row] = at + begin
        longest = max(longest, size - begin)
    return longest


@kernel_function
def _newlines_in_tail(block: Any, at: Any, size: Any) -> Any:
    found = np.uint32(0)
    for bit in range(size - at):
        if load_byte(block + np.uint64(at + bit)) == _NEWLINE:
            found |= np.uint32(1) << np.uint32(bit)
    return found
