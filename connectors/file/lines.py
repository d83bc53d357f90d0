"""Cutting lines out of blocks of bytes: the lines are views into the block, which nobody writes to any more.

Where lines are grouped into events, an event is a span of the block, for its lines lie side by side. Bytes are copied
where a line or event goes on in the next block, where they are not UTF-8, and where something between two lines of an
event is left out. Memory is bounded by a block and the longest line and event allowed, as long as a batch is let go
before the next is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from connectors.file.blocks import LongLine, ReadInto, after_last, continued, fill, new_block
from connectors.file.charset import Charset
from connectors.file.grouping import Grouping, Lines
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BLOCK = 2 << 20
"""Bytes read at once; also about the size of a batch. A multiple of every character width."""

GROWS, FEW_ROWS = 4, 4096
"""Where a block has fewer events, the next is twice as large, up to so many times `BLOCK`: what a batch costs whatever is in
it must be little beside its events."""

MOST_ROWS = 1 << 17
"""Events of a batch: what steps make of them is bounded, too."""

SHOWN = 64 << 10
"""Bytes of an over-long line that its dead letter keeps."""

_BOM = "\ufeff".encode()


class Cut(NamedTuple):
    """What was cut out of a block."""

    starts: Array
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
                yield from _pieces(cut.batches.pop(0))

    def cuts(self, readinto: ReadInto, at: int, closed: bool = True) -> Iterator[Cut]:
        """The same block by block; ``closed``: nothing behind the stream belongs to its last event."""
        size = BLOCK
        block, filled = new_block(size), 0
        while True:
            got = fill(readinto, block[filled:])
            ended = filled + got < len(block)
            filled += got
            whole = self.charset.whole(filled) if ended else after_last(self.charset, block[:filled])
            long = not ended and filled - whole > self.max_line_bytes
            taken = 0
            if whole:
                cut = self._cut(block[:whole], at, closed if ended else long)
                taken = cut.end - at
                size = _next_size(size, len(cut.starts))
                yield cut
            if ended:
                return
            if taken:  # events point into the block from now on: what it holds of the next is continued in another
                rest = block[taken:filled]
                block, filled, at = continued(rest, _room(len(rest), size)), len(rest), at + taken
            if long:
                line = LongLine(at, bytes(block[:SHOWN]))
                filled = line.skip(self.charset, readinto, block, filled)
                yield self._passed_over(line)
                at = line.after
            elif filled == len(block):
                block = continued(block, 2 * len(block))

    def _cut(self, block: memoryview, at: int, closed: bool) -> Cut:
        import numpy as np

        from etl.columns.lines import cut

        raw = pa.py_buffer(block)
        last = block[-self.charset.unit :] != self.charset.newline
        text, newlines = self._utf8(raw)
        skip = _bom(text) if at == 0 else 0
        found = cut(text, newlines, last, skip, at)
        starts = found.starts if text is raw else at + _starts(raw, self.charset, last)
        fit = text is raw and found.longest <= self.max_line_bytes
        if fit and self.grouping is None:
            return Cut(starts, at + len(block), [_batch(found.texts, starts)])
        ends = np.append(starts[1:], at + len(block) + (self.charset.unit if last else 0)) - self.charset.unit
        long = None if fit else ends - starts > self.max_line_bytes
        return self._gathered(Lines(text, found.texts, found.starts - at, skip, starts, ends, long), block, at, closed)

    def _gathered(self, lines: Lines, block: memoryview, at: int, closed: bool) -> Cut:
        """Lines as events, and those that are too long as dead letters."""
        texts, starts, ends, end = lines.texts, lines.starts, lines.ends, at + len(block)
        if self.grouping is not None:
            events = self.grouping.events(lines, closed)
            if events.lines < len(starts):
                end = int(starts[events.lines])
            texts, starts, ends = events.texts, starts[events.first], ends[events.first]
        batch = _batch(texts, starts)
        if lines.long is None:
            return Cut(starts, end, [batch] if len(batch) else [])
        return Cut(starts, end, list(self._fitting(batch, ends, block, at)))

    def _passed_over(self, line: LongLine) -> Cut:
        import numpy as np

        rejects = self._too_long([line.start], [line.length], [line.shown])
        return Cut(np.array([line.start]), line.after, [rejects])

    def _fitting(self, batch: pa.RecordBatch, ends: Array, block: memoryview, at: int) -> Iterator[pa.RecordBatch | Rejects]:
        """The events of a block, then its lines that are too long; ``ends``: of first lines, in the file."""
        from etl.columns.texts import filtered

        starts = batch.column(OFFSET).to_numpy()
        fits = ends - starts <= self.max_line_bytes
        if fits.any():
            yield filtered(batch, pa.array(fits))
        if not fits.all():
            bad = [(int(a), int(b)) for a, b in zip(starts[~fits], ends[~fits], strict=True)]
            shown = [bytes(block[a - at : min(b, a + SHOWN) - at]) for a, b in bad]
            yield self._too_long([a for a, _ in bad], [b - a for a, b in bad], shown)

    def _utf8(self, block: pa.Buffer) -> tuple[pa.Buffer, int]:
        """The block as valid UTF-8 with the same newlines, and how many: itself where it is that already."""
        from etl.columns.lines import survey

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


def _next_size(size: int, rows: int) -> int:
    """Bytes of the block behind one of ``size`` bytes that had so many events."""
    if rows < FEW_ROWS:
        return min(2 * size, GROWS * BLOCK)
    return size if rows < 4 * FEW_ROWS else max(size // 2, BLOCK)


def _room(rest: int, size: int) -> int:
    """Bytes of a block that goes on with what is left of one."""
    while size <= rest:
        size *= 2
    return size


def _pieces(batch: pa.RecordBatch | Rejects) -> Iterator[pa.RecordBatch | Rejects]:
    """A batch in parts of bounded rows: a block of newlines alone is four million events."""
    if isinstance(batch, Rejects) or len(batch) <= MOST_ROWS:
        yield batch
    else:
        yield from (batch.slice(at, MOST_ROWS) for at in range(0, len(batch), MOST_ROWS))


def _batch(texts: pa.Array, offsets: Array) -> pa.RecordBatch:
    return pa.record_batch([texts, pa.array(offsets)], names=["message", OFFSET])


def _bom(text: pa.Buffer) -> int:
    """Bytes of the byte order mark at the beginning."""
    return len(_BOM) if text.slice(0, min(len(_BOM), text.size)).to_pybytes() == _BOM else 0


def _starts(raw: pa.Buffer, charset: Charset, last: bool) -> Array:
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
