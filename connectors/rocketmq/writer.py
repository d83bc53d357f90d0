"""Writer of the sink: a batch of events becomes requests of bounded size, each to one queue."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.rocketmq.batch_sender import BatchPart, Sender, SendResult
from connectors.rocketmq.message_encoding import MAX_PROPERTIES_BYTES, EncodedMessages, MessageEncoding
from connectors.rocketmq.protocol.cluster import Cluster
from connectors.rocketmq.protocol.routes import Queue
from etl.api import Rejects, Result, Staged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

REQUEST_BYTES = 1 << 20
"""Target size of a request, in bytes; a request ends before it would exceed this."""

MAX_REQUEST_BYTES = 4 << 20
"""Largest request that brokers accept by default, in bytes; also the limit of a message."""


class TopicWriter:
    """Writes to the queues of one topic."""

    def __init__(
        self, cluster: Cluster, topic: str, encoding: MessageEncoding, queue_field: str | None, group: str, split: str
    ) -> None:
        self._cluster, self._topic, self._encoding, self._queue_field = cluster, topic, encoding, queue_field
        self._sender = Sender(cluster, group)
        self._turn = zlib.crc32(split.encode())

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the encoded bytes of each message."""
        return pa.array(self._encoding.encode(batch).sizes)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the events of a batch; the result names rows that were not stored."""
        import numpy as np

        messages = self._encoding.encode(batch)
        rejected, good = _reject_unsendable(batch, messages)
        queues = self._cluster.find_route(self._topic).writable
        if not queues:
            raise ConnectionError(f"rocketmq: no broker accepts messages of topic {self._topic!r} now")
        retryable: list[Array] = []
        cause = ""
        todo = list(self._parts(batch, messages.sizes, good, queues))
        while todo:
            outcomes = list(self._sender.send(todo, messages))
            todo = [part for one in outcomes for part in _parts_to_resend(one)]
            rejected += [_reject_refused(batch, one) for one in outcomes if one.is_permanent and len(one.part.rows) == 1]
            retryable += [one.part.rows for one in outcomes if one.cause and not (one.is_permanent or one.is_skipped)]
            cause = next((one.cause for one in outcomes if one.cause), cause)
        left = pa.array(np.sort(np.concatenate(retryable))) if retryable else None
        return Result(left, rejected, cause)

    def close(self) -> Staged | None:
        """Close connections; all events are stored."""
        self._sender.close()
        return None

    def abort(self) -> None:
        """Close connections; events already stored stay."""
        self._sender.close()

    def _parts(self, batch: pa.RecordBatch, sizes: Array, rows: Array, queues: tuple[Queue, ...]) -> Iterator[BatchPart]:
        """Divide rows into requests: to all queues in turn, or to the queue of each row's key."""
        import numpy as np

        if self._queue_field is None:
            for part in _cut_to_requests(rows, sizes):
                yield BatchPart(self._next_queue(queues), part)
            return
        chosen = _choose_queues(batch.column(self._queue_field), len(queues), queues.index(self._next_queue(queues)))[rows]
        order = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[order], np.arange(len(queues) + 1))
        for number, queue in enumerate(queues):
            for part in _cut_to_requests(rows[order[bounds[number] : bounds[number + 1]]], sizes):
                yield BatchPart(queue, part)

    def _next_queue(self, queues: tuple[Queue, ...]) -> Queue:
        self._turn += 1
        return queues[self._turn % len(queues)]


def _choose_queues(column: pa.Array, count: int, otherwise: int) -> Array:
    """Return the queue number of each event; null keys go to ``otherwise``."""
    import numpy as np

    from connectors.rocketmq.java_hash_kernel import hash_codes
    from etl.columns.texts import Texts

    texts = Texts.of(column if column.type == pa.string() else pc.cast(column, pa.string()))
    codes = np.empty(len(column), np.int32)
    hash_codes(texts.address, texts.length, codes)
    return np.where(texts.length < 0, otherwise, np.abs(np.fmod(codes.astype(np.int64), count)))


def _cut_to_requests(rows: Array, sizes: Array) -> Iterator[Array]:
    """Cut rows where a request would exceed its size."""
    import numpy as np

    ends = np.cumsum(sizes[rows])
    first, base = 0, 0
    while first < len(rows):
        last = max(first + 1, int(np.searchsorted(ends, base + REQUEST_BYTES, "right")))
        yield rows[first:last]
        first, base = last, int(ends[last - 1])


def _parts_to_resend(outcome: SendResult) -> list[BatchPart]:
    """Return parts to send at once: halves of a permanently refused request, to find the refused event, and parts that were
    skipped.
    """
    rows = outcome.part.rows
    if outcome.is_permanent and len(rows) > 1:
        return [outcome.part._replace(rows=half) for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :])]
    return [outcome.part] if outcome.is_skipped else []


def _reject_unsendable(batch: pa.RecordBatch, messages: EncodedMessages) -> tuple[list[Rejects], Array]:
    """Return rejects for events that no broker accepts, and the rows of the others."""
    import numpy as np

    sizes = messages.sizes
    faults = [
        (messages.bodies.length < 0, "null-body", "the body field is null"),
        (
            messages.properties.length > MAX_PROPERTIES_BYTES,
            "properties-too-long",
            "keys, tag and properties are longer than 32 KiB",
        ),
        (sizes > MAX_REQUEST_BYTES, "event-too-large", f"more than {MAX_REQUEST_BYTES} bytes encoded, the limit of brokers"),
    ]
    left, rejected = np.ones(len(sizes), bool), []
    for found, code, reason in faults:
        found &= left
        if found.any():
            rejected.append(Rejects(batch.filter(pa.array(found)), code, reason))
            left &= ~found
    return rejected, np.flatnonzero(left)


def _reject_refused(batch: pa.RecordBatch, outcome: SendResult) -> Rejects:
    return Rejects(batch.take(pa.array(outcome.part.rows)), "rocketmq-rejected", outcome.cause)
