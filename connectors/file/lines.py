"""Cutting lines out of blocks of bytes, without a loop over lines.

Lines and the newlines between them are laid over the block as neighbouring Arrow values; taking every other value
leaves the lines alone, for one copy of the text. Memory is bounded by a block and the longest line allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.file.charset import Charset
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

BLOCK = 4 << 20
"""Bytes read at once; also about the size of a batch. A multiple of every character width."""

SHOWN = 64 << 10
"""Bytes of an over-long line that its dead letter keeps."""

_BOM = "\ufeff".encode()

ReadInto = Callable[[memoryview], int]
"""Fills a part of a buffer and says how much; 0 at the end."""


@dataclass(frozen=True, slots=True)
class Cutter:
    """Bytes → batches of `message` and `_offset`: the character set and the longest line allowed."""

    charset: Charset
    max_line_bytes: int

    def lines(self, readinto: ReadInto, at: int) -> Iterator[pa.RecordBatch | Rejects]:
        """The lines of a stream whose first byte is at offset ``at``, a line's beginning; the last may lack its newline."""
        buffer, filled = bytearray(BLOCK), 0
        while True:
            got = _fill(readinto, memoryview(buffer)[filled:])
            ended = filled + got < len(buffer)
            filled += got
            whole = self.charset.whole(filled) if ended else self.charset.after_last(buffer, filled)
            if whole:
                yield from self._cut(buffer, whole, at)
                at, filled = at + whole, _move(buffer, whole, filled)
            if ended:
                return
            if filled > self.max_line_bytes:
                long = _LongLine(at, bytes(memoryview(buffer)[:SHOWN]))
                filled = long.skip(self.charset, readinto, buffer, filled)
                yield self._too_long([long.start], [long.length], [long.shown])
                at = long.after
            elif filled == len(buffer):
                buffer = buffer + bytearray(len(buffer))

    def _cut(self, buffer: bytearray, end: int, at: int) -> Iterator[pa.RecordBatch | Rejects]:
        import numpy as np

        starts, ends = _bounds(np.frombuffer(buffer, f"<u{self.charset.unit}", end // self.charset.unit), self._newline)
        starts, ends = starts * self.charset.unit, ends * self.charset.unit
        fits = None
        if int((ends - starts).max()) > self.max_line_bytes:
            fits = ends - starts <= self.max_line_bytes
        texts = _texts(self._utf8(buffer, end), at == 0, len(starts), fits)
        if len(texts):
            offsets = (starts if fits is None else starts[fits]) + at
            yield pa.record_batch([texts, pa.array(offsets)], names=["message", OFFSET])
        if fits is not None:
            bad = [(int(a), int(b)) for a, b in zip(starts[~fits], ends[~fits], strict=True)]
            shown = [bytes(buffer[a : min(b, a + SHOWN)]) for a, b in bad]
            yield self._too_long([at + a for a, _ in bad], [b - a for a, b in bad], shown)

    @property
    def _newline(self) -> int:
        """A newline as the little-endian number that stands in the block."""
        return int.from_bytes(self.charset.newline, "little")

    def _utf8(self, buffer: bytearray, end: int) -> Any:
        """The block as valid UTF-8 with the same newlines: itself where it is that already."""
        if self.charset.utf8 and _valid(buffer, end):
            return memoryview(buffer)[:end]
        raw = bytes(memoryview(buffer)[:end])
        text = raw.decode(self.charset.codec, "replace")
        if text.count("\n") != len(_newlines(raw, self.charset)):
            text = "\n".join(line.decode(self.charset.codec, "replace").replace("\n", " ") for line in _split(raw, self.charset))
        return text.encode("utf-8", "replace")

    def _too_long(self, starts: list[int], lengths: list[int], shown: list[bytes]) -> Rejects:
        texts = [text.decode(self.charset.codec, "replace").encode("utf-8", "replace").decode() for text in shown]
        reasons = [f"the line has {length} bytes, more than max_line_bytes {self.max_line_bytes}" for length in lengths]
        events = pa.record_batch([pa.array(texts, pa.string()), pa.array(starts, pa.int64())], names=["message", OFFSET])
        return Rejects(events, "line-too-long", pa.array(reasons, pa.string()))


class _LongLine:
    """A line longer than the buffer may hold: measured and passed over, its beginning kept."""

    def __init__(self, start: int, shown: bytes) -> None:
        self.start, self.shown, self.length, self.after = start, shown, 0, start

    def skip(self, charset: Charset, readinto: ReadInto, buffer: bytearray, filled: int) -> int:
        """Read to the line's end; what follows it is moved to the front of the buffer, and its size returned."""
        self.length = filled
        while True:
            got = _fill(readinto, memoryview(buffer))
            found = charset.after_first(buffer, got)
            if found or got < len(buffer):
                self.after = self.start + self.length + (found or got)
                self.length += found - charset.unit if found else got
                return _move(buffer, found, got) if found else 0
            self.length += got


def _fill(readinto: ReadInto, view: memoryview) -> int:
    """Read until the view is full or the stream ends, so that blocks are cut where characters are."""
    filled = 0
    while filled < len(view):
        got = readinto(view[filled:])
        if not got:
            break
        filled += got
    return filled


def _move(buffer: bytearray, begin: int, end: int) -> int:
    buffer[: end - begin] = memoryview(buffer)[begin:end]
    return end - begin


def _bounds(raw: np.ndarray[Any, Any], newline: int) -> tuple[Any, Any]:
    """Where each line begins and where it ends before its newline, in characters; the last may lack a newline."""
    import numpy as np

    ends = np.flatnonzero(raw == newline)
    if not len(raw) or raw[-1] != newline:
        ends = np.append(ends, len(raw))
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    return starts, ends


def _texts(block: Any, first: bool, count: int, fits: Any) -> pa.StringArray:
    """Valid UTF-8 → its lines without ``\\n``, ``\\r\\n`` and a file's byte order mark; only those that fit, if not all."""
    import numpy as np

    raw = np.frombuffer(block, np.uint8)
    starts, ends = _bounds(raw, 10)
    if len(ends) < count:  # what stood behind the last newline left no bytes
        starts, ends = np.append(starts, len(raw)), np.append(ends, len(raw))
    pieces = np.empty(2 * count + 1, np.int32)
    pieces[0:-1:2], pieces[1::2], pieces[-1] = starts, ends, len(raw)
    returns = raw[np.maximum(ends, 1) - 1] == 13
    if returns.any():
        pieces[1::2] -= returns & (ends > starts)
    if first and bytes(block[: len(_BOM)]) == _BOM:
        pieces[0] = len(_BOM)
    lines = pa.StringArray.from_buffers(2 * count, pa.py_buffer(pieces), pa.py_buffer(block))
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    return lines.take(pa.array(chosen if fits is None else chosen[fits]))


def _valid(buffer: bytearray, end: int) -> bool:
    """Whether ``buffer[:end]`` is UTF-8."""
    import numpy as np

    if int(np.frombuffer(buffer, np.int8, end).min()) >= 0:
        return True
    bounds = pa.array([0, end], pa.int32()).buffers()[1]
    try:
        pa.StringArray.from_buffers(1, bounds, pa.py_buffer(buffer)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _newlines(raw: bytes, charset: Charset) -> Any:
    import numpy as np

    units = np.frombuffer(raw, f"<u{charset.unit}", len(raw) // charset.unit)
    return np.flatnonzero(units == int.from_bytes(charset.newline, "little"))


def _split(raw: bytes, charset: Charset) -> Iterator[bytes]:
    """Line by line: only for codecs whose repair of bad bytes eats or makes newlines."""
    at = 0
    for found in _newlines(raw, charset):
        yield raw[at : found * charset.unit]
        at = (found + 1) * charset.unit
    yield raw[at:]
