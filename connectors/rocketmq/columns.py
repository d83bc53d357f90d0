"""What of a message becomes which field of an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.rocketmq.routes import Queue
from connectors.rocketmq.stored import BODY_BEGIN, BODY_END, BORN, OFFSET, PROPERTIES_BEGIN, PROPERTIES_END, STORED, Stored
from etl.api import OFFSET as OFFSET_COLUMN
from etl.api import TIMESTAMP, Schema

TAGS, KEYS = "TAGS", "KEYS"
"""The properties that hold a message's tag, and its keys with blanks between them."""

_MICROS = 1000
_LATEST_MILLIS = 253_402_300_799_999
"""The last of the year 9999, beyond which no time is believed."""


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
"""Where a message lies, when its producer made it and when the broker stored it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which fields events have."""

    body: str = "message"
    binary: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    """Field → property."""

    properties: str | None = None
    metadata: bool = False

    def schema(self) -> Schema:
        """The fields in order."""
        text = pa.string()
        own = [(self.body, pa.binary() if self.binary else text), *((name, text) for name in self.texts)]
        own += [(self.properties, pa.map_(text, text))] if self.properties else []
        return pa.schema([*(pa.field(*one) for one in own), *(METADATA if self.metadata else ())])

    def batch(self, stored: Stored, queue: Queue) -> pa.RecordBatch:
        """The events of some messages of a queue."""
        columns = {self.body: self._bodies(stored)}
        columns |= {name: property_texts(stored, wanted) for name, wanted in self.texts.items()}
        if self.properties:
            columns[self.properties] = _maps(stored)
        if self.metadata:
            columns |= dict(zip(METADATA.names, _metadata(stored, queue), strict=True))
        columns[OFFSET_COLUMN] = pa.array(stored.parts[OFFSET])
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _bodies(self, stored: Stored) -> pa.Array:
        begins, ends = stored.parts[BODY_BEGIN], stored.parts[BODY_END]
        if not self.binary:
            return stored.texts(begins, ends)
        from etl.columns.texts import owned_array

        return owned_array(stored.views(begins, ends)).cast(pa.binary())


def _metadata(stored: Stored, queue: Queue) -> list[pa.Array]:
    same = [
        pa.scalar(value, type_) for value, type_ in zip((queue.topic, queue.broker, queue.number), METADATA.types, strict=False)
    ]
    parts = stored.parts
    own = [pa.array(parts[OFFSET]), _times(parts[BORN]), _times(parts[STORED])]
    return [*(pa.repeat(value, len(stored)) for value in same), *own]


def property_texts(stored: Stored, name: str) -> pa.Array:
    """The values of a property, null where a message has none."""
    import numpy as np

    from connectors.rocketmq.stored_kernel import find_property

    block, wanted = _bytes(stored), np.frombuffer(name.encode(), np.uint8)
    starts, stops = np.empty(len(stored), np.int32), np.empty(len(stored), np.int32)
    find_property(block, stored.parts[PROPERTIES_BEGIN], stored.parts[PROPERTIES_END], wanted, starts, stops)
    return stored.texts(starts, stops)


def _maps(stored: Stored) -> pa.Array:
    """All properties of each message. Spans that are not UTF-8 are repaired, which may make two names equal."""
    import numpy as np

    from connectors.rocketmq.stored_kernel import all_properties, count_properties
    from etl.columns.texts import owned_array

    block, counts = _bytes(stored), np.empty(len(stored) + 1, np.int32)
    begins, ends = stored.parts[PROPERTIES_BEGIN], stored.parts[PROPERTIES_END]
    count_properties(block, begins, ends, counts)
    spans = np.empty((4, int(counts[-1])), np.int32)
    all_properties(block, begins, ends, spans)
    names, values = (owned_array(stored.texts(spans[at], spans[at + 1])) for at in (0, 2))
    return pa.MapArray.from_arrays(pa.array(counts), names, values)


def _bytes(stored: Stored) -> Any:
    import numpy as np

    return np.frombuffer(stored.buffer, np.uint8)


def _times(millis: Any) -> pa.Array:
    """Milliseconds since 1970 as times; null where they are none."""
    import numpy as np

    wrong = (millis < 0) | (millis > _LATEST_MILLIS)
    micros = np.where(wrong, 0, millis) * _MICROS
    return pa.array(micros, mask=wrong if wrong.any() else None).cast(TIMESTAMP)
