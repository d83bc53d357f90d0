"""Cutting lines out of blocks of bytes: the lines are views into the block, which nobody writes to any more.

Where lines are grouped into events, an event is a span of the block, for its lines lie side by side. Bytes are copied
where a line or event goes on in the next block, where they are not UTF-8, and where something between two lines of an
event is left out. Memory is bounded by a block and the longest line and event allowed, as long as a batch is let go
before the next is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from connectors.file.charset import Charset
from connectors.file.grouping import Grouping, Lines
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

BLOCK = 4 << 20
"""Bytes read at once; also about the size of a batch. A multiple of every character width."""

SHOWN = 64 << 10
"""Bytes of an over-long line that its dead letter keeps."""

TAIL = 1 << 16
"""Bytes at the end of a block where its last newline is looked for first."""

_BOM = "\ufeff".encode()

ReadInto = Callable[[memoryview], int]
"""Fills a part of a buffer and says how much; 0 at the end."""


class Cut(NamedTuple):
    """What was cut out of a block."""

    starts: np.ndarray[Any, Any]
    """int64[n]: where each event begins in the file, over-long lines included, in order."""

    end: int
    """Where the last of them ends."""

    batches: list[pa.RecordBatch | Rejects]


@dataclass(frozen=True, slots=True)
class Cutter:
    """Bytes → batches of `message` and `_offset`: the character set, the longest line allowed, and which lines make an
    event (None: each)."""

    charset: Charset
    max_line_bytes: int
    grouping: Grouping | None = None

    def lines(self, readinto: ReadInto, at: int) -> Iterator[pa.RecordBatch | Rejects]:
        """The events of a stream whose first byte is at offset ``at``, an event's beginning; the last may lack its newline."""
        for cut in self.cuts(readinto, at):
            while cut.batches:
                yield cut.batches.pop(0)

    def cuts(self, readinto: ReadInto, at: int, closed: bool = True) -> Iterator[Cut]:
        """The same block by block; ``closed``: nothing behind the stream belongs to its last event."""
        block, filled = _block(BLOCK), 0
        while True:
            got = _fill(readinto, block[filled:])
            ended = filled + got < len(block)
            filled += got
            whole = self.charset.whole(filled) if ended else _after_last(self.charset, block[:filled])
            long = not ended and filled - whole > self.max_line_bytes
            taken = 0
            if whole:
                cut = self._cut(block[:whole], at, closed if ended else long)
                taken = cut.end - at
                yield cut
            if ended:
                return
            if taken:  # events point into the block from now on: what it holds of the next is continued in another
                block, filled, at = _continued(block[taken:filled], len(block)), filled - taken, at + taken
            if long:
                line = _LongLine(at, bytes(block[:SHOWN]))
                filled = line.skip(self.charset, readinto, block, filled)
                yield self._passed_over(line)
                at = line.after
            elif filled == len(block):
                block = _continued(block, 2 * len(block))

    def _cut(self, block: memoryview, at: int, closed: bool) -> Cut:
        import numpy as np

        from etl.scanner.lines import cut

        raw, unit = pa.py_buffer(block), self.charset.unit
        last = block[-unit:] != self.charset.newline
        text, newlines = self._utf8(raw)
        skip = _bom(text) if at == 0 else 0
        lines = cut(text, newlines, last, skip, at)
        starts = lines.starts - at if text is raw else _starts(raw, self.charset, last)
        fits = text is raw and lines.longest <= self.max_line_bytes
        if self.grouping is None and fits:
            return Cut(lines.starts, at + len(block), [_batch(lines.texts, lines.starts)])
        ends = np.append(starts[1:] - unit, len(block) - (0 if last else unit))
        texts, end = lines.texts, len(block)
        if self.grouping is not None:
            begins = lines.starts - at
            begins[0] = skip
            long = None if fits else ends - starts > self.max_line_bytes
            events = self.grouping.events(Lines(text, texts, begins, starts, ends, long), closed)
            end = int(starts[events.lines]) if events.lines < len(starts) else end
            texts, starts, ends = events.texts, starts[events.first], ends[events.first]
        batch = _batch(texts, at + starts)
        return Cut(at + starts, at + end, [batch] if fits and len(batch) else list(self._fitting(batch, starts, ends, block)))

    def _passed_over(self, line: _LongLine) -> Cut:
        import numpy as np

        rejects = self._too_long([line.start], [line.length], [line.shown])
        return Cut(np.array([line.start]), line.after, [rejects])

    def _fitting(
        self, batch: pa.RecordBatch, starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], block: memoryview
    ) -> Iterator[pa.RecordBatch | Rejects]:
        """The events of a block, then its lines that are too long; places are those of first lines."""
        from etl.scanner.texts import filtered

        fits = ends - starts <= self.max_line_bytes
        if fits.any():
            yield filtered(batch, pa.array(fits))
        if not fits.all():
            at = batch.column(OFFSET)[0].as_py() - int(starts[0])
            bad = [(int(a), int(b)) for a, b in zip(starts[~fits], ends[~fits], strict=True)]
            shown = [bytes(block[a : min(b, a + SHOWN)]) for a, b in bad]
            yield self._too_long([at + a for a, _ in bad], [b - a for a, b in bad], shown)

    def _utf8(self, block: pa.Buffer) -> tuple[pa.Buffer, int]:
        """The block as valid UTF-8 with the same newlines, and how many: itself where it is that already."""
        from etl.scanner.lines import survey

        if self.charset.utf8:
            seen = survey(block)
            if seen.ascii or _valid(block):
                return block, seen.newlines
        text = pa.py_buffer(self._repaired(block.to_pybytes()))
        return text, survey(text).newlines

    def _repaired(self, raw: bytes) -> bytes:
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

    def skip(self, charset: Charset, readinto: ReadInto, block: memoryview, filled: int) -> int:
        """Read to the line's end; what follows it is moved to the front of the block, and its size returned."""
        self.length = filled
        while True:
            got = _fill(readinto, block)
            found = charset.after_first(bytes(block[:got]), got)
            if found or got < len(block):
                self.after = self.start + self.length + (found or got)
                self.length += found - charset.unit if found else got
                rest = bytes(block[found:got]) if found else b""
                block[: len(rest)] = rest
                return len(rest)
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


def _block(size: int) -> memoryview:
    """Memory that nobody has written to: it is taken from the system only as it is filled."""
    import numpy as np

    return np.empty(size, np.uint8).data


def _continued(rest: memoryview, size: int) -> memoryview:
    block = _block(size)
    block[: len(rest)] = rest
    return block


def _after_last(charset: Charset, block: memoryview) -> int:
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


def _batch(texts: pa.Array, offsets: np.ndarray[Any, Any]) -> pa.RecordBatch:
    return pa.record_batch([texts, pa.array(offsets)], names=["message", OFFSET])


def _bom(text: pa.Buffer) -> int:
    """Bytes of the byte order mark at the beginning."""
    return len(_BOM) if text.slice(0, min(len(_BOM), text.size)).to_pybytes() == _BOM else 0


def _starts(raw: pa.Buffer, charset: Charset, last: bool) -> np.ndarray[Any, Any]:
    """Where each line begins in bytes that are not UTF-8."""
    import numpy as np

    newlines = _newlines(raw, charset)
    starts = np.zeros(len(newlines) + 1, np.int64)
    starts[1:] = (newlines + 1) * charset.unit
    return starts if last else starts[:-1]


def _valid(block: pa.Buffer) -> bool:
    """Whether the bytes are UTF-8."""
    bounds = pa.array([0, block.size], pa.int32()).buffers()[1]
    try:
        pa.StringArray.from_buffers(1, bounds, block).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _newlines(raw: pa.Buffer | bytes, charset: Charset) -> Any:
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
