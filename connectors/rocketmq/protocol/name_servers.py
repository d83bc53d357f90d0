"""Requests to name servers. Any of them can answer; the next one is requested if one is down or does not know the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connectors.rocketmq.protocol.codes import GET_ALL_TOPICS, GET_CLUSTER, GET_ROUTE, SUCCESS, TOPIC_NOT_EXIST
from connectors.rocketmq.protocol.connection import Connection, ConnectionSettings
from connectors.rocketmq.protocol.routes import Route, parse_broker_names, parse_master_addresses, parse_route, parse_topic_names
from etl.api import ComponentError, nearest

_MAX_SHOWN_TOPICS = 5
_SYSTEM_PREFIXES = (
    "%",
    "rmq_",
    "RMQ_",
    "SCHEDULE_TOPIC",
    "OFFSET_MOVED",
    "TBW102",
    "SELF_TEST_TOPIC",
    "BenchmarkTest",
    "TRANS_CHECK",
)
_REPLY_SUFFIX = "_REPLY_TOPIC"
"""Suffix of the second of a cluster's own topics; the first has the cluster's name."""

T = TypeVar("T")


class UnknownTopicError(ComponentError):
    """No name server knows the topic, although brokers are registered."""


class NameServers:
    """Connections to name servers, opened on demand."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._open: dict[str, Connection] = {}
        self._order = list(settings.servers)
        """The server that answered last is first."""

    def close(self) -> None:
        """Close all connections."""
        while self._open:
            self._open.popitem()[1].close()

    def find_route(self, topic: str) -> Route:
        """Return the route of a topic. Raises UnknownTopicError, and ConnectionError if no server answers or no broker is
        registered.
        """
        known = self._first_answer(lambda one: self._fetch_route(one, topic))
        if known is not None:
            return known
        if not self.fetch_brokers():
            raise ConnectionError(f"rocketmq {self._addresses}: no broker has registered (yet)")
        raise UnknownTopicError(f"rocketmq {self._addresses}: there is no topic {topic!r}; {self._topic_hint(topic)}")

    def fetch_brokers(self) -> set[str]:
        """Return the names of the registered brokers."""
        return self._first_answer(lambda one: parse_broker_names(one.call(GET_CLUSTER, {}).body) or None) or set()

    def fetch_masters(self) -> dict[str, str]:
        """Return broker → address of its master. Raises ConnectionError if there is none."""
        found = self._first_answer(lambda one: parse_master_addresses(one.call(GET_CLUSTER, {}).body) or None)
        if not found:
            raise ConnectionError(f"rocketmq {self._addresses}: no master broker has registered (yet)")
        return found

    @property
    def _addresses(self) -> str:
        return ", ".join(self._settings.servers)

    def _fetch_route(self, one: Connection, topic: str) -> Route | None:
        found = one.call(GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"}, accepted_codes=(SUCCESS, TOPIC_NOT_EXIST))
        return parse_route(topic, found.body) if found.code == SUCCESS else None

    def _topic_hint(self, topic: str) -> str:
        """Return a hint for a topic that does not exist."""
        known = self._first_answer(lambda one: parse_topic_names(one.call(GET_ALL_TOPICS, {}).body) or None) or []
        own = [name for name in known if not _is_system(name, known) and name not in self.fetch_brokers()]
        there = (
            f"there are {', '.join(own[:_MAX_SHOWN_TOPICS])}{' …' if len(own) > _MAX_SHOWN_TOPICS else ''}"
            if own
            else "there is none yet"
        )
        return f"{nearest(topic, own) or there}; the option create: {{queues: 8}} creates it"

    def _first_answer(self, ask: Callable[[Connection], T | None]) -> T | None:
        """Return the first answer; None if all servers that answer have none."""
        errors: list[OSError] = []
        for address in list(self._order):
            try:
                found = ask(self._connection(address))
            except OSError as error:
                self._close_connection(address)
                errors.append(error)
                continue
            if found is not None:
                self._order.remove(address)
                self._order.insert(0, address)
                return found
        if len(errors) == len(self._order):
            raise ConnectionError("; ".join(map(str, errors))) from errors[-1]
        return None

    def _connection(self, address: str) -> Connection:
        if address in self._open and self._open[address].is_stale:
            self._close_connection(address)
        if address not in self._open:
            self._open[address] = Connection(address, self._settings)
        return self._open[address]

    def _close_connection(self, address: str) -> None:
        if address in self._open:
            self._open.pop(address).close()


def _is_system(topic: str, known: Sequence[str]) -> bool:
    """Return whether servers created the topic for themselves."""
    return topic.startswith(_SYSTEM_PREFIXES) or topic.endswith(_REPLY_SUFFIX) or topic + _REPLY_SUFFIX in known
