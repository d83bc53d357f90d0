"""Reads a split: answers of a broker are joined to blocks and become batches of events."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from connectors.rocketmq import tags
from connectors.rocketmq.messages.message_columns import TAGS, MessageColumns, property_texts
from connectors.rocketmq.messages.nested_messages import has_nested_messages, is_nested, unnest
from connectors.rocketmq.messages.stored_messages import OFFSET, StoredMessages
from connectors.rocketmq.protocol.cluster import Cluster
from connectors.rocketmq.protocol.codes import CHECK_CLIENT_CONFIG
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import SQL, TAG, LostRange, Puller, pull_fields
from etl.api import OFFSET as OFFSET_COLUMN
from etl.api import ComponentError, Rejects

log = logging.getLogger("sluice.source.rocketmq")

BLOCK_BYTES = 4 << 20
"""Bytes of stored messages in a batch."""

OnDataLoss = Literal["fail", "earliest"]


@dataclass(frozen=True, slots=True)
class RangeReader:
    """The options for reading messages."""

    columns: MessageColumns
    group: str
    tags: str
    filter: str | None
    on_data_loss: OnDataLoss

    def batches(self, cluster: Cluster, queue: Queue, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of a range of a queue, and a dead letter for messages that no longer exist."""
        connection, master = cluster.reader(queue)
        try:
            puller = Puller(connection, queue, pull_fields(queue, self.group, *self._subscription(connection, queue)), master)
            yield from self._events(puller.pull(start, end), queue, start, end)
        finally:
            connection.close()

    def _subscription(self, connection: Connection, queue: Queue) -> tuple[str, str]:
        """Return the expression to send to the broker, and its type. A broker does not see tags and properties of nested
        messages.
        """
        if self.filter is None and self.tags == tags.ALL:
            return tags.ALL, TAG
        nesting = has_nested_messages(connection, queue.topic)
        if self.filter is None:
            return tags.to_subscription(self.tags) if nesting is False else tags.ALL, TAG
        if nesting is None:
            _warn_of_unknown_type(connection.address, queue.topic)
        if nesting:
            raise ComponentError(
                f"rocketmq: topic {queue.topic!r} is of the type BatchCQ, whose messages have "
                "properties that brokers do not see; remove filter, and use a step filter after the source"
            )
        _check_filter(connection, queue.topic, self.group, self.filter)
        return self.filter, SQL

    def _events(
        self, found: Iterator[bytes | LostRange], queue: Queue, start: int, end: int
    ) -> Iterator[pa.RecordBatch | Rejects]:
        after = start - 1
        for block in _blocks(found):
            if isinstance(block, LostRange):
                yield reject_lost(queue, block, self.on_data_loss)
                continue
            stored = StoredMessages.locate(block, after, end)
            if len(stored):
                after = yield from self._batch(stored, queue, after, end)

    def _batch(
        self, stored: StoredMessages, queue: Queue, after: int, end: int
    ) -> Generator[pa.RecordBatch | Rejects, None, int]:
        """Yield the events of messages; returns the last offset among them."""
        for piece, broken, reason in stored.decompressed():
            piece, malformed = unnest(piece, after, end)
            broken = broken.at(broken.parts[OFFSET] > after)
            after = max([after, *(int(some.parts[OFFSET, -1]) for some in (piece, broken, malformed) if len(some))])
            if len(broken := self._filter_tags(broken)):
                yield _reject_corrupt(broken, f"the body is compressed, and {reason}")
            if len(malformed):
                yield _reject_corrupt(malformed, "the body is marked as nested messages, but is malformed")
            if len(piece := self._filter_tags(piece)):
                yield self.columns.batch(piece, queue)
        return after

    def _filter_tags(self, stored: StoredMessages) -> StoredMessages:
        """Return the messages with the requested tags, because a broker compares hash codes only. Outer messages always pass."""
        requested = tags.parse_tags(self.tags)
        if requested is None or not len(stored):
            return stored
        from etl.columns.texts import materialize_array

        found = pc.is_in(materialize_array(property_texts(stored, TAGS)), value_set=pa.array(requested)).to_numpy(
            zero_copy_only=False
        )
        found |= is_nested(stored)
        return stored if found.all() else stored.at(found)


def _check_filter(connection: Connection, topic: str, group: str, condition: str) -> None:
    """Raise ComponentError if the broker does not support filters, or not this one: a broker sends all messages if it cannot
    parse the filter of a pull.
    """
    subscription = {"topic": topic, "subString": condition, "expressionType": SQL}
    body = json.dumps({"clientId": "sluice", "group": group, "subscriptionData": subscription}).encode()
    connection.call(CHECK_CLIENT_CONFIG, {}, body)


@cache
def _warn_of_unknown_type(address: str, topic: str) -> None:
    """Warn once a process."""
    log.warning(
        "rocketmq %s does not give the type of topic %r (may this user GET the topic?): if it is BatchCQ, filter misses messages "
        "that were sent in one request; then remove it, and use a step filter after the source",
        address,
        topic,
    )


def reject_lost(queue: Queue, what: LostRange, on_data_loss: OnDataLoss) -> Rejects:
    """Return a dead letter for lost messages; raises ComponentError with ``on_data_loss: fail``."""
    message = f"queue {queue.name}: messages from offset {what.begin} on are lost: {what.reason}"
    if on_data_loss == "fail":
        raise ComponentError(f"rocketmq: {message}; on_data_loss: earliest continues with the first message that exists")
    events = pa.record_batch([pa.array([""]), pa.array([what.begin], pa.int64())], names=["message", OFFSET_COLUMN])
    return Rejects(events, "data-lost", message)


def _blocks(found: Iterator[bytes | LostRange]) -> Iterator[bytes | LostRange]:
    """Join answers to blocks, because each batch has a fixed cost."""
    parts: list[bytes] = []
    size = 0
    for one in found:
        if parts and (isinstance(one, LostRange) or size >= BLOCK_BYTES):
            yield b"".join(parts)
            parts, size = [], 0
        if isinstance(one, LostRange):
            yield one
        elif one:
            parts.append(one)
            size += len(one)
    if parts:
        yield b"".join(parts)


def _reject_corrupt(broken: StoredMessages, reason: str) -> Rejects:
    events = pa.record_batch(
        [pa.array([""] * len(broken), pa.string()), pa.array(broken.parts[OFFSET])], names=["message", OFFSET_COLUMN]
    )
    return Rejects(events, "corrupt-body", reason)
