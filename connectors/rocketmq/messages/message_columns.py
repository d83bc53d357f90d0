"""Stored messages → columns of a record batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.rocketmq.messages.stored_messages import (
    BODY_BEGIN,
    BODY_END,
    BORN,
    OFFSET,
    PROPERTIES_BEGIN,
    PROPERTIES_END,
    STORED,
    StoredMessages,
)
from connectors.rocketmq.protocol.routes import Queue
from etl.api import OFFSET as OFFSET_COLUMN
from etl.api import TIMESTAMP, Schema

TAGS, KEYS = "TAGS", "KEYS"
"""Properties with a message's tag, and with its keys separated by blanks."""

_MICROS = 1000
_LATEST_MILLIS = 253_402_300_799_999
"""End of the year 9999, in milliseconds; later times count as invalid."""


METADATA: Schema = pa.schema(
    [
        ("rocketmq.topic", pa.string()),
        ("rocketmq.broker", pa.string()),
        ("rocketmq.queue", pa.int32()),
        ("rocketmq.offset", pa.int64()),
        ("rocketmq.born", TIMESTAMP),
        ("rocketmq.stored", TIMESTAMP),
    ]
)
"""Where a message is stored, when its producer created it, and when the broker stored it."""


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Which fields of an event take which part of a message."""

    body: str = "message"
    binary: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    """Field → property."""

    properties: str | None = None
    metadata: bool = False

    def schema(self) -> Schema:
        """Return the fields in order."""
        text = pa.string()
        own = [(self.body, pa.binary() if self.binary else text), *((name, text) for name in self.texts)]
        own += [(self.properties, pa.map_(text, text))] if self.properties else []
        return pa.schema([*(pa.field(*one) for one in own), *(METADATA if self.metadata else ())])

    def batch(self, stored: StoredMessages, queue: Queue) -> pa.RecordBatch:
        """Return the events of messages of a queue."""
        columns = {self.body: self._bodies(stored)}
        columns |= {name: property_texts(stored, property_) for name, property_ in self.texts.items()}
        if self.properties:
            columns[self.properties] = _property_maps(stored)
        if self.metadata:
            columns |= dict(zip(METADATA.names, _metadata(stored, queue), strict=True))
        columns[OFFSET_COLUMN] = pa.array(stored.parts[OFFSET])
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _bodies(self, stored: StoredMessages) -> pa.Array:
        begins, ends = stored.parts[BODY_BEGIN], stored.parts[BODY_END]
        if not self.binary:
            return stored.texts(begins, ends)
        from etl.columns.texts import materialize_array

        return materialize_array(stored.views(begins, ends)).cast(pa.binary())


def _metadata(stored: StoredMessages, queue: Queue) -> list[pa.Array]:
    constants = [
        pa.scalar(value, type_) for value, type_ in zip((queue.topic, queue.broker, queue.number), METADATA.types, strict=False)
    ]
    parts = stored.parts
    own = [pa.array(parts[OFFSET]), _to_timestamps(parts[BORN]), _to_timestamps(parts[STORED])]
    return [*(pa.repeat(value, len(stored)) for value in constants), *own]


def property_texts(stored: StoredMessages, name: str) -> pa.Array:
    """Return the values of a property, null for messages without it."""
    import numpy as np

    from connectors.rocketmq.messages.stored_kernel import find_property

    block, key = _as_uint8(stored), np.frombuffer(name.encode(), np.uint8)
    starts, stops = np.empty(len(stored), np.int32), np.empty(len(stored), np.int32)
    find_property(block, stored.parts[PROPERTIES_BEGIN], stored.parts[PROPERTIES_END], key, starts, stops)
    return stored.texts(starts, stops)


def _property_maps(stored: StoredMessages) -> pa.Array:
    """Return all properties of each message. Bytes that are not UTF-8 are repaired, which may make two names equal."""
    import numpy as np

    from connectors.rocketmq.messages.stored_kernel import all_properties, count_properties
    from etl.columns.texts import materialize_array

    block, counts = _as_uint8(stored), np.empty(len(stored) + 1, np.int32)
    begins, ends = stored.parts[PROPERTIES_BEGIN], stored.parts[PROPERTIES_END]
    count_properties(block, begins, ends, counts)
    spans = np.empty((4, int(counts[-1])), np.int32)
    all_properties(block, begins, ends, spans)
    names, values = (materialize_array(stored.texts(spans[at], spans[at + 1])) for at in (0, 2))
    return pa.MapArray.from_arrays(pa.array(counts), names, values)


def _as_uint8(stored: StoredMessages) -> Any:
    import numpy as np

    return np.frombuffer(stored.buffer, np.uint8)


def _to_timestamps(millis: Any) -> pa.Array:
    """Convert milliseconds since 1970 to times; null for invalid ones."""
    import numpy as np

    wrong = (millis < 0) | (millis > _LATEST_MILLIS)
    micros = np.where(wrong, 0, millis) * _MICROS
    return pa.array(micros, mask=wrong if wrong.any() else None).cast(TIMESTAMP)
