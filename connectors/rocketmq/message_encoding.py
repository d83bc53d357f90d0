"""Events → messages in the batch format (``MessageDecoder.encodeMessage`` of RocketMQ 5.3).

A message is its total length, a magic number and a checksum that brokers ignore, flags (int32 each, big-endian), then body
and properties, each preceded by its length (int32, int16). A batch is a concatenation of messages. It is not compressed:
brokers do not decompress batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.rocketmq.messages.message_columns import KEYS, TAGS
from connectors.shared import json_lines
from etl.api import IDENTITY
from etl.columns.joined_texts import join_texts

if TYPE_CHECKING:
    import numpy as np

    from etl.columns.texts import Texts

    Array = np.ndarray[Any, Any]

MESSAGE_OVERHEAD_BYTES = 22
"""Bytes of a message besides body and properties."""

MAX_PROPERTIES_BYTES = (1 << 15) - 1

_HEAD_BYTES, _GATHER_PADDING_BYTES = 20, 16
_NAME_END, _VALUE_END = "\x01", "\x02"
_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class EncodedMessages:
    """Bodies and properties of events, ready to be concatenated."""

    bodies: Texts
    properties: Texts

    @property
    def sizes(self) -> Array:
        """int64[n]: encoded bytes of each message, including those without a body (null)."""
        import numpy as np

        return np.maximum(self.bodies.length, 0) + self.properties.length + MESSAGE_OVERHEAD_BYTES

    def concatenate(self, rows: Array) -> memoryview:
        """Return the messages of some rows as one block."""
        import numpy as np

        from etl.columns.views import gather

        bodies, properties = self.bodies.at(rows), self.properties.at(rows)
        heads = np.zeros((len(rows), 5), ">i4")
        heads[:, 0], heads[:, 4] = bodies.length + properties.length + MESSAGE_OVERHEAD_BYTES, bodies.length
        widths = properties.length.astype(">i2")
        address, length = np.empty((len(rows), 4), np.uint64), np.empty((len(rows), 4), np.int64)
        each = np.arange(len(rows), dtype=np.uint64)
        address[:, 0], length[:, 0] = heads.ctypes.data + each * _HEAD_BYTES, _HEAD_BYTES
        address[:, 1], length[:, 1] = bodies.address, bodies.length
        address[:, 2], length[:, 2] = widths.ctypes.data + each * 2, 2
        address[:, 3], length[:, 3] = properties.address, properties.length
        total = int(length.sum())
        target = np.empty(total + _GATHER_PADDING_BYTES, np.uint8)
        gather(address.reshape(-1), length.reshape(-1), np.uint64(target.ctypes.data))
        return target[:total].data


@dataclass(frozen=True, slots=True)
class MessageEncoding:
    """How an event becomes a message."""

    body: str | None = None
    """Field that is the body; None for the whole event as JSON."""

    tag: str | None = None
    keys: tuple[str, ...] = ()
    identity: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    """Field → property."""

    def encode(self, batch: pa.RecordBatch) -> EncodedMessages:
        """Encode the events of a batch."""
        from etl.columns.texts import Texts

        bodies = self._json(batch) if self.body is None else Texts.of(_as_text_layout(batch.column(self.body)))
        return EncodedMessages(bodies, Texts.of(self._properties(batch)))

    def _json(self, batch: pa.RecordBatch) -> Texts:
        """Return one JSON text an event; JSON lines are split at their newlines, which occur nowhere else."""
        import numpy as np

        from etl.columns.texts import Texts

        text = pa.py_buffer(json_lines.encode(batch))
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
        starts = np.append(0, ends[:-1] + 1) if len(ends) else ends
        return Texts((starts + text.address).astype(np.uint64), ends - starts, text, text.address, text)

    def _properties(self, batch: pa.RecordBatch) -> pa.Array:
        keys = [batch.column(IDENTITY)] if self.identity else []
        keys += [_text(batch, name) for name in self.keys]
        found = [_property(KEYS, join_texts(" ", *keys))] if keys else []
        found += [_property(TAGS, _text(batch, self.tag))] if self.tag else []
        found += [_property(name, _text(batch, field)) for field, name in self.properties.items()]
        if not found:
            return pa.repeat(pa.scalar("", pa.string()), len(batch))
        return pc.binary_join_element_wise(*found, "") if len(found) > 1 else found[0]


def _property(name: str, values: pa.Array) -> pa.Array:
    """Return ``name value`` with their end marks; empty where the value is null or empty."""
    whole = pc.binary_join_element_wise(name, values, _NAME_END)
    whole = pc.binary_join_element_wise(whole, "", _VALUE_END)
    is_set = pc.fill_null(pc.greater(pc.binary_length(values), 0), False)
    return whole if is_set.false_count == 0 else pc.if_else(is_set, whole, "")


def _text(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a field as text. The end marks of names and values become U+FFFD, so that no value can forge a property."""
    column = batch.column(name)
    texts = column if column.type == pa.string() else pc.cast(column, pa.string())
    if pc.any(pc.match_substring_regex(texts, "[\x01\x02]")).as_py():
        texts = pc.replace_substring_regex(texts, "[\x01\x02]", "\ufffd")
    return texts


def _as_text_layout(column: pa.Array) -> pa.Array:
    """Return a body column as text: text and bytes have the same layout in memory."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        text = pa.string() if pa.types.is_binary(column.type) else pa.large_string()
        return pa.Array.from_buffers(text, len(column), column.buffers(), offset=column.offset)
    return column
