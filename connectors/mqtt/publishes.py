"""PUBLISH packets in the journal → record batches, by columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.mqtt.packet_reader import TOO_LONG
from connectors.mqtt.packets import CONTENT_TYPE, CORRELATION_DATA, RESPONSE_TOPIC, USER_PROPERTY, read_properties
from connectors.shared.journal.batches import ORIGIN_FIELDS, EventRows, MakeBatches
from connectors.shared.journal.event_blocks import Block
from connectors.shared.journal.reader import Journal
from etl.api import OFFSET, Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

VERSION_5 = "5"
"""The form of a sender whose packets are of MQTT 5."""

REASONS: Mapping[str, str] = {TOO_LONG: "the message has {size} bytes, more than max_message_bytes; its first {kept} are kept"}

_PROPERTY_FIELDS = {
    CONTENT_TYPE: "mqtt.content_type",
    RESPONSE_TOPIC: "mqtt.response_topic",
    CORRELATION_DATA: "mqtt.correlation_data",
    USER_PROPERTY: "mqtt.user_properties",
}
_QOS, _RETAIN = 6, 1


def fields_of(message: pa.DataType) -> Schema:
    """Return the fields of events whose payload has a type."""
    return pa.schema(
        [
            pa.field("message", message),
            *ORIGIN_FIELDS,
            pa.field("mqtt.topic", pa.string()),
            pa.field("mqtt.qos", pa.int32()),
            pa.field("mqtt.retain", pa.bool_()),
            *(pa.field(name, pa.string()) for name in _PROPERTY_FIELDS.values()),
        ]
    )


def publish_batches(binary: bool) -> MakeBatches:
    """Return what makes batches of `fields_of`."""

    def make(rows: EventRows) -> Iterator[pa.RecordBatch]:
        import numpy as np

        parts = split_rows(rows)
        flags = parts[5]
        columns = [
            _payloads(rows, parts, binary),
            *rows.origin_columns(),
            _topics(rows, parts),
            pa.array(((flags & _QOS) >> 1).astype(np.int32)),
            pa.array((flags & _RETAIN) > 0),
            *_property_columns(rows, parts),
            pa.array(rows.offsets),
        ]
        yield pa.record_batch(columns, names=[*fields_of(pa.string()).names, OFFSET])

    return make


def ids_after(journal: Journal, position: int, end: int) -> Array:
    """Return the packet identifiers of the messages of QoS 2 in a journal after a position."""
    import numpy as np

    from connectors.mqtt.packets_kernel import split_publishes

    found = [np.empty(0, np.int64)]
    for piece in journal.read_slices(position, end):
        for record in piece.records:
            if piece.at + record.end <= position or not record.is_intact(piece.buffer):
                continue
            block = Block.parse(memoryview(piece.buffer), record.begin, record.end)
            parts = np.empty((7, block.index.shape[1]), np.int64)
            version_5 = _are_version_5(block.senders)[block.index[2]]
            raw = np.frombuffer(piece.buffer, np.uint8)
            split_publishes(
                raw, block.index[0].astype(np.int64), block.index[1].astype(np.int64), version_5, parts, np.empty(1, np.int64)
            )
            found.append(parts[6][(parts[5] & _QOS) == 4])
    return np.concatenate(found)


def split_rows(rows: EventRows) -> Array:
    """Return where the parts of packets are, as `split_publishes` does."""
    import numpy as np

    from connectors.mqtt.packets_kernel import split_publishes

    raw = np.frombuffer(rows.buffer, np.uint8)
    version_5 = _are_version_5(rows.senders)[rows.sender_of_row]
    parts = np.empty((7, len(rows.starts)), np.int64)
    split_publishes(raw, rows.starts.astype(np.int64), rows.ends.astype(np.int64), version_5, parts, np.empty(1, np.int64))
    return parts


def _are_version_5(senders: Sequence[Sequence[Any]]) -> Array:
    import numpy as np

    return np.array([sender[3] == VERSION_5 for sender in senders], np.bool_)


def _payloads(rows: EventRows, parts: Array, binary: bool) -> pa.Array:
    if not binary:
        return rows.texts_of(parts[4], rows.ends)
    return _binary_spans(rows.buffer, parts[4], rows.ends.astype("int64"))


def _binary_spans(buffer: pa.Buffer, starts: Array, ends: Array) -> pa.Array:
    """Return spans of a buffer as bytes: copied once, because Arrow has no views of bytes in all its functions."""
    import numpy as np

    from etl.columns.views import gather

    lengths = ends - starts
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + _GATHER_PADDING_BYTES, np.uint8)
    gather(starts.astype(np.uint64) + np.uint64(buffer.address), lengths, np.uint64(out.ctypes.data))
    large = pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    return large.cast(pa.binary())


def _topics(rows: EventRows, parts: Array) -> pa.Array:
    return rows.texts_of(parts[0], parts[1])


def _property_columns(rows: EventRows, parts: Array) -> Iterable[pa.Array]:
    """Return the columns of properties. Messages of a client have often the same ones: each different block is read once, in
    Python, because blocks are lists of entries of several kinds."""
    if not (parts[3] > parts[2]).any():
        return [pa.nulls(len(rows.starts), pa.string())] * len(_PROPERTY_FIELDS)
    blocks = _binary_spans(rows.buffer, parts[2], parts[3]).dictionary_encode()
    values = [_property_values(block) for block in blocks.dictionary.to_pylist()]
    return [pa.array([one[at] for one in values], pa.string()).take(blocks.indices) for at in range(len(_PROPERTY_FIELDS))]


def _property_values(block: bytes) -> Sequence[str | None]:
    try:
        found = read_properties(block)
    except (IndexError, KeyError, struct.error):
        return [None] * len(_PROPERTY_FIELDS)  # the broker has checked it: what is damaged since then is not worth an event
    data = found.get(CORRELATION_DATA)
    return [
        found.get(CONTENT_TYPE),
        found.get(RESPONSE_TOPIC),
        None if data is None else data.hex(),
        _pairs_as_json(found[USER_PROPERTY]) if USER_PROPERTY in found else None,
    ]


def _pairs_as_json(pairs: Sequence[tuple[str, str]]) -> str:
    """Return pairs as an object; the values of a name that occurs several times are a list."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name not in members:
            members[name] = value
        elif isinstance(members[name], list):
            members[name].append(value)
        else:
            members[name] = [members[name], value]
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


_GATHER_PADDING_BYTES = 16
