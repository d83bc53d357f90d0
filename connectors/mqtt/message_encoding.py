"""Events → PUBLISH packets, written by a kernel over the columns of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.mqtt.packets import MAX_PACKET_BYTES, MAX_TEXT_BYTES
from connectors.shared import json_lines
from connectors.shared.text_template import TextTemplate, large_texts
from etl.api import Rejects

if TYPE_CHECKING:
    import numpy as np

    from etl.columns.texts import Texts

    Array = np.ndarray[Any, Any]

_HEAD_BYTES = 5
"""Bytes of a packet's type and length, at most."""


@dataclass(frozen=True, slots=True)
class EncodedMessages:
    """The parts of messages, and their sizes."""

    topic_names: pa.Array
    topics: Texts
    payloads: Texts
    value_address: Array
    """uint64[k, n]: of the user properties."""

    value_length: Array
    """int64[k, n]: -1 for none."""

    sizes: Array
    """int64[2, n]: of the properties, and of the packet after its first bytes."""

    owners: Sequence[object]
    """What keeps the memory of the values alive."""


@dataclass(frozen=True, slots=True)
class MessageEncoding:
    """How an event becomes a message."""

    topic: TextTemplate
    payload: str | None
    """Field that is the payload; None for the whole event as JSON."""

    qos: int
    retain: bool
    is_version_5: bool
    properties: bytes = b""
    """Properties of all messages, encoded."""

    user_properties: Sequence[tuple[str, bytes]] = ()
    """Fields, and how their user properties begin: identifier and name, encoded."""

    def encode(self, batch: pa.RecordBatch) -> EncodedMessages:
        """Find the parts of the events' messages."""
        import numpy as np

        from connectors.mqtt.packets_kernel import measure_publishes
        from etl.columns.texts import Texts

        names = self.topic.texts(batch)
        topics, payloads = Texts.of(names), self._payloads(batch)
        values = [Texts.of(large_texts(batch.column(field))) for field, _ in self.user_properties]
        shape = (len(values), batch.num_rows)
        address, length = np.empty(shape, np.uint64), np.empty(shape, np.int64)
        for at, value in enumerate(values):
            address[at], length[at] = value.address, value.length
        heads = np.array([len(head) for _, head in self.user_properties], np.int64)
        sizes = np.empty((2, batch.num_rows), np.int64)
        common = len(self.properties)
        measure_publishes(topics.length, payloads.length, self.qos > 0, self.is_version_5, common, heads, length, sizes)
        return EncodedMessages(names, topics, payloads, address, length, sizes, values)

    def write(self, messages: EncodedMessages, rows: Array, identifiers: Array) -> tuple[memoryview, Array]:
        """Return the packets of some rows one after the other, and where each ends."""
        import numpy as np

        from connectors.mqtt.packets_kernel import write_publishes

        heads = np.frombuffer(b"".join(head for _, head in self.user_properties), np.uint8)
        head_ends = np.cumsum([len(head) for _, head in self.user_properties], dtype=np.int64)
        out, ends = np.empty(int((messages.sizes[1][rows] + _HEAD_BYTES).sum()), np.uint8), np.empty(len(rows), np.int64)
        first = np.uint8(0x30 | self.qos << 1 | self.retain)
        write_publishes(
            rows.astype(np.int64),
            identifiers.astype(np.int64),
            first,
            messages.topics.address,
            messages.topics.length,
            messages.payloads.address,
            messages.payloads.length,
            self.is_version_5,
            np.frombuffer(self.properties, np.uint8),
            heads,
            head_ends,
            messages.value_address,
            messages.value_length,
            messages.sizes,
            out,
            ends,
        )
        return out[: int(ends[-1]) if len(ends) else 0].data, ends

    def _payloads(self, batch: pa.RecordBatch) -> Texts:
        import numpy as np

        from etl.columns.texts import Texts

        if self.payload is not None:
            return Texts.of(as_text_layout(batch.column(self.payload)))
        written = json_lines.lines(batch, "keep")
        text = pa.py_buffer(written.text)
        ends = np.cumsum(written.lengths)
        starts = (ends - written.lengths + text.address).astype(np.uint64)
        return Texts(starts, np.asarray(written.lengths - 1, np.int64), text, text.address, text)


def reject_unsendable(batch: pa.RecordBatch, messages: EncodedMessages, max_bytes: int) -> tuple[list[Rejects], Array]:
    """Return rejects for events that no broker accepts, and the rows of the others."""
    import numpy as np

    left, rejected = np.ones(batch.num_rows, bool), []
    for found, code, reason in _faults(messages, min(max_bytes, MAX_PACKET_BYTES)):
        found &= left
        if found.any():
            rejected.append(Rejects(batch.filter(pa.array(found)), code, reason))
            left &= ~found
    return rejected, np.flatnonzero(left)


def _faults(messages: EncodedMessages, max_bytes: int) -> Iterator[tuple[Array, str, str]]:
    length = messages.topics.length
    yield length < 0, "null-topic", "a field of the topic is null, or the topic is empty"
    bad = pc.fill_null(pc.match_substring_regex(messages.topic_names, "[+#\\x00]"), False)
    yield (
        bad.to_numpy(zero_copy_only=False),
        "bad-topic",
        "the topic has a +, a # or a NUL character, which only filters may have",
    )
    yield length > MAX_TEXT_BYTES, "bad-topic", f"the topic has more than {MAX_TEXT_BYTES:,} bytes"
    long: Array = (messages.value_length > MAX_TEXT_BYTES).any(axis=0)  # type: ignore[assignment]
    yield long, "properties-too-long", f"a user property has more than {MAX_TEXT_BYTES:,} bytes"
    yield (
        messages.sizes[1] + _HEAD_BYTES > max_bytes,
        "event-too-large",
        f"more than {max_bytes:,} bytes, the limit of the broker",
    )


def as_text_layout(column: pa.Array) -> pa.Array:
    """Return a payload column as text: text and bytes have the same layout in memory, other values become text."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        text = pa.string() if pa.types.is_binary(column.type) else pa.large_string()
        return pa.Array.from_buffers(text, len(column), column.buffers(), offset=column.offset)
    return large_texts(column)
