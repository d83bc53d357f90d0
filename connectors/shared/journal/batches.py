"""Blocks of the journal → record batches. Messages are views into the bytes that were read; a batch may have many blocks.

What is common to all receivers is here; a receiver adds the columns of its events (`AddColumns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.shared.journal.event_blocks import Block
from connectors.shared.journal.reader import Journal, RecordSlice
from etl.api import OFFSET, TIMESTAMP, Rejects, Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

ORIGIN_FIELDS: Schema = pa.schema(
    [
        pa.field("log.source.address", pa.string()),
        pa.field("log.source.port", pa.int32()),
        pa.field("event.created", TIMESTAMP),
    ]
)
"""Who sent an event, and when it arrived."""

FIELDS: Schema = pa.schema([pa.field("message", pa.string()), *ORIGIN_FIELDS])
"""The fields of an event that is nothing but its text."""

MAX_BATCH_ROWS = 1 << 17
"""Maximum number of events of a batch."""

_DAMAGE_SAMPLE_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class EventRows:
    """Events of consecutive blocks: spans of ``buffer`` with their senders and times."""

    buffer: pa.Buffer
    starts: Array
    ends: Array
    sender_of_row: Array
    senders: Sequence[Sequence[Any]]
    micros: Array
    offsets: Array

    def origin_columns(self) -> list[pa.Array]:
        """Return the columns of `ORIGIN_FIELDS`."""
        rows = pa.array(self.sender_of_row)
        addresses = pa.array([sender[0] for sender in self.senders], pa.string())
        ports = pa.array([sender[1] for sender in self.senders], pa.int32())
        return [addresses.take(rows), ports.take(rows), pa.array(self.micros).cast(TIMESTAMP)]

    def texts(self, codec: str = "utf-8") -> pa.Array:
        """Return the events as text."""
        return span_texts(self.buffer, self.starts, self.ends, codec)

    def texts_of(self, starts: Array, ends: Array) -> pa.Array:
        """Return other spans of the buffer as text."""
        return span_texts(self.buffer, starts, ends, "utf-8")

    def filter(self, mask: Array) -> EventRows:
        """Return the rows for which the mask is true, with their senders only."""
        import numpy as np

        numbers, sender_of_row = np.unique(self.sender_of_row[mask], return_inverse=True)
        senders = [self.senders[number] for number in numbers.tolist()]
        return EventRows(
            self.buffer, self.starts[mask], self.ends[mask], sender_of_row, senders, self.micros[mask], self.offsets[mask]
        )

    def slice(self, first: int, last: int) -> EventRows:
        """Return some of the rows."""
        rows = slice(first, last)
        return EventRows(
            self.buffer,
            self.starts[rows],
            self.ends[rows],
            self.sender_of_row[rows],
            self.senders,
            self.micros[rows],
            self.offsets[rows],
        )


MakeBatches = Callable[[EventRows], Iterable[pa.RecordBatch | Rejects]]
"""Returns the batches of rows, with the hidden column of offsets, and what is rejected of them."""


def read_blocks(
    journal: Journal, record: int, start: int, end: int, schema: Schema, make: MakeBatches, reasons: Mapping[str, str]
) -> Iterator[pa.RecordBatch | Rejects]:
    """Yield the events at positions from ``start`` to ``end``; ``record`` is the begin of a record, at or before ``start``.

    ``reasons`` explains the codes of rejected messages; ``{size}`` and ``{kept}`` are their bytes and those in the journal.
    """
    for piece in journal.read_slices(record, end):
        intact = [one for one in piece.records if one.is_intact(piece.buffer)]
        data = memoryview(piece.buffer)
        blocks = [Block.parse(data, one.begin, one.end) for one in intact]
        if blocks:
            rows = _event_rows(piece, blocks)
            first, last = _searchsorted(rows.offsets, start, end)
            for at in range(first, last, MAX_BATCH_ROWS):
                yield from make(rows.slice(at, min(at + MAX_BATCH_ROWS, last)))
        yield from _reject_messages(piece, blocks, start, end, schema, reasons)
        if len(intact) < len(piece.records):
            yield _reject_damaged(piece, schema)


def text_batches(codec: str) -> MakeBatches:
    """Return what makes batches of `FIELDS`."""

    def make(rows: EventRows) -> Iterator[pa.RecordBatch]:
        yield text_batch(rows, codec)

    return make


def text_batch(rows: EventRows, codec: str = "utf-8") -> pa.RecordBatch:
    """Return rows as a batch of `FIELDS`."""
    columns = [rows.texts(codec), *rows.origin_columns(), pa.array(rows.offsets)]
    return pa.record_batch(columns, names=[*FIELDS.names, OFFSET])


def event_starts(piece: RecordSlice) -> list[int]:
    """Return the begins of the messages of a slice's only record."""
    (record,) = piece.records
    block = Block.parse(memoryview(piece.buffer), record.begin, record.end)
    return sorted([*block.index[0].tolist(), *(fault[0] for fault in block.rejects)])


def span_texts(buffer: pa.Buffer, starts: Array, ends: Array, codec: str) -> pa.Array:
    """Return spans of the buffer as text. Invalid bytes, and character sets other than UTF-8, cost a Python loop over the
    messages of the batch.
    """
    import numpy as np

    from etl.columns.texts import Texts, make_span_views

    if codec == "utf-8":
        base = np.full(len(starts), buffer.address, np.uint64)
        views = make_span_views(starts, ends, Texts(base, ends.astype(np.int64), buffer, buffer.address, buffer))
        try:
            views.validate(full=True)
            return views
        except pa.ArrowInvalid:
            pass
    data = memoryview(buffer)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([decode(bytes(data[start:end]), codec) for start, end in spans], pa.string())


def decode(data: bytes, codec: str = "utf-8") -> str:
    """Decode to text that UTF-8 can encode: some codecs give surrogates."""
    return data.decode(codec, "replace").encode("utf-8", "replace").decode()


def reject_row(schema: Schema, values: dict[str, Any], code: str, reason: str) -> Rejects:
    """Return one rejected event; fields that ``values`` does not have are null."""
    full = pa.schema([*schema, pa.field(OFFSET, pa.int64())])
    return Rejects(pa.RecordBatch.from_pylist([values], full), code, reason)


def _event_rows(piece: RecordSlice, blocks: list[Block]) -> EventRows:
    import numpy as np

    index = np.concatenate([block.index for block in blocks], axis=1)
    lengths = np.array([block.index.shape[1] for block in blocks])
    firsts = np.cumsum([0, *(len(block.senders) for block in blocks[:-1])])
    return EventRows(
        piece.buffer,
        index[0],
        index[1],
        index[2] + np.repeat(firsts, lengths),
        [sender for block in blocks for sender in block.senders],
        np.repeat(np.array([block.micros for block in blocks], np.int64), lengths),
        index[0] + np.int64(piece.at),
    )


def _searchsorted(offsets: Array, start: int, end: int) -> tuple[int, int]:
    import numpy as np

    first, last = np.searchsorted(offsets, [start, end])
    return int(first), int(last)


def _reject_messages(
    piece: RecordSlice, blocks: list[Block], start: int, end: int, schema: Schema, reasons: Mapping[str, str]
) -> Iterator[Rejects]:
    """Yield rejects for messages that the receiver rejected; they are rare, so each is a batch of one."""
    data = memoryview(piece.buffer)
    for block in blocks:
        for begin, stop, sender, code, size in block.rejects:
            offset = piece.at + begin
            if start <= offset < end:
                address, port, *_ = block.senders[sender]
                row = {
                    "message": decode(bytes(data[begin:stop])),
                    "log.source.address": address,
                    "log.source.port": port,
                    "event.created": block.micros,
                    OFFSET: offset,
                }
                yield reject_row(schema, row, code, reasons[code].format(size=size, kept=stop - begin))


def _reject_damaged(piece: RecordSlice, schema: Schema) -> Rejects:
    """Return a reject for records whose checksum is wrong."""
    bad = [one for one in piece.records if not one.is_intact(piece.buffer)]
    events = sum(one.events for one in bad)
    at = piece.at + bad[0].begin
    shown = decode(bytes(memoryview(piece.buffer)[bad[0].begin : bad[0].end][:_DAMAGE_SAMPLE_BYTES]))
    reason = f"{len(bad)} records at {at} are damaged on disk; their headers count {events} events"
    return reject_row(schema, {"message": shown, OFFSET: at}, "journal-damaged", reason)
