"""The recipes between Kafka and databases, from end to end against real servers."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from running import ROOT, Engine
from servers.brokers.kafka_server import Kafka
from servers.databases.mariadb_server import MariaDb
from servers.databases.postgres_server import Postgres

from connectors.database.session import Session, close, open_session
from connectors.database.sink import DatabaseSink

pytestmark = pytest.mark.spark


def connect(server: Any, scheme: str) -> Session:
    """A connection to a server."""
    url = f"{scheme}://{server.address}/{server.database}"
    return open_session(DatabaseSink(url=url, user=server.user, password=server.password, table="x").settings)


def run(engine: Engine, recipe: str, server: Any, scheme: str, **places: str) -> None:
    """On what there is."""
    url = f"{scheme}://{server.address}/{server.database}"
    variables = engine.etl.folder / "recipe.env"
    given = {"DATABASE": url, "DB_USER": server.user, "DB_PASSWORD": server.password, **places}
    variables.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    ran = engine.run(ROOT / "pipelines" / f"{recipe}.yaml", "--once", "--env-file", variables)
    assert ran.status == 0, ran.err


def new_topic(kafka: Kafka, partitions: int) -> str:
    name = f"recipe-{uuid4().hex[:8]}"
    admin = AdminClient(kafka.client())  # it ends what it began when nobody holds it
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(120)
    return name


def test_events_of_a_topic_are_rows_once(engine: Engine, kafka: Kafka, mariadb: MariaDb) -> None:
    topic = new_topic(kafka, 2)
    producer = Producer(kafka.client())
    for number, line in enumerate((ROOT / "samples" / "json-generic.log").read_bytes().splitlines()):
        producer.produce(topic, line, partition=number % 2)
    assert producer.flush(30) == 0
    table = topic.replace("-", "_")

    run(engine, "kafka-to-database", mariadb, "mysql", KAFKA=kafka.address, TOPIC=topic, GROUP=topic, TABLE=table)

    session = connect(mariadb, "mysql")
    rows = session.run(f"SELECT user_name, address, action, seen FROM {table} ORDER BY seen").fetchall()
    close(session)
    assert len(rows) == 8
    assert (rows[0][:3], str(rows[0][3])) == (("anna", "192.0.2.7", "login"), "2026-11-20 05:25:04")


def test_rows_of_an_outbox_are_messages_once(engine: Engine, kafka: Kafka, postgres: Postgres) -> None:
    topic = new_topic(kafka, 1)
    table = topic.replace("-", "_")
    session = connect(postgres, "postgresql")
    session.run(f"CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, created TIMESTAMPTZ DEFAULT now(), payload TEXT)")
    for line in (ROOT / "samples" / "outbox.log").read_text().splitlines():
        session.run(f"INSERT INTO {table} (payload) VALUES (%s)", (line,))
    close(session)

    for _ in range(2):  # the second finds nothing new
        run(engine, "database-to-kafka", postgres, "postgresql", KAFKA=kafka.address, TOPIC=topic, TABLE=table, LAG="0s")

    messages = read(kafka, topic)
    assert [(key, value["event"]["id"], value["event"]["action"]) for key, value in messages] == [
        (b"4711", "1", "placed"),
        (b"4712", "2", "placed"),
        (b"4711", "3", "paid"),
        (b"4712", "4", "cancelled"),
    ]


def read(kafka: Kafka, topic: str) -> list[tuple[bytes | None, Any]]:
    """All committed messages of a topic, until none comes for some seconds."""
    options = {"group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**kafka.client(), **options})
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(20 if not found else 3)) is not None:
        assert message.error() is None
        found.append((message.key(), json.loads(message.value() or b"null")))
    consumer.close()
    return found
