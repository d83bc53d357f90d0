"""The journal's blocks as record batches: messages are views into the bytes that were read, however many blocks hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.journal.reader import Journal, Slice
from connectors.syslog_receiver.block import Block
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
MOST_ROWS = 1 << 17
"""Events of a batch."""

_DAMAGE_SHOWN = 1 << 10


def batches(journal: Journal, record: int, start: int, end: int, codec: str) -> Iterator[pa.RecordBatch | Rejects]:
    """The events whose position is from ``start`` to ``end``; a record begins at ``record``, no later than ``start``."""
    for piece in journal.slices(record, end):
        whole = [one for one in piece.records if one.whole(piece.buffer)]
        data = memoryview(piece.buffer)
        blocks = [Block.read(data, one.begin, one.end) for one in whole]
        yield from _events(piece, blocks, start, end, codec)
        yield from _faults(piece, blocks, start, end, codec)
        if len(whole) < len(piece.records):
            yield _damage(piece)


def members(piece: Slice) -> list[int]:
    """Where the messages of a slice's only record begin."""
    (record,) = piece.records
    block = Block.read(memoryview(piece.buffer), record.begin, record.end)
    return sorted([*block.index[0].tolist(), *(fault[0] for fault in block.faults)])


def _events(piece: Slice, blocks: list[Block], start: int, end: int, codec: str) -> Iterator[pa.RecordBatch]:
    import numpy as np

    if not blocks:
        return
    index = np.concatenate([block.index for block in blocks], axis=1)
    lengths = np.array([block.index.shape[1] for block in blocks])
    firsts = np.cumsum([0, *(len(block.senders) for block in blocks[:-1])])
    senders = index[2] + np.repeat(firsts, lengths)
    times = np.repeat(np.array([block.micros for block in blocks], np.int64), lengths)
    addresses, ports = _who(blocks)
    offsets = index[0] + np.int64(piece.at)
    first, last = np.searchsorted(offsets, [start, end])
    for at in range(int(first), int(last), MOST_ROWS):
        rows = slice(at, min(at + MOST_ROWS, int(last)))
        who = pa.array(senders[rows])
        texts = _texts(piece.buffer, index[0, rows], index[1, rows], codec)
        columns = [texts, addresses.take(who), ports.take(who), pa.array(times[rows]).cast(TIMESTAMP), pa.array(offsets[rows])]
        yield pa.record_batch(columns, names=[*FIELDS.names, OFFSET])


def _who(blocks: list[Block]) -> tuple[pa.Array, pa.Array]:
    senders = [sender for block in blocks for sender in block.senders]
    return pa.array([address for address, _ in senders], pa.string()), pa.array([port for _, port in senders], pa.int32())


def _texts(buffer: pa.Buffer, starts: Array, ends: Array, codec: str) -> pa.Array:
    """Spans of the buffer as text. One that is not in the character set is repaired, which costs a turn of a loop in
    Python for each message of its batch, as does any other character set than UTF-8."""
    import numpy as np

    from etl.columns.texts import Texts, views_of

    if codec == "utf-8":
        place = np.full(len(starts), buffer.address, np.uint64)
        views = views_of(starts, ends, Texts(place, ends.astype(np.int64), buffer, buffer.address, buffer))
        try:
            views.validate(full=True)
            return views
        except pa.ArrowInvalid:
            pass
    data = memoryview(buffer)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([_decoded(bytes(data[start:end]), codec) for start, end in spans], pa.string())


def _decoded(data: bytes, codec: str) -> str:
    """Text that can be UTF-8: codecs exist that give surrogates."""
    return data.decode(codec, "replace").encode("utf-8", "replace").decode()


def _faults(piece: Slice, blocks: list[Block], start: int, end: int, codec: str) -> Iterator[Rejects]:
    """Messages that were too long or cut off; few, so each is a batch of one."""
    data = memoryview(piece.buffer)
    for block in blocks:
        for begin, stop, sender, code, size in block.faults:
            offset = piece.at + begin
            if start <= offset < end:
                address, port = block.senders[sender]
                row = [_decoded(bytes(data[begin:stop]), codec), address, port, block.micros, offset]
                yield Rejects(_row(row), code, _REASONS[code].format(size=size, kept=stop - begin))


_REASONS = {
    "message-too-long": "the message has {size} bytes or more, and max_message_bytes, or the longest datagram, has fewer",
    "message-cut-off": "the connection ended in the middle of a message: {kept} of {size} bytes came",
}


def _damage(piece: Slice) -> Rejects:
    """Records whose bytes are not those that were written."""
    bad = [one for one in piece.records if not one.whole(piece.buffer)]
    events = sum(one.events for one in bad)
    shown = bytes(memoryview(piece.buffer)[bad[0].begin : bad[0].end][:_DAMAGE_SHOWN]).decode("utf-8", "replace")
    reason = f"{len(bad)} records at {piece.at + bad[0].begin} are damaged on disk; they said to hold {events} events"
    return Rejects(_row([shown, None, None, None, piece.at + bad[0].begin]), "journal-damaged", reason)


def _row(values: list[Any]) -> pa.RecordBatch:
    types = [*FIELDS.types, pa.int64()]
    arrays = [pa.array([value], type_) for value, type_ in zip(values, types, strict=True)]
    return pa.record_batch(arrays, names=[*FIELDS.names, OFFSET])
