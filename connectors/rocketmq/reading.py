"""Reading a split: answers of a broker are gathered into blocks, and become batches of events."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from connectors.rocketmq import tags
from connectors.rocketmq.cluster import Cluster
from connectors.rocketmq.columns import TAGS, Columns, property_texts
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.filters import check_filter
from connectors.rocketmq.nested import is_nested, is_nesting, opened
from connectors.rocketmq.pulling import SQL, TAG, Lost, Puller, pull_fields
from connectors.rocketmq.routes import Queue
from connectors.rocketmq.stored import OFFSET, Stored
from etl.api import OFFSET as OFFSET_COLUMN
from etl.api import ComponentError, Rejects

log = logging.getLogger("sluice.source.rocketmq")

BLOCK = 4 << 20
"""Bytes of messages that make a batch, as they are stored."""

OnDataLoss = Literal["fail", "earliest"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages are read."""

    columns: Columns
    group: str
    tags: str
    filter: str | None
    on_data_loss: OnDataLoss

    def batches(self, cluster: Cluster, queue: Queue, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """The events of a range of a queue, and a dead letter for what is no longer there."""
        connection, master = cluster.reader(queue)
        try:
            puller = Puller(connection, queue, pull_fields(queue, self.group, *self._asked(connection, queue)), master)
            yield from self._events(puller.bodies(start, end), queue, start, end)
        finally:
            connection.close()

    def _asked(self, connection: Connection, queue: Queue) -> tuple[str, str]:
        """Which messages the broker is asked for: of batches it sees neither tags nor properties."""
        if self.filter is None and self.tags == tags.ALL:
            return tags.ALL, TAG
        nesting = is_nesting(connection, queue.topic)
        if self.filter is None:
            return tags.subscription(self.tags) if nesting is False else tags.ALL, TAG
        if nesting is None:
            _warn_of_unseen(connection.place, queue.topic)
        if nesting:
            raise ComponentError(
                f"rocketmq: topic {queue.topic!r} is of the type BatchCQ, of whose messages brokers do not see the "
                "properties; leave filter out, and filter behind the source"
            )
        check_filter(connection, queue.topic, self.group, self.filter)
        return self.filter, SQL

    def _events(self, found: Iterator[bytes | Lost], queue: Queue, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        after = start - 1
        for block in _blocks(found):
            if isinstance(block, Lost):
                yield lost(queue, block, self.on_data_loss)
                continue
            stored = Stored.located(block, after, end)
            if len(stored):
                after = yield from self._batch(stored, queue, after, end)

    def _batch(self, stored: Stored, queue: Queue, after: int, end: int) -> Generator[pa.RecordBatch | Rejects, None, int]:
        """What becomes of some messages; returns the last offset among them."""
        for piece, broken, reason in stored.plain():
            piece, strange = opened(piece, after, end)
            broken = broken.at(broken.parts[OFFSET] > after)
            after = max([after, *(int(some.parts[OFFSET, -1]) for some in (piece, broken, strange) if len(some))])
            if len(broken := self._tagged(broken)):
                yield _unreadable(broken, f"the body is compressed, and {reason}")
            if len(strange):
                yield _unreadable(strange, "the body is said to be messages, and is none")
            if len(piece := self._tagged(piece)):
                yield self.columns.batch(piece, queue)
        return after

    def _tagged(self, stored: Stored) -> Stored:
        """Messages with the wanted tags: a broker has looked at hash codes only. Those that hold others have no say."""
        wanted = tags.wanted(self.tags)
        if wanted is None or not len(stored):
            return stored
        from etl.columns.texts import owned_array

        found = pc.is_in(owned_array(property_texts(stored, TAGS)), value_set=pa.array(wanted)).to_numpy(zero_copy_only=False)
        found |= is_nested(stored)
        return stored if found.all() else stored.at(found)


@cache
def _warn_of_unseen(place: str, topic: str) -> None:
    """Once a process."""
    log.warning(
        "rocketmq %s does not tell the type of topic %r (may this user GET the topic?): if it is BatchCQ, filter misses messages "
        "that were sent at once; then leave it out, and filter behind the source",
        place,
        topic,
    )


def lost(queue: Queue, what: Lost, on_data_loss: OnDataLoss) -> Rejects:
    """A dead letter that tells of messages that cannot be had; an error where that is not to be."""
    said = f"queue {queue.name}: messages from offset {what.begin} on are lost: {what.reason}"
    if on_data_loss == "fail":
        raise ComponentError(f"rocketmq: {said}; on_data_loss: earliest goes on with what is there")
    events = pa.record_batch([pa.array([""]), pa.array([what.begin], pa.int64())], names=["message", OFFSET_COLUMN])
    return Rejects(events, "data-lost", said)


def _blocks(found: Iterator[bytes | Lost]) -> Iterator[bytes | Lost]:
    """Answers joined, for every batch has its price further on."""
    held: list[bytes] = []
    size = 0
    for one in found:
        if held and (isinstance(one, Lost) or size >= BLOCK):
            yield b"".join(held)
            held, size = [], 0
        if isinstance(one, Lost):
            yield one
        elif one:
            held.append(one)
            size += len(one)
    if held:
        yield b"".join(held)


def _unreadable(broken: Stored, reason: str) -> Rejects:
    events = pa.record_batch(
        [pa.array([""] * len(broken), pa.string()), pa.array(broken.parts[OFFSET])], names=["message", OFFSET_COLUMN]
    )
    return Rejects(events, "corrupt-body", reason)
