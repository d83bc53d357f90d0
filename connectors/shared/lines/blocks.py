"""Blocks of bytes that a stream is read into, and lines longer than the limit."""

from __future__ import annotations

from collections.abc import Callable

from connectors.shared.lines.charset import Charset

FIRST_TAIL_BYTES = 1 << 16
"""Bytes at the end of a block that are searched first for its last newline."""

ReadInto = Callable[[memoryview], int]
"""Fills a part of a buffer and returns the number of bytes; 0 at the end."""


class LongLine:
    """A line longer than the limit: its length is measured, its beginning kept, the rest skipped."""

    def __init__(self, start: int, sample: bytes) -> None:
        self.start, self.sample, self.length, self.after = start, sample, 0, start

    def skip(self, charset: Charset, readinto: ReadInto, block: memoryview, filled: int) -> int:
        """Read to the line's end; move the following bytes to the front of the block and return their number."""
        self.length = filled
        while True:
            got = fill(readinto, block)
            found = charset.after_first(bytes(block[:got]), got)
            if found or got < len(block):
                self.after = self.start + self.length + (found or got)
                self.length += found - charset.unit if found else got
                rest = bytes(block[found:got]) if found else b""
                block[: len(rest)] = rest
                return len(rest)
            self.length += got


def fill(readinto: ReadInto, view: memoryview) -> int:
    """Read until the view is full or the stream ends, so that blocks end at character boundaries."""
    filled = 0
    while filled < len(view):
        got = readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled


def new_block(size: int) -> memoryview:
    """Allocate a block; the system provides memory only as it is written."""
    import numpy as np

    return np.empty(size, np.uint8).data


def continue_block(rest: memoryview, size: int) -> memoryview:
    """Return a new block that begins with the rest of another."""
    block = new_block(size)
    block[: len(rest)] = rest
    return block


def after_last(charset: Charset, block: memoryview) -> int:
    """Return the end of the last complete line, 0 if there is none; searches ever longer tails."""
    begin, size = len(block), FIRST_TAIL_BYTES
    while begin:
        begin = max(0, len(block) - size)
        begin -= begin % charset.unit
        found = charset.after_last(bytes(block[begin:]), len(block) - begin)
        if found:
            return begin + found
        size *= 8
    return 0
