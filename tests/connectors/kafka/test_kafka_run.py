"""Pipelines between files, the network and a real Kafka, as a user runs them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker
from running import ROOT, Engine, Etl, wait_for
from servers.brokers.kafka_server import Kafka
from servers.ports import free

pytestmark = [pytest.mark.spark, pytest.mark.servers]


@pytest.fixture
def broker(kafka: Kafka) -> Broker:
    return Broker(kafka)


def environment(etl: Etl, **variables: object) -> Path:
    path = etl.folder / "recipe.env"
    path.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return path


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value in broker.values(topic)]


def test_lines_of_files_reach_a_topic_once_each_with_the_recipe(broker: Broker, engine: Engine) -> None:
    topic = broker.topic(3)
    log = engine.etl.folder / "app.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    variables = environment(engine.etl, LOGS=log, TOPIC=topic, KAFKA=broker.address, HOST="web01")
    recipe = ROOT / "pipelines" / "file-to-kafka.yaml"

    first = engine.run(recipe, "--once", "--env-file", variables)
    with log.open("a") as file:
        file.write("\nline 1000\n")
    second = engine.run(recipe, "--once", "--env-file", variables)

    assert (first.status, second.status) == (0, 0), first.err + second.err
    found = broker.messages(topic)
    assert [json.loads(one.value() or b"")["message"] for one in found] == [f"line {number}" for number in range(1001)]
    assert {one.key() for one in found} == {f"web01|{log}".encode()}
    assert len({one.partition() for one in found}) == 1
    assert json.loads(found[0].value() or b"")["log"] == {"file": {"path": str(log)}}


def test_syslog_reaches_a_topic_with_the_recipe(broker: Broker, engine: Engine) -> None:
    topic = broker.topic()
    port = free(1)[0]
    variables = environment(engine.etl, LISTEN=f"127.0.0.1:{port}", TOPIC=topic, KAFKA=broker.address)
    with engine.following(ROOT / "pipelines" / "syslog-to-kafka.yaml", variables):
        wait_for(lambda: _connects(port), what="the receiver")
        with socket.create_connection(("127.0.0.1", port)) as sender:
            for number in range(100):
                sender.sendall(f"<34>1 2026-11-20T06:25:{number % 60:02d}Z web01 shop {number} - - order {number}\n".encode())
        wait_for(lambda: len(broker.values(topic)) >= 100, what="the messages")

    assert [one["message"] for one in values(broker, topic)] == [f"order {number}" for number in range(100)]
    assert {one.key() for one in broker.messages(topic)} == {b"127.0.0.1"}
    assert broker.messages(topic)[7].timestamp()[1] == 1_795_155_907_000


def _connects(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def test_a_topic_is_parsed_into_a_file_and_continued(broker: Broker, engine: Engine) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.produce(topic, [f"user{number} logged in".encode() for number in range(500)], partition=partition)
    broker.produce(topic, [b"\xffnonsense"])
    pipeline = engine.etl.pipeline(
        f"""
        name: logins
        source: {{type: kafka, servers: ["{broker.address}"], topics: [{topic}], metadata: true, commit_group: "lag-{topic}"}}
        steps:
          - {{type: grok, patterns: ["^%{{WORD:user_name}} logged in"]}}
        sink: {{type: file, path: "{{here}}/out.json"}}
        """
    )

    first = engine.run(pipeline, "--once")
    broker.produce(topic, [b"late logged in"], partition=1)
    second = engine.run(pipeline, "--once")

    assert (first.status, second.status) == (0, 0), first.err + second.err
    rows = [json.loads(line) for line in (engine.etl.folder / "out.json").read_text().splitlines()]
    assert len(rows) == 1001
    assert rows[-1]["user_name"] == "late"
    assert {row["kafka"]["partition"] for row in rows[:1000]} == {0, 1}
    (dead,) = [json.loads(line) for line in (engine.etl.folder / "state" / "dead_letters.jsonl").read_text().splitlines()]
    assert "\ufffdnonsense" in json.dumps(dead, ensure_ascii=False)
