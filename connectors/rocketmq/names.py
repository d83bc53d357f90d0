"""Asking name servers: any of them will do, and another is asked when one is down or does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connectors.rocketmq.codes import ALL_TOPICS, CLUSTER, DONE, NO_TOPIC, ROUTE
from connectors.rocketmq.connection import Access, Connection
from connectors.rocketmq.routes import Route, brokers, masters, parsed, topics
from etl.api import ComponentError, nearest

_SHOWN = 5
_SYSTEM = ("%", "rmq_", "RMQ_", "SCHEDULE_TOPIC", "OFFSET_MOVED", "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "TRANS_CHECK")
_REPLIES = "_REPLY_TOPIC"
"""What the name of a cluster's second topic of its own ends with; the first has the cluster's name."""

T = TypeVar("T")


class UnknownTopicError(ComponentError):
    """No name server knows the topic, and brokers are there."""


class NameServers:
    """Connections to name servers, made when they are needed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._open: dict[str, Connection] = {}
        self._order = list(access.servers)
        """The one that answered last comes first."""

    def close(self) -> None:
        """Ends all connections."""
        while self._open:
            self._open.popitem()[1].close()

    def route(self, topic: str) -> Route:
        """Where a topic is. Raises UnknownTopicError; ConnectionError when nobody answers or no broker is there yet."""
        known = self._first(lambda one: self._route(one, topic))
        if known is not None:
            return known
        if not self.brokers():
            raise ConnectionError(f"rocketmq {self._places}: no broker has registered (yet)")
        raise UnknownTopicError(f"rocketmq {self._places}: there is no topic {topic!r}; {self._others(topic)}")

    def brokers(self) -> set[str]:
        """The brokers that have registered."""
        return self._first(lambda one: brokers(one.call(CLUSTER, {}).body) or None) or set()

    def masters(self) -> dict[str, str]:
        """Broker → address of its master. Raises ConnectionError when none is there."""
        found = self._first(lambda one: masters(one.call(CLUSTER, {}).body) or None)
        if not found:
            raise ConnectionError(f"rocketmq {self._places}: no master broker has registered (yet)")
        return found

    @property
    def _places(self) -> str:
        return ", ".join(self._access.servers)

    def _route(self, one: Connection, topic: str) -> Route | None:
        found = one.call(ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"}, fine=(DONE, NO_TOPIC))
        return parsed(topic, found.body) if found.code == DONE else None

    def _others(self, topic: str) -> str:
        """What to do about a topic that is not there."""
        known = self._first(lambda one: topics(one.call(ALL_TOPICS, {}).body) or None) or []
        own = [name for name in known if not _is_system(name, known) and name not in self.brokers()]
        there = f"there are {', '.join(own[:_SHOWN])}{' …' if len(own) > _SHOWN else ''}" if own else "there is none yet"
        return f"{nearest(topic, own) or there}; the option create: {{queues: 8}} creates it"

    def _first(self, ask: Callable[[Connection], T | None]) -> T | None:
        """The first answer; None when all who answer have none."""
        errors: list[OSError] = []
        for place in list(self._order):
            try:
                found = ask(self._connection(place))
            except OSError as error:
                self._drop(place)
                errors.append(error)
                continue
            if found is not None:
                self._order.remove(place)
                self._order.insert(0, place)
                return found
        if len(errors) == len(self._order):
            raise ConnectionError("; ".join(map(str, errors))) from errors[-1]
        return None

    def _connection(self, place: str) -> Connection:
        if place in self._open and self._open[place].stale:
            self._drop(place)
        if place not in self._open:
            self._open[place] = Connection(place, self._access)
        return self._open[place]

    def _drop(self, place: str) -> None:
        if place in self._open:
            self._open.pop(place).close()


def _is_system(topic: str, known: Sequence[str]) -> bool:
    """Whether servers made it for themselves."""
    return topic.startswith(_SYSTEM) or topic.endswith(_REPLIES) or topic + _REPLIES in known
