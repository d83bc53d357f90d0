"""Each real server: it answers, is killed, and has its data after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy
from confluent_kafka.admin import AdminClient
from servers.brokers import remoting
from servers.brokers.kafka_server import Kafka
from servers.brokers.rocketmq_server import RocketMq
from servers.databases.mariadb_server import MariaDb
from servers.databases.postgres_server import Postgres
from servers.search.elasticsearch_server import Elasticsearch
from servers.search.opensearch_server import OpenSearch


def version(url: str) -> str:
    """Return the version that a database reports."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        return str(connection.exec_driver_sql("select version()").scalar())


def test_kafka_serves(kafka: Kafka) -> None:
    admin = AdminClient(kafka.client())

    brokers = admin.list_topics(timeout=120).brokers

    assert [f"{broker.host}:{broker.port}" for broker in brokers.values()] == [kafka.address]


def test_rocketmq_serves(rocketmq: RocketMq) -> None:
    rocketmq.create_topic("harness", queues=3)

    assert remoting.has_route(rocketmq.address, "harness")


def test_rocketmq_with_access_control_needs_a_user(rocketmq_acl: RocketMq) -> None:
    rocketmq_acl.create_topic("harness")

    with pytest.raises(OSError, match="refused to make the topic 'other'"):
        remoting.create_topic(rocketmq_acl.broker, "other", 4, None)


@pytest.mark.parametrize("name", ["opensearch", "elasticsearch"])
def test_search_nodes_serve(name: str, request: pytest.FixtureRequest) -> None:
    node: OpenSearch | Elasticsearch = request.getfixturevalue(name)

    status, body = node.ask("PUT", "/harness/_doc/1", b'{"a": 1}')

    assert (status, json.loads(body)["result"]) == (201, "created")


def test_mariadb_serves(mariadb: MariaDb) -> None:
    assert "MariaDB" in version(mariadb.url)


def test_postgres_serves(postgres: Postgres) -> None:
    assert version(postgres.url).startswith("PostgreSQL")


@pytest.mark.slow
def test_a_killed_server_starts_again_on_its_data_and_its_port() -> None:
    with MariaDb() as server:
        kept, port, first = server.folder / "data" / "kept", server.port, server.process
        kept.write_text("here")
        server.kill()

        server.restart()

        assert (server.port, kept.read_text(), server.process is not first) == (port, "here", True)
        folder = server.folder
    assert not Path(folder).exists()
