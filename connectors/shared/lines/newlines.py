"""Finds line ends in files, in bounded memory."""

from __future__ import annotations

from typing import Protocol

from connectors.shared.lines.charset import Charset


class Seekable(Protocol):
    """Bytes that can be read from any position."""

    at: int

    def skip(self, size: int) -> None:
        """Move forward or back."""

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view; returns 0 at the end."""

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer only at the end."""


_FIRST_READ_BYTES = 64 << 10
_READ_BYTES = 4 << 20


def last_line_end(stream: Seekable, start: int, end: int, charset: Charset) -> int:
    """Return the end of the last complete line between two offsets of a plain file; ``start`` if there is none."""
    end = start + charset.whole(end - start)
    step = _FIRST_READ_BYTES
    while end > start:
        begin = max(start, end - step)
        found = charset.after_last(_bytes(stream, begin, end), end - begin)
        if found:
            return begin + found
        end, step = begin, _READ_BYTES
    return start


def next_line_end(stream: Seekable, at: int, end: int, charset: Charset) -> int | None:
    """Return the end of the line that contains ``at``, None if it is not before ``end``."""
    step = _FIRST_READ_BYTES
    while at < end:
        block = _bytes(stream, at, min(end, at + step))
        found = charset.after_first(block, len(block))
        if found:
            return at + found
        if not block:
            return None
        at, step = at + len(block), _READ_BYTES
    return None


def count_lines(stream: Seekable, end: int, max_lines: int, charset: Charset) -> tuple[int, int]:
    """Count lines from the stream's position: return the offset after ``max_lines``, or ``end`` (an incomplete last line
    counts), and the number of lines.
    """
    import numpy as np

    at, lines, ended = stream.at, 0, True
    while at < end and (block := stream.read(min(_READ_BYTES, end - at))):
        units = np.frombuffer(block, f"<u{charset.unit}", len(block) // charset.unit)
        found = np.flatnonzero(units == int.from_bytes(charset.newline, "little"))
        if lines + len(found) >= max_lines:
            return at + (int(found[max_lines - lines - 1]) + 1) * charset.unit, max_lines
        lines, at, ended = lines + len(found), at + len(block), block.endswith(charset.newline)
    return end, lines + (not ended)


def _bytes(stream: Seekable, begin: int, end: int) -> bytes:
    stream.skip(begin - stream.at)
    return stream.read(end - begin)
