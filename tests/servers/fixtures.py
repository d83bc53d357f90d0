"""Fixtures of real servers, one of each a test run: all start when the first test needs one.

A test that stops, kills or changes a server starts one of its own: ``with Kafka() as broker: …``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest
from forked_workers import GROUP
from memory_files import folder_of_run
from servers.cache import MissingError
from servers.certificates import Certificates
from servers.fleet import BROKERS, DATABASES, Fleet, asked
from servers.server import Server

REQUESTED_SERVERS = pytest.StashKey[Iterable[str]]()
FLEET = pytest.StashKey[Fleet]()
ASKED = pytest.StashKey[set[str]]()
"""Servers that the current test uses, as far as its arguments, parameters and marks say."""


def pytest_configure() -> None:
    """Keep the data of servers in memory, unless they are to hold that of long trials."""
    Server.parent = None if "SLUICE_KILLS" in os.environ else folder_of_run()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use a server with ``servers``."""
    for item in items:
        if asked(item):
            item.add_marker("servers")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Record which servers the selected tests use."""
    session.config.stash[REQUESTED_SERVERS] = {name for item in session.items for name in asked(item)}


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """All servers of the run."""
    servers = request.config.stash[FLEET] = Fleet(request.config.stash[REQUESTED_SERVERS])
    yield servers
    servers.discard()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[ASKED] = asked(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Under `make test` servers end with the last of the tests that use such servers: an idle broker takes 7 % of a core."""
    yield
    if nextitem is None or GROUP not in item.stash or FLEET not in item.config.stash:
        return
    for family in _families(item) - _families(nextitem):
        item.config.stash[FLEET].discard(family)
        if "kafka" in family:
            forget_kafka_clients()


def forget_kafka_clients() -> None:
    """End the clients that the connector keeps in this process: each tries to reach its broker again and again, and would take
    some seconds of CPU time until the last test."""
    if "connectors.kafka.clients" not in sys.modules:
        return
    from connectors.kafka import clients, consumer_groups, producer_pool, range_reader

    clients.admin_client.cache_clear()
    range_reader._idle_consumers.cache_clear()
    consumer_groups._consumers.clear()
    producer_pool.PRODUCER_POOL._producers.clear()
    gc.collect()


def _families(item: pytest.Item) -> set[frozenset[str]]:
    """Brokers, databases, both or none: which servers a test uses. Tests that use the same follow each other."""
    return {BROKERS if name in BROKERS else DATABASES for name in asked(item)}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority and certificates for servers with TLS."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


def started(fleet: Fleet, name: str) -> Server:
    """Return the started server; if its files cannot be fetched, the test is skipped, or fails in CI."""
    try:
        return fleet.start(name)
    except MissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{name}: {error}")


def _fixture(name: str) -> Callable[[Fleet, pytest.FixtureRequest], Server]:
    """Create the fixture of a server, which runs on after the module."""

    @pytest.fixture(scope="module", name=name)
    def server(fleet: Fleet, request: pytest.FixtureRequest) -> Server:
        if name not in request.config.stash[ASKED]:
            pytest.fail(f"an argument, a parameter or the mark `servers` must name {name}: else all servers start once more")
        return started(fleet, name)

    return server


kafka = _fixture("kafka")
rocketmq = _fixture("rocketmq")
rocketmq_acl = _fixture("rocketmq_acl")
mosquitto = _fixture("mosquitto")
redis = _fixture("redis")
opensearch = _fixture("opensearch")
elasticsearch = _fixture("elasticsearch")
elasticsearch7 = _fixture("elasticsearch7")
elasticsearch9 = _fixture("elasticsearch9")
mariadb = _fixture("mariadb")
mysql8 = _fixture("mysql8")
postgres = _fixture("postgres")
clickhouse = _fixture("clickhouse")
