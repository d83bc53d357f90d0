"""Finding line ends in files, in bounded memory."""

from __future__ import annotations

from typing import Protocol

from connectors.file.charset import Charset


class Seekable(Protocol):
    """Bytes that can be read from any place."""

    at: int

    def skip(self, size: int) -> None:
        """Go forward or back."""

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view; 0 at the end."""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end."""


_NEAR = 64 << 10
_STEP = 4 << 20


def last_line_end(stream: Seekable, start: int, end: int, charset: Charset) -> int:
    """Where the last whole line between two offsets of a plain file ends; ``start`` when there is none."""
    end = start + charset.whole(end - start)
    step = _NEAR
    while end > start:
        begin = max(start, end - step)
        found = charset.after_last(_bytes(stream, begin, end), end - begin)
        if found:
            return begin + found
        end, step = begin, _STEP
    return start


def next_line_end(stream: Seekable, at: int, end: int, charset: Charset) -> int | None:
    """Where the line that ``at`` stands in ends, None when that is not before ``end``."""
    step = _NEAR
    while at < end:
        block = _bytes(stream, at, min(end, at + step))
        found = charset.after_first(block, len(block))
        if found:
            return at + found
        if not block:
            return None
        at, step = at + len(block), _STEP
    return None


def count_lines(stream: Seekable, end: int, most: int, charset: Charset) -> tuple[int, int]:
    """From where the stream stands: the offset after ``most`` lines, or ``end`` (a last piece is a line), and the lines."""
    import numpy as np

    at, lines, ended = stream.at, 0, True
    while at < end and (block := stream.read(min(_STEP, end - at))):
        units = np.frombuffer(block, f"<u{charset.unit}", len(block) // charset.unit)
        found = np.flatnonzero(units == int.from_bytes(charset.newline, "little"))
        if lines + len(found) >= most:
            return at + (int(found[most - lines - 1]) + 1) * charset.unit, most
        lines, at, ended = lines + len(found), at + len(block), block.endswith(charset.newline)
    return end, lines + (not ended)


def _bytes(stream: Seekable, begin: int, end: int) -> bytes:
    stream.skip(begin - stream.at)
    return stream.read(end - begin)
