"""Encodes events as arguments of the client's ``produce``: topic, value, key, time and headers of each message.

JSON values are written by the JSON kernel for the whole batch and split at newlines; JSON text contains none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.topic_template import TopicTemplate
from connectors.shared import json_lines
from connectors.shared.debezium_lines import debezium_lines
from connectors.shared.field_texts import to_payloads, to_texts
from etl.api import CHANGE, is_changing, signs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from etl.columns.json.lines import Lines

Payload = bytes | str | None

_SEPARATOR = "|"
"""Separates the fields of a key."""


class EncodedMessages(NamedTuple):
    """The messages of a batch, one entry a row."""

    topics: Sequence[str]
    values: Sequence[Payload]
    keys: Sequence[Payload] | None
    millis: Sequence[int] | None
    """Milliseconds since 1970 of each event; 0 means the time of sending."""
    headers: Sequence[list[tuple[str, Payload]]] | None

    def arguments(self, report: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the positional arguments of `Producer.produce`: topic, value, key, partition, callback, on_delivery, time,
        headers.
        """
        keys, millis, headers = self.keys or repeat(None), self.millis or repeat(0), self.headers or repeat(None)
        return zip(self.topics, self.values, keys, repeat(-1), repeat(report), repeat(None), millis, headers, strict=False)


@dataclass(frozen=True)
class MessageEncoding:
    """How an event becomes a message."""

    topic: TopicTemplate
    value_field: str | None
    """Field whose value is sent unchanged; None sends the event as JSON."""
    key: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]
    """Pairs of field and header."""
    time_field: str | None
    key_format: Literal["text", "json"] = "text"
    key_prefix: str = ""
    """What names of fields of the key begin with that are without it in a key in JSON."""
    has_key_in_value: bool = True
    is_debezium: bool = False
    """Whether values are Debezium's, one for each change; else those of changes are rows by their keys, and tombstones."""

    def replaces_rows(self, batch: pa.RecordBatch) -> bool:
        """Return whether of the events of a key only the last one counts."""
        return is_changing(batch.schema) and not self.is_debezium

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return bytes of value, key and headers of each event, as Kafka counts them before compression."""
        import numpy as np

        sizes = self._value_sizes(batch)
        for part in [*([self._keys(batch)] if self.key else []), *(to_texts(batch.column(field)) for field, _ in self.headers)]:
            sizes = sizes + _lengths(part)
        names = sum(len(header.encode()) for _, header in self.headers)
        return pa.array(sizes + np.int64(names))

    def has_key(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which events have a key."""
        return self._keys(batch).is_valid() if self.key else pa.repeat(pa.scalar(False), batch.num_rows)

    def encode(self, batch: pa.RecordBatch, topics: pa.DictionaryArray) -> EncodedMessages:
        """Encode all events of a batch."""
        millis = self._millis(batch) if self.time_field else None
        keys = self._keys(batch).to_pylist() if self.key else None
        names = topics.dictionary.to_pylist()
        if len(names) == 1:
            return EncodedMessages([names[0]] * len(batch), self._values(batch), keys, millis, self._headers(batch))
        topic_of_row = [names[code] for code in topics.indices.to_pylist()]
        return EncodedMessages(topic_of_row, self._values(batch), keys, millis, self._headers(batch))

    def _values(self, batch: pa.RecordBatch) -> Sequence[Payload]:
        if self.replaces_rows(batch):
            return self._values_or_tombstones(batch)
        if self.value_field is not None:
            return to_payloads(batch.column(self.value_field))
        return _texts(self._value_lines(batch))

    def _value_lines(self, batch: pa.RecordBatch) -> Lines:
        events = batch if self.has_key_in_value else batch.drop_columns(self.key)
        return debezium_lines(events) if self.is_debezium else json_lines.lines(events, "keep")

    def _values_or_tombstones(self, batch: pa.RecordBatch) -> Sequence[Payload]:
        """Null for events that remove the row of their key."""
        values = self._values(batch.drop_columns([CHANGE]))
        return [value if sign > 0 else None for value, sign in zip(values, signs(batch).tolist(), strict=True)]

    def _value_sizes(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        import numpy as np

        if self.value_field is None:
            return np.asarray(self._value_lines(batch).lengths) - 1
        values = batch.column(self.value_field)
        is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
        return _lengths(values if is_bytes else to_texts(values))

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the keys: one field unchanged, several joined with null as empty text; null where all fields are null."""
        if self.key_format == "json":
            names = [name.removeprefix(self.key_prefix) for name in self.key]
            columns = [batch.column(name) for name in self.key]
            return pa.array(_texts(json_lines.lines(pa.RecordBatch.from_arrays(columns, names=names), "keep")), pa.binary())
        texts = [to_texts(batch.column(field)) for field in self.key]
        if len(texts) == 1:
            return texts[0]
        joined = pc.binary_join_element_wise(*texts, _SEPARATOR, null_handling="replace", null_replacement="")
        empty = _SEPARATOR * (len(texts) - 1)
        is_null = pc.and_(pc.equal(joined, empty), _all_null(texts))
        return pc.if_else(is_null, pa.scalar(None, pa.string()), joined)

    def _millis(self, batch: pa.RecordBatch) -> list[int]:
        assert self.time_field is not None
        millis = pc.floor_temporal(batch.column(self.time_field), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
        return pc.max_element_wise(pc.fill_null(millis.cast(pa.int64()), 0), 0).to_pylist()

    def _headers(self, batch: pa.RecordBatch) -> Sequence[list[tuple[str, Payload]]] | None:
        """Return a header for each field that is not null."""
        if not self.headers:
            return None
        columns = [to_payloads(batch.column(field)) for field, _ in self.headers]
        names = [header for _, header in self.headers]
        rows = zip(*columns, strict=True)
        return [[(name, value) for name, value in zip(names, row, strict=True) if value is not None] for row in rows]


def _texts(lines: Lines) -> list[bytes]:
    """Return the lines without their ends."""
    texts = bytes(lines.text).split(b"\n")
    texts.pop()
    return texts


def _lengths(values: pa.Array) -> NDArray[np.int64]:
    import numpy as np

    lengths = pc.binary_length(values) if not pa.types.is_null(values.type) else pa.nulls(len(values), pa.int64())
    return np.asarray(pc.fill_null(lengths.cast(pa.int64()), 0))


def _all_null(columns: Sequence[pa.Array]) -> pa.Array:
    is_null = columns[0].is_null()
    for column in columns[1:]:
        is_null = pc.and_(is_null, column.is_null())
    return is_null
