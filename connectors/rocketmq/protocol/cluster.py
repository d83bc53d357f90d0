"""What this process knows of a cluster: routes of topics, connections to brokers, offsets of queues."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from connectors.rocketmq.protocol.codes import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    GROUP_NOT_EXIST,
    QUERY_CONSUMER_OFFSET,
    QUERY_NOT_FOUND,
    SEARCH_OFFSET_BY_TIMESTAMP,
    SUCCESS,
    UPDATE_CONSUMER_OFFSET,
)
from connectors.rocketmq.protocol.connection import Connection, ConnectionSettings
from connectors.rocketmq.protocol.frames import Response
from connectors.rocketmq.protocol.name_servers import NameServers, UnknownTopicError
from connectors.rocketmq.protocol.routes import Queue, Route

ROUTE_SECONDS = 5.0
"""How long a cached route is used, unless the caller searches for new queues."""

_MAX_CLUSTERS = 16
"""Maximum number of clusters that a process caches, the last used ones."""

_clusters: dict[tuple[ConnectionSettings, int], Cluster] = {}


class OffsetBounds(NamedTuple):
    """Offsets of a queue: ``smallest`` is that of the first message, ``largest`` that of the next message to be stored."""

    smallest: int
    largest: int
    master: bool = True
    """False if a replica gave the bounds, which may lag behind the master."""


Request = tuple[int, dict[str, str]]


def cluster(settings: ConnectionSettings) -> Cluster:
    """Return the cluster object of this process. A fork gets its own: two processes cannot share a socket."""
    key = settings, os.getpid()
    known = _clusters.pop(key, None) or Cluster(settings)
    _clusters[key] = known
    while len(_clusters) > _MAX_CLUSTERS:
        _clusters.pop(next(iter(_clusters))).close()  # it reconnects if it is still in use
    return known


class Cluster:
    """Requests to a cluster. Connections are opened on demand, and reopened after an error."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.names = NameServers(settings)
        self._routes: dict[str, tuple[float, Route]] = {}
        self._open: dict[str, tuple[Connection, bool]] = {}
        self._reported: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        self.names.close()
        while self._open:
            self._open.popitem()[1][0].close()

    def find_route(self, topic: str, seconds: float = ROUTE_SECONDS) -> Route:
        """Return the route of a topic; a cached one is used for ``seconds``."""
        known = self._routes.get(topic)
        if known is None or time.monotonic() - known[0] > seconds:
            found = self._fetch_route(topic, known[1] if known else None)
            known = self._routes[topic] = (time.monotonic(), found)
        return known[1]

    def _fetch_route(self, topic: str, before: Route | None) -> Route:
        """Fetch a topic's route. Raises ConnectionError if the topic disappeared together with its brokers, which may return."""
        try:
            return self.names.find_route(topic)
        except UnknownTopicError as error:
            missing = sorted(set(before.addresses) - self.names.fetch_brokers()) if before else []
            if missing:
                raise ConnectionError(f"rocketmq: {', '.join(missing)} with topic {topic!r} is not registered now") from error
            raise

    def invalidate_routes(self) -> None:
        """Fetch routes again at the next use, because a server did not answer at its known address."""
        self._routes = {topic: (-math.inf, route) for topic, (_, route) in self._routes.items()}

    def reader(self, queue: Queue) -> tuple[Connection, bool]:
        """Open a connection for reading a queue, to the master if it is up; also return whether it is the master."""
        try:
            return self._reader(queue)
        except OSError:
            self.invalidate_routes()
            return self._reader(queue)

    def writer(self, queue: Queue) -> Connection:
        """Open a connection to the broker that accepts a queue's messages."""
        route = self.find_route(queue.topic)
        if queue.broker not in route.masters:
            raise ConnectionError(f"rocketmq: broker {queue.broker!r} takes no messages of topic {queue.topic!r} now")
        return Connection(route.addresses[queue.broker][0], self.settings)

    def _reader(self, queue: Queue) -> tuple[Connection, bool]:
        route = self.find_route(queue.topic)
        errors: list[OSError] = []
        for number, address in enumerate(route.addresses.get(queue.broker, ())):
            try:
                return Connection(address, self.settings), number == 0 and queue.broker in route.masters
            except OSError as error:
                errors.append(error)
        if not errors:
            raise ConnectionError(f"rocketmq: no broker {queue.broker!r} is registered for topic {queue.topic!r} (now)")
        raise ConnectionError("; ".join(map(str, errors))) from errors[-1]

    def fetch_bounds(self, queues: Iterable[Queue]) -> dict[Queue, OffsetBounds]:
        """Return the offset bounds of queues of one broker."""
        requested = list(queues)
        codes = (GET_MIN_OFFSET, GET_MAX_OFFSET)
        answers = self._call_all(requested, [(code, _queue_fields(queue)) for queue in requested for code in codes])
        numbers = [max(0, answer.number("offset")) for answer in answers]  # an empty queue of the type BatchCQ gives -1
        master = not requested or self._open[requested[0].broker][1]
        return {queue: OffsetBounds(numbers[2 * at], numbers[2 * at + 1], master) for at, queue in enumerate(requested)}

    def fetch_offsets_at(self, queues: Sequence[Queue], millis: int) -> dict[Queue, int]:
        """Return the offset of the first message stored at or after a time, for queues of one broker."""
        requests = [
            (SEARCH_OFFSET_BY_TIMESTAMP, {**_queue_fields(queue), "timestamp": str(millis), "boundaryType": "LOWER"})
            for queue in queues
        ]
        return {queue: answer.number("offset") for queue, answer in zip(queues, self._call_all(queues, requests), strict=True)}

    def fetch_committed(self, queues: Sequence[Queue], group: str) -> dict[Queue, int | None]:
        """Return the offsets that a consumer group committed in queues of one broker; None where it has not committed."""
        requests = [
            (QUERY_CONSUMER_OFFSET, {**_queue_fields(queue), "consumerGroup": group, "setZeroIfNotFound": "false"})
            for queue in queues
        ]
        answers = self._call_all(queues, requests, (SUCCESS, QUERY_NOT_FOUND))
        found = [answer.number("offset") if answer.code == SUCCESS else None for answer in answers]
        return dict(zip(queues, found, strict=True))

    def commit(self, offsets: Mapping[Queue, int], group: str, create_group: Callable[[Connection, Queue], object]) -> None:
        """Commit offsets of a group in queues of one broker.

        A group that brokers do not know is created by its first pull (``create_group``), if brokers allow that. The first
        queue is committed alone: if several are committed at the same time for the first time, a broker of version 5.3 loses
        some (``ConsumerOffsetManager.commitOffset`` creates a table for each and keeps one).
        """
        queues = list(offsets)
        requests = [
            (UPDATE_CONSUMER_OFFSET, {**_queue_fields(queue), "consumerGroup": group, "commitOffset": str(at)})
            for queue, at in offsets.items()
        ]
        (answer,) = self._call_all(queues[:1], requests[:1], (SUCCESS, GROUP_NOT_EXIST))
        if answer.code == GROUP_NOT_EXIST:
            with self._broker(queues[0]) as one:
                create_group(one, queues[0])
            self._call_all(queues[:1], requests[:1])
        self._call_all(queues[1:], requests[1:])

    def _call_all(
        self, queues: Sequence[Queue], requests: Sequence[Request], accepted_codes: tuple[int, ...] = (SUCCESS,)
    ) -> list[Response]:
        """Send all requests to the broker of these queues, then receive the answers."""
        if not requests:
            return []
        with self._broker(queues[0]) as one:
            sent = [one.send(code, fields) for code, fields in requests]
            return [one.check_answer(one.receive(number), accepted_codes) for number in sent]

    @contextmanager
    def _broker(self, queue: Queue) -> Iterator[Connection]:
        """Yield the cached connection to a queue's broker; an error closes it."""
        known = self._open.get(queue.broker)
        if known is not None and known[0].is_stale:
            self._open.pop(queue.broker)[0].close()
        if queue.broker not in self._open:
            self._open[queue.broker] = self.reader(queue)
        try:
            yield self._open[queue.broker][0]
        except BaseException:
            self._open.pop(queue.broker)[0].close()
            self.invalidate_routes()
            raise

    def new_problems(self, problems: Iterable[str]) -> list[str]:
        """Return the problems that the last call did not have, so that each is reported once until it is over."""
        current = set(problems)
        new, self._reported = sorted(current - self._reported), current
        return new


def group_by_broker(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    """Group queues by their broker."""
    found: dict[str, list[Queue]] = {}
    for queue in queues:
        found.setdefault(queue.broker, []).append(queue)
    return found


def _queue_fields(queue: Queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.number)}
