"""What is known of a cluster in this process: routes of topics, connections to brokers, offsets of queues."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from connectors.rocketmq.codes import AT_TIME, COMMIT, COMMITTED, DONE, LARGEST, NEVER_COMMITTED, NO_GROUP, SMALLEST
from connectors.rocketmq.connection import Access, Connection
from connectors.rocketmq.frames import Answer
from connectors.rocketmq.names import NameServers, UnknownTopicError
from connectors.rocketmq.routes import Queue, Route

ROUTE_SECONDS = 5.0
"""How long a route is believed by those who look for nothing new."""

_CLUSTERS = 16
"""Clusters that a process remembers, the last used ones."""

_known: dict[tuple[Access, int], Cluster] = {}


class Held(NamedTuple):
    """What a queue holds: offsets from ``smallest`` to ``largest``, which is that of the next message."""

    smallest: int
    largest: int
    master: bool = True
    """False when a replica says so, which may lag behind."""


Question = tuple[int, dict[str, str]]


def cluster(access: Access) -> Cluster:
    """The one of this process; a fork gets another, for two processes cannot share a socket."""
    key = access, os.getpid()
    known = _known.pop(key, None) or Cluster(access)
    _known[key] = known
    while len(_known) > _CLUSTERS:
        _known.pop(next(iter(_known))).close()  # it connects again when somebody still uses it
    return known


class Cluster:
    """Connections are made when they are needed, and made anew after an error."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.names = NameServers(access)
        self._routes: dict[str, tuple[float, Route]] = {}
        self._open: dict[str, tuple[Connection, bool]] = {}
        self._told: set[str] = set()

    def close(self) -> None:
        """Ends all connections."""
        self.names.close()
        while self._open:
            self._open.popitem()[1][0].close()

    def route(self, topic: str, seconds: float = ROUTE_SECONDS) -> Route:
        """Where a topic is; what is known is believed for some seconds."""
        known = self._routes.get(topic)
        if known is None or time.monotonic() - known[0] > seconds:
            found = self._asked_for(topic, known[1] if known else None)
            known = self._routes[topic] = (time.monotonic(), found)
        return known[1]

    def _asked_for(self, topic: str, before: Route | None) -> Route:
        """A topic's route; one that is gone together with its brokers may come back with them."""
        try:
            return self.names.route(topic)
        except UnknownTopicError as error:
            away = sorted(set(before.addresses) - self.names.brokers()) if before else []
            if away:
                raise ConnectionError(f"rocketmq: {', '.join(away)} with topic {topic!r} is not registered now") from error
            raise

    def forget_routes(self) -> None:
        """Ask again when a route is needed: something did not answer where it was."""
        self._routes = {topic: (-math.inf, route) for topic, (_, route) in self._routes.items()}

    def reader(self, queue: Queue) -> tuple[Connection, bool]:
        """A new connection to who has a queue's messages, the master if it is there; whether it is the master."""
        try:
            return self._reader(queue)
        except OSError:
            self.forget_routes()
            return self._reader(queue)

    def writer(self, queue: Queue) -> Connection:
        """A new connection to who takes a queue's messages."""
        route = self.route(queue.topic)
        if queue.broker not in route.masters:
            raise ConnectionError(f"rocketmq: broker {queue.broker!r} takes no messages of topic {queue.topic!r} now")
        return Connection(route.addresses[queue.broker][0], self.access)

    def _reader(self, queue: Queue) -> tuple[Connection, bool]:
        route = self.route(queue.topic)
        errors: list[OSError] = []
        for number, place in enumerate(route.addresses.get(queue.broker, ())):
            try:
                return Connection(place, self.access), number == 0 and queue.broker in route.masters
            except OSError as error:
                errors.append(error)
        if not errors:
            raise ConnectionError(f"rocketmq: no broker {queue.broker!r} is registered for topic {queue.topic!r} (now)")
        raise ConnectionError("; ".join(map(str, errors))) from errors[-1]

    def held(self, queues: Iterable[Queue]) -> dict[Queue, Held]:
        """What queues of one broker hold."""
        wanted = list(queues)
        codes = (SMALLEST, LARGEST)
        said = self._asked(wanted, [(code, _of(queue)) for queue in wanted for code in codes])
        numbers = [max(0, answer.number("offset")) for answer in said]  # -1: an empty queue of the type BatchCQ
        master = not wanted or self._open[wanted[0].broker][1]
        return {queue: Held(numbers[2 * at], numbers[2 * at + 1], master) for at, queue in enumerate(wanted)}

    def at_time(self, queues: Sequence[Queue], millis: int) -> dict[Queue, int]:
        """The first message that queues of one broker stored at a time or later."""
        asked = [(AT_TIME, {**_of(queue), "timestamp": str(millis), "boundaryType": "LOWER"}) for queue in queues]
        return {queue: answer.number("offset") for queue, answer in zip(queues, self._asked(queues, asked), strict=True)}

    def committed(self, queues: Sequence[Queue], group: str) -> dict[Queue, int | None]:
        """Where a consumer group stands in queues of one broker; None where it never committed."""
        asked = [(COMMITTED, {**_of(queue), "consumerGroup": group, "setZeroIfNotFound": "false"}) for queue in queues]
        said = self._asked(queues, asked, (DONE, NEVER_COMMITTED))
        found = [answer.number("offset") if answer.code == DONE else None for answer in said]
        return dict(zip(queues, found, strict=True))

    def commit(self, offsets: Mapping[Queue, int], group: str, introduce: Callable[[Connection, Queue], object]) -> None:
        """Say where a group stands in queues of one broker. A group that no broker knows is made by its first pull
        (``introduce``), where brokers allow that.

        The first queue is told alone: of several that are told at once for the first time, a broker of version 5.3 forgets
        some (``ConsumerOffsetManager.commitOffset`` makes a table for each, and keeps one).
        """
        queues = list(offsets)
        asked = [(COMMIT, {**_of(queue), "consumerGroup": group, "commitOffset": str(at)}) for queue, at in offsets.items()]
        (said,) = self._asked(queues[:1], asked[:1], (DONE, NO_GROUP))
        if said.code == NO_GROUP:
            with self._broker(queues[0]) as one:
                introduce(one, queues[0])
            self._asked(queues[:1], asked[:1])
        self._asked(queues[1:], asked[1:])

    def _asked(self, queues: Sequence[Queue], questions: Sequence[Question], fine: tuple[int, ...] = (DONE,)) -> list[Answer]:
        """Ask the broker of these queues all at once."""
        if not questions:
            return []
        with self._broker(queues[0]) as one:
            sent = [one.send(code, fields) for code, fields in questions]
            return [one.checked(one.receive(number), fine) for number in sent]

    @contextmanager
    def _broker(self, queue: Queue) -> Iterator[Connection]:
        """The connection that is kept for questions about a broker's queues; an error ends it."""
        known = self._open.get(queue.broker)
        if known is not None and known[0].stale:
            self._open.pop(queue.broker)[0].close()
        if queue.broker not in self._open:
            self._open[queue.broker] = self.reader(queue)
        try:
            yield self._open[queue.broker][0]
        except BaseException:
            self._open.pop(queue.broker)[0].close()
            self.forget_routes()
            raise

    def news(self, troubles: Iterable[str]) -> list[str]:
        """Those that were not told of before; one that is over will be told of when it comes again."""
        there = set(troubles)
        new, self._told = sorted(there - self._told), there
        return new


def by_broker(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    """Queues by who holds them."""
    found: dict[str, list[Queue]] = {}
    for queue in queues:
        found.setdefault(queue.broker, []).append(queue)
    return found


def _of(queue: Queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.number)}
