"""Sending batches to queues: one request at a time to each, so that a queue keeps the order, and several queues side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.rocketmq.cluster import Cluster
from connectors.rocketmq.codes import DONE, NO_SLAVE, SEND_BATCH, failure, is_illegal
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.messages import Messages
from connectors.rocketmq.routes import Queue

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_AT_ONCE = 4
"""Requests under way."""


class Part(NamedTuple):
    """Rows of a batch that go to one queue with one request."""

    queue: Queue
    rows: Array


class Outcome(NamedTuple):
    """What became of a part."""

    part: Part
    cause: str = ""
    """Why it was not stored."""

    illegal: bool = False
    """Whether the broker will never take it as it is."""

    behind: bool = False
    """Whether it was not sent, for an illegal one of its queue came first."""


class Sender:
    """Connections of a writer to brokers."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._open: dict[str, Connection] = {}
        self._waiting: dict[Queue, tuple[Part, Connection, int]] = {}

    def close(self) -> None:
        """Ends all connections."""
        self._waiting.clear()
        while self._open:
            self._open.popitem()[1].close()

    def send(self, parts: list[Part], messages: Messages) -> Iterator[Outcome]:
        """Send them all; after a part that failed, later ones of its queue are not sent. Raises ComponentError."""
        failed: dict[Queue, Outcome] = {}
        for part in parts:
            while part.queue in self._waiting or len(self._waiting) >= _AT_ONCE:
                yield self._answered(part.queue if part.queue in self._waiting else next(iter(self._waiting)), failed)
            before = failed.get(part.queue)
            if before is not None:
                yield Outcome(part, before.cause, behind=before.illegal)
            elif trouble := self._ask(part, messages):
                failed[part.queue] = Outcome(part, trouble)
                yield failed[part.queue]
        while self._waiting:
            yield self._answered(next(iter(self._waiting)), failed)

    def _ask(self, part: Part, messages: Messages) -> str:
        try:
            connection = self._connection(part.queue)
            body = messages.joined(part.rows)
            self._waiting[part.queue] = part, connection, connection.send(SEND_BATCH, self._fields(part.queue), body)
        except OSError as error:
            self._drop(part.queue)
            return str(error)
        return ""

    def _answered(self, queue: Queue, failed: dict[Queue, Outcome]) -> Outcome:
        part, connection, number = self._waiting.pop(queue)
        outcome = self._outcome(part, connection, number)
        if outcome.cause:
            failed[queue] = outcome
            self._cluster.forget_routes()
        return outcome

    def _outcome(self, part: Part, connection: Connection, number: int) -> Outcome:
        try:
            answer = connection.receive(number)
        except OSError as error:
            self._drop(part.queue)
            return Outcome(part, str(error))
        except ValueError:  # an error of an earlier answer closed the connection
            return Outcome(part, f"rocketmq {connection.place}: the connection was lost")
        if answer.code in (DONE, NO_SLAVE):
            return Outcome(part)
        trouble, illegal = failure(f"rocketmq {connection.place}", answer), is_illegal(answer)
        if not (illegal or isinstance(trouble, OSError)):
            raise trouble
        return Outcome(part, str(trouble), illegal)

    def _connection(self, queue: Queue) -> Connection:
        known = self._open.get(queue.broker)
        if known is not None and known.stale and not self._waiting:
            self._drop(queue)
        if queue.broker not in self._open:
            self._open[queue.broker] = self._cluster.writer(queue)
        return self._open[queue.broker]

    def _drop(self, queue: Queue) -> None:
        self._cluster.forget_routes()
        if queue.broker in self._open:
            self._open.pop(queue.broker).close()

    def _fields(self, queue: Queue) -> dict[str, str]:
        """The short names of ``SendMessageRequestHeaderV2``."""
        born = str(int(time.time() * 1000))
        named = {"a": self._group, "b": queue.topic, "c": "TBW102", "d": "4", "e": str(queue.number), "g": born, "i": ""}
        return {**named, "f": "0", "h": "0", "j": "0", "k": "false", "m": "true"}
