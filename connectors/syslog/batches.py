"""Blocks of the journal → record batches. Messages are views into the bytes that were read; a batch may have many blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.shared.journal.reader import Journal, RecordSlice
from connectors.syslog.block import Block
from etl.api import OFFSET, TIMESTAMP, Rejects, Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FIELDS: Schema = pa.schema(
    [
        pa.field("message", pa.string()),
        pa.field("log.source.address", pa.string()),
        pa.field("log.source.port", pa.int32()),
        pa.field("event.created", TIMESTAMP),
    ]
)
MAX_BATCH_ROWS = 1 << 17
"""Maximum number of events of a batch."""

_DAMAGE_SAMPLE_BYTES = 1 << 10


def read_batches(journal: Journal, record: int, start: int, end: int, codec: str) -> Iterator[pa.RecordBatch | Rejects]:
    """Yield the events at positions from ``start`` to ``end``; ``record`` is the begin of a record, at or before ``start``."""
    for piece in journal.read_slices(record, end):
        intact = [one for one in piece.records if one.is_intact(piece.buffer)]
        data = memoryview(piece.buffer)
        blocks = [Block.parse(data, one.begin, one.end) for one in intact]
        yield from _events(piece, blocks, start, end, codec)
        yield from _reject_messages(piece, blocks, start, end, codec)
        if len(intact) < len(piece.records):
            yield _reject_damaged(piece)


def event_starts(piece: RecordSlice) -> list[int]:
    """Return the begins of the messages of a slice's only record."""
    (record,) = piece.records
    block = Block.parse(memoryview(piece.buffer), record.begin, record.end)
    return sorted([*block.index[0].tolist(), *(fault[0] for fault in block.rejects)])


def _events(piece: RecordSlice, blocks: list[Block], start: int, end: int, codec: str) -> Iterator[pa.RecordBatch]:
    import numpy as np

    if not blocks:
        return
    index = np.concatenate([block.index for block in blocks], axis=1)
    lengths = np.array([block.index.shape[1] for block in blocks])
    firsts = np.cumsum([0, *(len(block.senders) for block in blocks[:-1])])
    senders = index[2] + np.repeat(firsts, lengths)
    times = np.repeat(np.array([block.micros for block in blocks], np.int64), lengths)
    addresses, ports = _sender_columns(blocks)
    offsets = index[0] + np.int64(piece.at)
    first, last = np.searchsorted(offsets, [start, end])
    for at in range(int(first), int(last), MAX_BATCH_ROWS):
        rows = slice(at, min(at + MAX_BATCH_ROWS, int(last)))
        sender_of_row = pa.array(senders[rows])
        texts = _texts(piece.buffer, index[0, rows], index[1, rows], codec)
        columns = [
            texts,
            addresses.take(sender_of_row),
            ports.take(sender_of_row),
            pa.array(times[rows]).cast(TIMESTAMP),
            pa.array(offsets[rows]),
        ]
        yield pa.record_batch(columns, names=[*FIELDS.names, OFFSET])


def _sender_columns(blocks: list[Block]) -> tuple[pa.Array, pa.Array]:
    senders = [sender for block in blocks for sender in block.senders]
    return pa.array([address for address, _ in senders], pa.string()), pa.array([port for _, port in senders], pa.int32())


def _texts(buffer: pa.Buffer, starts: Array, ends: Array, codec: str) -> pa.Array:
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
    return pa.array([_decode(bytes(data[start:end]), codec) for start, end in spans], pa.string())


def _decode(data: bytes, codec: str) -> str:
    """Decode to text that UTF-8 can encode: some codecs give surrogates."""
    return data.decode(codec, "replace").encode("utf-8", "replace").decode()


def _reject_messages(piece: RecordSlice, blocks: list[Block], start: int, end: int, codec: str) -> Iterator[Rejects]:
    """Yield rejects for messages that were too long or incomplete; they are rare, so each is a batch of one."""
    data = memoryview(piece.buffer)
    for block in blocks:
        for begin, stop, sender, code, size in block.rejects:
            offset = piece.at + begin
            if start <= offset < end:
                address, port = block.senders[sender]
                row = [_decode(bytes(data[begin:stop]), codec), address, port, block.micros, offset]
                yield Rejects(_single_row(row), code, _REASONS[code].format(size=size, kept=stop - begin))


_REASONS = {
    "message-too-long": "the message has at least {size} bytes, more than max_message_bytes or the longest datagram",
    "message-cut-off": "the connection ended within a message: {kept} of {size} bytes arrived",
}


def _reject_damaged(piece: RecordSlice) -> Rejects:
    """Return a reject for records whose checksum is wrong."""
    bad = [one for one in piece.records if not one.is_intact(piece.buffer)]
    events = sum(one.events for one in bad)
    shown = bytes(memoryview(piece.buffer)[bad[0].begin : bad[0].end][:_DAMAGE_SAMPLE_BYTES]).decode("utf-8", "replace")
    reason = f"{len(bad)} records at {piece.at + bad[0].begin} are damaged on disk; their headers count {events} events"
    return Rejects(_single_row([shown, None, None, None, piece.at + bad[0].begin]), "journal-damaged", reason)


def _single_row(values: list[Any]) -> pa.RecordBatch:
    types = [*FIELDS.types, pa.int64()]
    arrays = [pa.array([value], type_) for value, type_ in zip(values, types, strict=True)]
    return pa.record_batch(arrays, names=[*FIELDS.names, OFFSET])
