"""Cuts blocks of bytes into lines, as views into the block, which is not written to any more.

If lines are grouped into events, an event is a span of the block, because its lines are contiguous. Bytes are copied only if
a line or event continues in the next block, if they are not UTF-8, and if text between two lines of an event is removed.
Memory is bounded by a block and the longest line and event, if a batch is released before the next is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from connectors.shared.lines.blocks import LongLine, ReadInto, after_last, continue_block, fill, new_block
from connectors.shared.lines.charset import Charset
from connectors.shared.lines.line_grouping import LineGrouping, Lines
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BLOCK_BYTES = 2 << 20
"""Bytes read at a time, and about the size of a batch. A multiple of every character width."""

MAX_BLOCK_GROWTH, MIN_BLOCK_EVENTS = 4, 4096
"""A block with fewer events than this is followed by one of twice the size, up to this multiple of `BLOCK_BYTES`, so that the
fixed cost of a batch stays small compared with its events."""

MAX_BATCH_ROWS = 1 << 17
"""Maximum number of events of a batch, which also bounds what steps make of it."""

REJECT_SAMPLE_BYTES = 64 << 10
"""Bytes of a too long line that its dead letter contains."""

_BOM = "\ufeff".encode()


class BlockEvents(NamedTuple):
    """Events cut from a block."""

    starts: Array
    """int64[n]: offset of each event in the file, including too long lines, in order."""

    end: int
    """End of the last one."""

    batches: list[pa.RecordBatch | Rejects]


@dataclass(frozen=True, slots=True)
class LineCutter:
    """Cuts bytes into batches of `message` and `_offset`, with the character set, the longest allowed line, and the rules
    that group lines into events (None: each line is one).
    """

    charset: Charset
    max_line_bytes: int
    grouping: LineGrouping | None = None

    def cut_batches(self, readinto: ReadInto, at: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of a stream whose first byte is at offset ``at``, an event's beginning; the last may lack its
        newline.
        """
        for block in self.cut_blocks(readinto, at):
            while block.batches:
                yield from _bounded_batches(block.batches.pop(0))

    def cut_blocks(self, readinto: ReadInto, at: int, closed: bool = True) -> Iterator[BlockEvents]:
        """Like `cut_batches`, block by block; ``closed``: nothing after the stream belongs to its last event."""
        size = BLOCK_BYTES
        block, filled = new_block(size), 0
        while True:
            got = fill(readinto, block[filled:])
            ended = filled + got < len(block)
            filled += got
            whole = self.charset.whole(filled) if ended else after_last(self.charset, block[:filled])
            long = not ended and filled - whole > self.max_line_bytes
            used = 0
            if whole:
                events = self._cut(block[:whole], at, closed if ended else long)
                used = events.end - at
                size = _next_size(size, len(events.starts))
                yield events
            if ended:
                return
            if used:  # events point into this block, so the rest of it is copied to the next one
                rest = block[used:filled]
                block, filled, at = continue_block(rest, _block_size(len(rest), size)), len(rest), at + used
            if long:
                line = LongLine(at, bytes(block[:REJECT_SAMPLE_BYTES]))
                filled = line.skip(self.charset, readinto, block, filled)
                yield self._reject_skipped(line)
                at = line.after
            elif filled == len(block):
                block = continue_block(block, 2 * len(block))

    def _cut(self, block: memoryview, at: int, closed: bool) -> BlockEvents:
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
            return BlockEvents(starts, at + len(block), [_batch(found.texts, starts)])
        ends = np.append(starts[1:], at + len(block) + (self.charset.unit if last else 0)) - self.charset.unit
        long = None if fit else ends - starts > self.max_line_bytes
        return self._group_lines(Lines(text, found.texts, found.starts - at, skip, starts, ends, long), block, at, closed)

    def _group_lines(self, lines: Lines, block: memoryview, at: int, closed: bool) -> BlockEvents:
        """Return lines as events, and those that are too long as dead letters."""
        texts, starts, ends, end = lines.texts, lines.starts, lines.ends, at + len(block)
        if self.grouping is not None:
            events = self.grouping.events(lines, closed)
            if events.lines < len(starts):
                end = int(starts[events.lines])
            texts, starts, ends = events.texts, starts[events.first], ends[events.first]
        batch = _batch(texts, starts)
        if lines.long is None:
            return BlockEvents(starts, end, [batch] if len(batch) else [])
        return BlockEvents(starts, end, list(self._split_off_long(batch, ends, block, at)))

    def _reject_skipped(self, line: LongLine) -> BlockEvents:
        import numpy as np

        rejects = self._too_long([line.start], [line.length], [line.sample])
        return BlockEvents(np.array([line.start]), line.after, [rejects])

    def _split_off_long(
        self, batch: pa.RecordBatch, ends: Array, block: memoryview, at: int
    ) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of a block, then its too long lines; ``ends`` are those of first lines, in the file."""
        from etl.columns.texts import filter_batch

        starts = batch.column(OFFSET).to_numpy()
        fits = ends - starts <= self.max_line_bytes
        if fits.any():
            yield filter_batch(batch, pa.array(fits))
        if not fits.all():
            bad = [(int(a), int(b)) for a, b in zip(starts[~fits], ends[~fits], strict=True)]
            shown = [bytes(block[a - at : min(b, a + REJECT_SAMPLE_BYTES) - at]) for a, b in bad]
            yield self._too_long([a for a, _ in bad], [b - a for a, b in bad], shown)

    def _utf8(self, block: pa.Buffer) -> tuple[pa.Buffer, int]:
        """Return the block as valid UTF-8 with the same newlines, and their number; the block itself if it is valid."""
        from etl.columns.lines import survey

        if self.charset.is_utf8:
            survey_result = survey(block)
            if survey_result.ascii or _is_utf8(block):
                return block, survey_result.newlines
        text = pa.py_buffer(self._repair(block.to_pybytes()))
        return text, survey(text).newlines

    def _repair(self, raw: bytes) -> bytes:
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
    """Return the size of the block after one of ``size`` bytes with this number of events."""
    if rows < MIN_BLOCK_EVENTS:
        return min(2 * size, MAX_BLOCK_GROWTH * BLOCK_BYTES)
    return size if rows < 4 * MIN_BLOCK_EVENTS else max(size // 2, BLOCK_BYTES)


def _block_size(rest: int, size: int) -> int:
    """Return the size of a block that begins with ``rest`` bytes."""
    while size <= rest:
        size *= 2
    return size


def _bounded_batches(batch: pa.RecordBatch | Rejects) -> Iterator[pa.RecordBatch | Rejects]:
    """Divide a batch into parts of bounded rows: a block of newlines only has four million events."""
    if isinstance(batch, Rejects) or len(batch) <= MAX_BATCH_ROWS:
        yield batch
    else:
        yield from (batch.slice(at, MAX_BATCH_ROWS) for at in range(0, len(batch), MAX_BATCH_ROWS))


def _batch(texts: pa.Array, offsets: Array) -> pa.RecordBatch:
    return pa.record_batch([texts, pa.array(offsets)], names=["message", OFFSET])


def _bom(text: pa.Buffer) -> int:
    """Return the bytes of the byte order mark at the beginning."""
    return len(_BOM) if text.slice(0, min(len(_BOM), text.size)).to_pybytes() == _BOM else 0


def _starts(raw: pa.Buffer, charset: Charset, last: bool) -> Array:
    """Return the begins of lines in bytes that are not UTF-8."""
    import numpy as np

    newlines = _newlines(raw, charset)
    starts = np.zeros(len(newlines) + 1, np.int64)
    starts[1:] = (newlines + 1) * charset.unit
    return starts if last else starts[:-1]


def _is_utf8(block: pa.Buffer) -> bool:
    """Return whether the bytes are UTF-8."""
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
    """Split line by line, for codecs whose repair of invalid bytes removes or adds newlines."""
    at = 0
    for found in _newlines(raw, charset):
        yield raw[at : found * charset.unit]
        at = (found + 1) * charset.unit
    yield raw[at:]
