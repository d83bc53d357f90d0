"""Blocks of bytes that a stream is read into, and lines that are longer than one may be."""

from __future__ import annotations

from collections.abc import Callable

from connectors.file.charset import Charset

TAIL = 1 << 16
"""Bytes at the end of a block where its last newline is looked for first."""

ReadInto = Callable[[memoryview], int]
"""Fills a part of a buffer and says how much; 0 at the end."""


class LongLine:
    """A line longer than the buffer may hold: measured and passed over, its beginning kept."""

    def __init__(self, start: int, shown: bytes) -> None:
        self.start, self.shown, self.length, self.after = start, shown, 0, start

    def skip(self, charset: Charset, readinto: ReadInto, block: memoryview, filled: int) -> int:
        """Read to the line's end; what follows it is moved to the front of the block, and its size returned."""
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
    """Read until the view is full or the stream ends, so that blocks are cut where characters are."""
    filled = 0
    while filled < len(view):
        got = readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled


def new_block(size: int) -> memoryview:
    """Memory that nobody has written to: it is taken from the system only as it is filled."""
    import numpy as np

    return np.empty(size, np.uint8).data


def continued(rest: memoryview, size: int) -> memoryview:
    """Another block that begins with what is left of one."""
    block = new_block(size)
    block[: len(rest)] = rest
    return block


def after_last(charset: Charset, block: memoryview) -> int:
    """Where the last whole line ends, 0 when there is none: looked for in ever longer tails."""
    begin, size = len(block), TAIL
    while begin:
        begin = max(0, len(block) - size)
        begin -= begin % charset.unit
        found = charset.after_last(bytes(block[begin:]), len(block) - begin)
        if found:
            return begin + found
        size *= 8
    return 0
