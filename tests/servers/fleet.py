"""The servers of a test run or of `make servers`: they start and end together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from servers import ports
from servers.brokers.kafka_server import Kafka
from servers.brokers.mosquitto_server import Mosquitto
from servers.brokers.redis_server import Redis
from servers.brokers.remoting import Account
from servers.brokers.rocketmq_server import RocketMq
from servers.cache import MissingError
from servers.databases.clickhouse_server import ClickHouse
from servers.databases.mariadb_server import MariaDb
from servers.databases.mysql_server import MySql
from servers.databases.postgres_server import Postgres
from servers.search.elasticsearch_server import Elasticsearch, Elasticsearch7, Elasticsearch9
from servers.search.opensearch_server import OpenSearch
from servers.server import Server, StartError

if TYPE_CHECKING:
    import pytest

ACCOUNT = Account("etl", "change-me-12345")

KINDS: dict[str, Callable[[int], Server]] = {
    "kafka": lambda port: Kafka(port=port),
    "mariadb": lambda port: MariaDb(port=port),
    "mysql8": lambda port: MySql(port=port),
    "postgres": lambda port: Postgres(port=port),
    "opensearch": lambda port: OpenSearch(port=port),
    "elasticsearch": lambda port: Elasticsearch(port=port),
    "elasticsearch7": lambda port: Elasticsearch7(port=port),
    "elasticsearch9": lambda port: Elasticsearch9(port=port),
    "clickhouse": lambda port: ClickHouse(port=port),
    "rocketmq": lambda port: RocketMq(port=port),
    "rocketmq_acl": lambda port: RocketMq(port=port, account=ACCOUNT),
    "mosquitto": lambda port: Mosquitto(port=port),
    "redis": lambda port: Redis(port=port),
}

OTHER_VERSIONS = frozenset({"elasticsearch7", "elasticsearch9", "mysql8"})
"""Servers that start only by name, and in tests with ``SLUICE_ALL_VERSIONS=1``."""

BROKERS = frozenset({"kafka", "rocketmq", "rocketmq_acl", "mosquitto", "redis"})

DATABASES = frozenset(KINDS) - BROKERS
"""A family as the brokers are one: tests that use one of them soon use the others."""

USUAL = {
    "kafka": 9092,
    "mariadb": 3306,
    "mysql8": 3308,
    "postgres": 5432,
    "opensearch": 9200,
    "elasticsearch": 9201,
    "elasticsearch7": 9207,
    "elasticsearch9": 9209,
    "clickhouse": 8123,
    "rocketmq": 9876,
    "rocketmq_acl": 9877,
    "mosquitto": 1883,
    "redis": 6379,
}
"""Default ports of recipes and samples."""


def asked(item: pytest.Item) -> set[str]:
    """Return the servers that a test uses: by a fixture, by a parameter that names one, or by its mark ``servers``."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    marked = (name for marker in item.iter_markers("servers") for name in marker.args)
    return KINDS.keys() & {*getattr(item, "fixturenames", ()), *map(str, parameters), *marked}


def family_of(name: str) -> Set[str]:
    """Return the servers that start together when a test uses one of them: tests that use one soon use the others."""
    if name == "rocketmq_acl":
        return {name}
    return BROKERS - {"rocketmq_acl"} if name in BROKERS else KINDS.keys() - BROKERS


class Fleet:
    """Servers by name. The first of a family that is asked for launches all of it that are wanted: they start in parallel, and
    meanwhile what the others need is fetched."""

    def __init__(self, expected: Iterable[str], *, usual_ports: bool = False) -> None:
        self.expected = [name for name in KINDS if name in set(expected)]
        self.usual_ports = usual_ports
        self.servers: dict[str, Server] = {}
        self._launched: set[str] = set()
        self._threads = ThreadPoolExecutor(len(KINDS), "servers")
        self._tasks: dict[str, Future[None]] = {}
        """The fetch or launch of each server, which follow each other."""

    def start(self, name: str) -> Server:
        """The server, serving. One that does not start, as on a port that another took meanwhile, is tried once more."""
        family = family_of(name)
        if not self._launched & family:
            self.launch(other for other in self.expected if other in family)
            self._fetch(other for other in self.expected if other not in self.servers)
        self._finish_task(name)
        try:
            return self._server(name).start()
        except StartError as error:
            print(f"{name}: {error}; once more", file=sys.stderr)
            self.servers.pop(name).discard()
            return self._server(name).start()

    def launch(self, names: Iterable[str]) -> None:
        """Begin to start servers. What is missing for one is reported to those who ask for it."""
        for name in names:
            self._launched.add(name)
            self._begin_task(name, self._server(name).launch)

    def discard(self, names: Set[str] | None = None) -> None:
        """End these, or all, and delete their data."""
        for name in list(self.servers if names is None else self.servers.keys() & names):
            self._finish_task(name)
            self._launched.discard(name)
            self.servers.pop(name).discard()

    def _fetch(self, names: Iterable[str]) -> None:
        """Begin to fetch what servers need that start later."""
        for name in names:
            self._begin_task(name, self._server(name).fetch)

    def _begin_task(self, name: str, work: Callable[[], object]) -> None:
        before = self._tasks.get(name)

        def task() -> None:
            if before is not None:
                before.result()
            with suppress(MissingError, OSError):
                work()

        self._tasks[name] = self._threads.submit(task)

    def _finish_task(self, name: str) -> None:
        """Wait for the fetch and the launch of a server. Raises what they did not expect."""
        if task := self._tasks.pop(name, None):
            task.result()

    def _server(self, name: str) -> Server:
        if name not in self.servers:
            self.servers[name] = KINDS[name](ports.usual(USUAL[name]) if self.usual_ports else 0)
        return self.servers[name]
