"""Pulling a range of a queue: requests for its parts are under way at the same time, and answers are given in order.

How many messages an answer holds is the broker's affair (32 at most, 8 from its disk, unless it is told otherwise, and as many
bytes), so the length of the parts is learned. Memory: `DEPTH` answers, of 256 KiB at most by a broker's own limits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from connectors.rocketmq.codes import DONE, NOTHING_MATCHED, NOTHING_THERE, OUT_OF_RANGE, PULL, BusyError, failure
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.frames import Answer
from connectors.rocketmq.routes import Queue

DEPTH = 8
"""Requests under way."""

WIDEST = 1024
"""Most messages that are asked for at once."""

_STEADY = 64
"""After so many full answers in a row, the next part is twice as long, to see whether the broker gives as much."""

_SUBSCRIBED = 4
"""The bit of ``sysFlag`` that says that a request brings its subscription."""


TAG, SQL = "TAG", "SQL92"
"""Kinds of expressions."""


class Lost(NamedTuple):
    """Offsets that the broker no longer has, or does not have any more."""

    begin: int
    end: int
    reason: str


def pull_fields(queue: Queue, group: str, expression: str, kind: str = TAG) -> dict[str, str]:
    """What is the same in all pulls of a queue; ``expression`` says which messages, as its ``kind`` is read."""
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.number),
        "sysFlag": str(_SUBSCRIBED),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": expression,
        "subVersion": "0",
        "expressionType": kind,
    }


class Puller:
    """Pulls from one queue over one connection, which is its own."""

    def __init__(self, connection: Connection, queue: Queue, fields: dict[str, str], master: bool = True) -> None:
        self._connection, self._queue, self._fields, self._master = connection, queue, fields, master
        self._width, self._full, self._depth = WIDEST, 0, 1

    def bodies(self, start: int, end: int) -> Iterator[bytes | Lost]:
        """Messages from ``start`` to ``end`` as the broker stores them, in order; where some are asked for, an answer may
        bring some that came before, or lie behind the end."""
        todo = [(start, end)]
        waiting: list[tuple[int, int, int]] = []
        at = start
        while at < end:
            while todo and (len(waiting) < self._depth or todo[0] < waiting[0][:2]):
                self._ask(todo, waiting)
            begin, behind, number = heapq.heappop(waiting)
            answer = self._connection.receive(number)
            if behind <= at:
                continue
            found, after = self._read(answer, begin, end)
            yield found
            at = max(at, after)
            self._learn(after - begin, behind - begin)
            if at < behind:
                heapq.heappush(todo, (at, behind))

    def _ask(self, todo: list[tuple[int, int]], waiting: list[tuple[int, int, int]]) -> None:
        begin, end = heapq.heappop(todo)
        behind = min(begin + self._width, end)
        fields = {**self._fields, "queueOffset": str(begin), "maxMsgNums": str(behind - begin)}
        heapq.heappush(waiting, (begin, behind, self._connection.send(PULL, fields)))
        if behind < end:
            heapq.heappush(todo, (behind, end))

    def _learn(self, got: int, asked: int) -> None:
        self._depth = DEPTH
        if got < asked:
            self._width, self._full = max(1, got), 0
            return
        self._full += 1
        if self._full >= _STEADY:
            self._width, self._full = min(2 * self._width, WIDEST), 0

    def _read(self, answer: Answer, begin: int, end: int) -> tuple[bytes | Lost, int]:
        """What an answer brings, and where the next message is."""
        if answer.code in (DONE, NOTHING_MATCHED):
            after = answer.number("nextBeginOffset")
            if after <= begin:
                raise BusyError(f"rocketmq {self._connection.place}: queue {self._queue.name} is stuck at {begin}")
            return answer.body if answer.code == DONE else b"", after
        if answer.code in (OUT_OF_RANGE, NOTHING_THERE):
            lost = self._lost(answer, begin, end)
            return lost, lost.end
        raise failure(f"rocketmq {self._connection.place}", answer)

    def _lost(self, answer: Answer, begin: int, end: int) -> Lost:
        """Offsets that were there when the split was planned, and are not now."""
        smallest, largest = answer.number("minOffset"), answer.number("maxOffset")
        if begin < smallest:
            return Lost(begin, min(smallest, end), f"the broker has deleted what lies before offset {smallest}")
        if largest <= begin and self._master:
            return Lost(begin, end, f"the queue ends at offset {largest}: its topic was made anew, or its broker lost messages")
        raise BusyError(f"rocketmq {self._connection.place}: queue {self._queue.name} does not give offset {begin} now")
