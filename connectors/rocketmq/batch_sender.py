"""Sends batches to queues: one request at a time to each queue, which keeps its order, and several queues in parallel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.rocketmq.message_encoding import EncodedMessages
from connectors.rocketmq.protocol.cluster import Cluster
from connectors.rocketmq.protocol.codes import SEND_BATCH_MESSAGE, SLAVE_NOT_AVAILABLE, SUCCESS, is_illegal, to_exception
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.protocol.routes import Queue

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MAX_PENDING = 4
"""Maximum number of requests in flight."""


class BatchPart(NamedTuple):
    """Rows of a batch for one request to one queue."""

    queue: Queue
    rows: Array


class SendResult(NamedTuple):
    """The result of sending a part of a batch."""

    part: BatchPart
    cause: str = ""
    """Why it was not stored; empty if it was."""

    is_permanent: bool = False
    """Whether the broker will never accept the request."""

    is_skipped: bool = False
    """Whether it was not sent because the broker refused an earlier part for its queue permanently."""


class Sender:
    """Connections of a writer to brokers."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._open: dict[str, Connection] = {}
        self._pending: dict[Queue, tuple[BatchPart, Connection, int]] = {}

    def close(self) -> None:
        """Close all connections."""
        self._pending.clear()
        while self._open:
            self._open.popitem()[1].close()

    def send(self, parts: list[BatchPart], messages: EncodedMessages) -> Iterator[SendResult]:
        """Send all parts; after a failed part, later ones of its queue are not sent. Raises ComponentError."""
        failed: dict[Queue, SendResult] = {}
        for part in parts:
            while part.queue in self._pending or len(self._pending) >= _MAX_PENDING:
                yield self._receive(part.queue if part.queue in self._pending else next(iter(self._pending)), failed)
            before = failed.get(part.queue)
            if before is not None:
                yield SendResult(part, before.cause, is_skipped=before.is_permanent)
            elif problem := self._send_part(part, messages):
                failed[part.queue] = SendResult(part, problem)
                yield failed[part.queue]
        while self._pending:
            yield self._receive(next(iter(self._pending)), failed)

    def _send_part(self, part: BatchPart, messages: EncodedMessages) -> str:
        try:
            connection = self._connection(part.queue)
            body = messages.concatenate(part.rows)
            self._pending[part.queue] = part, connection, connection.send(SEND_BATCH_MESSAGE, self._fields(part.queue), body)
        except OSError as error:
            self._close_connection(part.queue)
            return str(error)
        return ""

    def _receive(self, queue: Queue, failed: dict[Queue, SendResult]) -> SendResult:
        part, connection, number = self._pending.pop(queue)
        outcome = self._outcome(part, connection, number)
        if outcome.cause:
            failed[queue] = outcome
            self._cluster.invalidate_routes()
        return outcome

    def _outcome(self, part: BatchPart, connection: Connection, number: int) -> SendResult:
        try:
            answer = connection.receive(number)
        except OSError as error:
            self._close_connection(part.queue)
            return SendResult(part, str(error))
        except ValueError:  # closed after an error of an earlier answer
            return SendResult(part, f"rocketmq {connection.address}: the connection was lost")
        if answer.code in (SUCCESS, SLAVE_NOT_AVAILABLE):
            return SendResult(part)
        problem, is_permanent = to_exception(f"rocketmq {connection.address}", answer), is_illegal(answer)
        if not (is_permanent or isinstance(problem, OSError)):
            raise problem
        return SendResult(part, str(problem), is_permanent)

    def _connection(self, queue: Queue) -> Connection:
        known = self._open.get(queue.broker)
        if known is not None and known.is_stale and not self._pending:
            self._close_connection(queue)
        if queue.broker not in self._open:
            self._open[queue.broker] = self._cluster.writer(queue)
        return self._open[queue.broker]

    def _close_connection(self, queue: Queue) -> None:
        self._cluster.invalidate_routes()
        if queue.broker in self._open:
            self._open.pop(queue.broker).close()

    def _fields(self, queue: Queue) -> dict[str, str]:
        """Return the fields, with the short names of ``SendMessageRequestHeaderV2``."""
        born = str(int(time.time() * 1000))
        named = {"a": self._group, "b": queue.topic, "c": "TBW102", "d": "4", "e": str(queue.number), "g": born, "i": ""}
        return {**named, "f": "0", "h": "0", "j": "0", "k": "false", "m": "true"}
