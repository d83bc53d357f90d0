"""The writer of the sink: a batch of events becomes requests of bounded size, each to one queue."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.rocketmq.cluster import Cluster
from connectors.rocketmq.messages import LONGEST_PROPERTIES, Form, Messages
from connectors.rocketmq.routes import Queue
from connectors.rocketmq.sending import Outcome, Part, Sender
from etl.api import Rejects, Result, Staged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

REQUEST_BYTES = 1 << 20
"""Where a request ends that would grow."""

LARGEST = 4 << 20
"""Bytes of the largest request that brokers take, unless told otherwise; a message is one of them or smaller."""


class TopicWriter:
    """Writes to the queues of one topic."""

    def __init__(self, cluster: Cluster, topic: str, form: Form, queue_field: str | None, group: str, split: str) -> None:
        self._cluster, self._topic, self._form, self._queue_field = cluster, topic, form, queue_field
        self._sender = Sender(cluster, group)
        self._turn = zlib.crc32(split.encode())

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Bytes of each message."""
        return pa.array(self._form.messages(batch).sizes)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the messages of a batch, and say which were not stored."""
        import numpy as np

        messages = self._form.messages(batch)
        rejected, good = _impossible(batch, messages)
        queues = self._cluster.route(self._topic).writable
        if not queues:
            raise ConnectionError(f"rocketmq: no broker takes messages of topic {self._topic!r} now")
        retryable: list[Array] = []
        cause = ""
        todo = list(self._parts(batch, messages.sizes, good, queues))
        while todo:
            outcomes = list(self._sender.send(todo, messages))
            todo = [part for one in outcomes for part in _again(one)]
            rejected += [_refused(batch, one) for one in outcomes if one.illegal and len(one.part.rows) == 1]
            retryable += [one.part.rows for one in outcomes if one.cause and not (one.illegal or one.behind)]
            cause = next((one.cause for one in outcomes if one.cause), cause)
        left = pa.array(np.sort(np.concatenate(retryable))) if retryable else None
        return Result(left, rejected, cause)

    def close(self) -> Staged | None:
        """All has been stored."""
        self._sender.close()
        return None

    def abort(self) -> None:
        """What was stored stays."""
        self._sender.close()

    def _parts(self, batch: pa.RecordBatch, sizes: Array, rows: Array, queues: tuple[Queue, ...]) -> Iterator[Part]:
        """Rows cut into requests: in turn to all queues, or each to the queue of its key."""
        import numpy as np

        if self._queue_field is None:
            for part in _pieces(rows, sizes):
                yield Part(self._next(queues), part)
            return
        chosen = _chosen(batch.column(self._queue_field), len(queues), queues.index(self._next(queues)))[rows]
        order = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[order], np.arange(len(queues) + 1))
        for number, queue in enumerate(queues):
            for part in _pieces(rows[order[bounds[number] : bounds[number + 1]]], sizes):
                yield Part(queue, part)

    def _next(self, queues: tuple[Queue, ...]) -> Queue:
        self._turn += 1
        return queues[self._turn % len(queues)]


def _chosen(column: pa.Array, count: int, otherwise: int) -> Array:
    """The number of each event's queue; null goes to any."""
    import numpy as np

    from connectors.rocketmq.hashing import hash_codes
    from etl.columns.texts import Texts

    texts = Texts.of(column if column.type == pa.string() else pc.cast(column, pa.string()))
    codes = np.empty(len(column), np.int32)
    hash_codes(texts.address, texts.length, codes)
    return np.where(texts.length < 0, otherwise, np.abs(np.fmod(codes.astype(np.int64), count)))


def _pieces(rows: Array, sizes: Array) -> Iterator[Array]:
    """Rows cut where a request would grow beyond its size."""
    import numpy as np

    ends = np.cumsum(sizes[rows])
    first, base = 0, 0
    while first < len(rows):
        last = max(first + 1, int(np.searchsorted(ends, base + REQUEST_BYTES, "right")))
        yield rows[first:last]
        first, base = last, int(ends[last - 1])


def _again(outcome: Outcome) -> list[Part]:
    """What is sent at once: a request that the broker refused, cut in two to find out what it does not like, and what was to
    follow it."""
    rows = outcome.part.rows
    if outcome.illegal and len(rows) > 1:
        return [outcome.part._replace(rows=half) for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :])]
    return [outcome.part] if outcome.behind else []


def _impossible(batch: pa.RecordBatch, messages: Messages) -> tuple[list[Rejects], Array]:
    """Events that no broker takes; the rows of the others."""
    import numpy as np

    sizes = messages.sizes
    faults = [
        (messages.bodies.length < 0, "null-body", "the field that is the body is null"),
        (messages.properties.length > LONGEST_PROPERTIES, "properties-too-long", "keys, tag and properties have 32 KiB at most"),
        (sizes > LARGEST, "event-too-large", f"more than {LARGEST} bytes encoded, which is all that brokers take"),
    ]
    left, rejected = np.ones(len(sizes), bool), []
    for found, code, reason in faults:
        found &= left
        if found.any():
            rejected.append(Rejects(batch.filter(pa.array(found)), code, reason))
            left &= ~found
    return rejected, np.flatnonzero(left)


def _refused(batch: pa.RecordBatch, outcome: Outcome) -> Rejects:
    return Rejects(batch.take(pa.array(outcome.part.rows)), "rocketmq-rejected", outcome.cause)
