"""Messages → columns. The client has no other way than an object for each message: what is read of them, a call each
in a comprehension, costs 0.1 µs a message and column, beside the 0.9 µs of the client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.topics import Partition
from etl.api import OFFSET, TIMESTAMP, Schema

if TYPE_CHECKING:
    from confluent_kafka import Message

Column = Callable[["Sequence[Message]"], pa.Array]

_METADATA = {
    "kafka.topic": pa.string(),
    "kafka.partition": pa.int64(),
    "kafka.offset": pa.int64(),
    "kafka.timestamp": TIMESTAMP,
}
METADATA = tuple(_METADATA)


@dataclass(frozen=True)
class Shape:
    """Which fields events get of their messages."""

    value_field: str
    is_binary: bool
    key_field: str | None
    headers: tuple[tuple[str, str], ...]
    """Field and header."""
    headers_field: str | None
    metadata: bool

    def names(self) -> list[str]:
        """Their names, one that several options give more than once."""
        given = [self.value_field, self.key_field, *(field for field, _ in self.headers), self.headers_field]
        return [name for name in given if name] + list(METADATA if self.metadata else ())

    def fields(self) -> Schema:
        """Their names and types."""
        types = {self.value_field: pa.binary() if self.is_binary else pa.string(), **(_METADATA if self.metadata else {})}
        return pa.schema([(name, types.get(name, pa.string())) for name in dict.fromkeys(self.names())])

    def batches(self, messages: Sequence[Message], partition: Partition) -> Iterator[pa.RecordBatch]:
        """Events of a partition's messages; more than one batch where texts exceed 2 GiB."""
        columns = self._columns(messages, partition)
        if any(isinstance(column, pa.ChunkedArray) for column in columns.values()):
            half = len(messages) // 2
            yield from self.batches(messages[:half], partition)
            yield from self.batches(messages[half:], partition)
        elif messages:
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _columns(self, messages: Sequence[Message], partition: Partition) -> dict[str, pa.Array]:
        values = pa.array([one.value() for one in messages], pa.binary())
        offsets = pa.array([one.offset() for one in messages], pa.int64())
        columns = {self.value_field: values if self.is_binary else text(values)}
        if self.key_field:
            columns[self.key_field] = text(pa.array([one.key() for one in messages], pa.binary()))
        if self.headers or self.headers_field:
            columns |= self._headers(messages)
        if self.metadata:
            topic, number = partition
            constants = pa.repeat(pa.scalar(topic), len(messages)), pa.repeat(pa.scalar(number, pa.int64()), len(messages))
            columns |= zip(METADATA, (*constants, offsets, times(messages)), strict=True)
        return {**columns, OFFSET: offsets}

    def _headers(self, messages: Sequence[Message]) -> dict[str, pa.Array]:
        """Headers one by one, and those that no field takes as one JSON object."""
        each: list[Any] = [one.headers() or () for one in messages]
        columns = {}
        for field, header in self.headers:
            found = [next((value for name, value in reversed(pairs) if name == header), None) for pairs in each]
            columns[field] = text(pa.array(found, pa.binary()))
        if self.headers_field:
            taken = {header for _, header in self.headers}
            rest = [_as_json([pair for pair in pairs if pair[0] not in taken]) for pairs in each]
            columns[self.headers_field] = pa.array(rest, pa.string())
        return columns


def text(values: pa.Array) -> pa.Array:
    """Bytes as UTF-8; what is none becomes U+FFFD."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        repaired = [value if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(repaired, pa.string())


def times(messages: Sequence[Message]) -> pa.Array:
    """When each was sent, or came to the broker; null where it does not say."""
    millis = pa.array([one.timestamp()[1] for one in messages], pa.int64())
    known = pc.if_else(pc.less(millis, 0), pa.scalar(None, pa.int64()), millis)
    return known.cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP)


def _as_json(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """Headers as a JSON object; one that is there several times has a list."""
    if not pairs:
        return None
    found: dict[str, Any] = {}
    for name, value in pairs:
        said = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if name not in found:
            found[name] = said
        elif isinstance(found[name], list):
            found[name].append(said)
        else:
            found[name] = [found[name], said]
    return json.dumps(found, ensure_ascii=False)
