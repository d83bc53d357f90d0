"""Pulls a range of a queue: several requests are in flight, answers are returned in order.

The broker decides how many messages an answer holds (by default at most 32, 8 from disk, and a maximum of bytes), so the
number of messages to request is adapted. Memory: `MAX_PENDING` answers of at most 256 KiB by a broker's own limits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from connectors.rocketmq.protocol.codes import (
    PULL_MESSAGE,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY,
    SUCCESS,
    BusyError,
    to_exception,
)
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.protocol.frames import Response
from connectors.rocketmq.protocol.routes import Queue

MAX_PENDING = 8
"""Maximum number of requests in flight."""

MAX_PULL_MESSAGES = 1024
"""Maximum number of messages of a request."""

_FULL_ANSWERS_BEFORE_GROWTH = 64
"""After this many full answers in a row, the number of requested messages doubles."""

_HAS_SUBSCRIPTION = 4
"""Bit of ``sysFlag``: the request contains its subscription."""


TAG, SQL = "TAG", "SQL92"
"""Types of filter expressions."""


class LostRange(NamedTuple):
    """Offsets that the broker no longer has."""

    begin: int
    end: int
    reason: str


def pull_fields(queue: Queue, group: str, expression: str, kind: str = TAG) -> dict[str, str]:
    """Return the fields that all pulls of a queue share; ``expression`` selects messages, ``kind`` is its type."""
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.number),
        "sysFlag": str(_HAS_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": expression,
        "subVersion": "0",
        "expressionType": kind,
    }


class Puller:
    """Pulls from one queue over a connection of its own."""

    def __init__(self, connection: Connection, queue: Queue, fields: dict[str, str], master: bool = True) -> None:
        self._connection, self._queue, self._fields, self._master = connection, queue, fields, master
        self._pull_messages, self._full_answers, self._max_pending = MAX_PULL_MESSAGES, 0, 1

    def pull(self, start: int, end: int) -> Iterator[bytes | LostRange]:
        """Yield messages from ``start`` to ``end`` in the broker's format, in order. An answer may also contain earlier
        messages, and messages after the end.
        """
        todo = [(start, end)]
        pending: list[tuple[int, int, int]] = []
        at = start
        while at < end:
            while todo and (len(pending) < self._max_pending or todo[0] < pending[0][:2]):
                self._send_pull(todo, pending)
            begin, pull_end, number = heapq.heappop(pending)
            answer = self._connection.receive(number)
            if pull_end <= at:
                continue
            found, after = self._interpret(answer, begin, end)
            yield found
            at = max(at, after)
            self._adapt(after - begin, pull_end - begin)
            if at < pull_end:
                heapq.heappush(todo, (at, pull_end))

    def _send_pull(self, todo: list[tuple[int, int]], pending: list[tuple[int, int, int]]) -> None:
        begin, end = heapq.heappop(todo)
        pull_end = min(begin + self._pull_messages, end)
        fields = {**self._fields, "queueOffset": str(begin), "maxMsgNums": str(pull_end - begin)}
        heapq.heappush(pending, (begin, pull_end, self._connection.send(PULL_MESSAGE, fields)))
        if pull_end < end:
            heapq.heappush(todo, (pull_end, end))

    def _adapt(self, received: int, requested: int) -> None:
        self._max_pending = MAX_PENDING
        if received < requested:
            self._pull_messages, self._full_answers = max(1, received), 0
            return
        self._full_answers += 1
        if self._full_answers >= _FULL_ANSWERS_BEFORE_GROWTH:
            self._pull_messages, self._full_answers = min(2 * self._pull_messages, MAX_PULL_MESSAGES), 0

    def _interpret(self, answer: Response, begin: int, end: int) -> tuple[bytes | LostRange, int]:
        """Return the content of an answer, and the offset of the next message."""
        if answer.code in (SUCCESS, PULL_RETRY):
            after = answer.number("nextBeginOffset")
            if after <= begin:
                raise BusyError(
                    f"rocketmq {self._connection.address}: queue {self._queue.name} does not advance from offset {begin}"
                )
            return answer.body if answer.code == SUCCESS else b"", after
        if answer.code in (PULL_OFFSET_MOVED, PULL_NOT_FOUND):
            lost = self._find_loss(answer, begin, end)
            return lost, lost.end
        raise to_exception(f"rocketmq {self._connection.address}", answer)

    def _find_loss(self, answer: Response, begin: int, end: int) -> LostRange:
        """Return the offsets that existed when the split was planned, and no longer exist."""
        smallest, largest = answer.number("minOffset"), answer.number("maxOffset")
        if begin < smallest:
            return LostRange(begin, min(smallest, end), f"the broker has deleted the messages before offset {smallest}")
        if largest <= begin and self._master:
            return LostRange(
                begin, end, f"the queue ends at offset {largest}: its topic was created again, or its broker lost messages"
            )
        raise BusyError(f"rocketmq {self._connection.address}: queue {self._queue.name} does not deliver offset {begin} now")
