"""Kafka, killed: from a topic into another and into a file, nothing is missing and nothing is there twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_places import Broker
from killing import RUNS, kills
from running import Etl
from servers.kafka_server import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of its own: it is restarted."""
    with Kafka() as server:
        yield Broker(server)


def pipeline(etl: Etl, broker: Broker, topic: str, sink: str) -> Path:
    return etl.pipeline(
        f"""
        name: killed
        source: {{type: kafka, servers: ["{broker.address}"], topics: [{topic}]}}
        steps:
          - {{type: json, fields: {{number: bigint}}}}
          - {{type: filter, where: number >= 0}}
        sink: {sink}
        """
    )


def test_from_a_topic_into_another_exactly_once(broker: Broker, etl: Etl) -> None:
    source, target = broker.topic(2), broker.topic(3)
    sink = f"{{type: kafka, servers: ['{broker.address}'], topic: {target}, delivery: exactly_once}}"

    found = kills(
        etl,
        pipeline(etl, broker, source, sink),
        lambda first, last: fill(broker, source, first, last),
        lambda: numbers(broker, target),
        broker.server.restart,
    )

    assert found.exact, found


if RUNS:  # it counts repeats, which is worth a long trial only

    def test_from_a_topic_into_another_at_least_once(broker: Broker, etl: Etl) -> None:
        source, target = broker.topic(2), broker.topic(3)
        sink = f"{{type: kafka, servers: ['{broker.address}'], topic: {target}}}"

        found = kills(
            etl,
            pipeline(etl, broker, source, sink),
            lambda first, last: fill(broker, source, first, last),
            lambda: numbers(broker, target),
            broker.server.restart if RUNS else None,
        )

        assert not found.missing, found
        assert not found.foreign, found
        print(f"at least once: {found.repeats} of {found.total} events came again")


def test_from_a_topic_into_a_file_exactly_once(broker: Broker, etl: Etl) -> None:
    source = broker.topic(2)
    out = etl.folder / "out.json"

    found = kills(
        etl,
        pipeline(etl, broker, source, "{type: file, path: '{here}/out.json'}"),
        lambda first, last: fill(broker, source, first, last),
        lambda: [json.loads(line)["number"] for line in out.read_text().splitlines()],
        broker.server.restart if RUNS else None,
    )

    assert found.exact, found


def fill(broker: Broker, topic: str, first: int, last: int) -> None:
    """Half of the numbers into each partition."""
    for partition in range(2):
        broker.produce(topic, [b'{"number":%d}' % number for number in range(first + partition, last, 2)], partition)


def numbers(broker: Broker, topic: str) -> list[int]:
    return [json.loads(value)["number"] for value in broker.values(topic)]
