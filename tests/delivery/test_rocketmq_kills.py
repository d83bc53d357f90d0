"""Runs from and to RocketMQ that are killed at random points: what comes out, and how often."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from killing import kills
from running import Etl
from servers.rocketmq_server import RocketMq

from connectors.rocketmq.cluster import cluster
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import Limit, Task

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.servers]

FROM = """
    name: from-rocketmq
    source: {type: rocketmq, servers: ["SERVER"], topics: [TOPIC], commit_group: TOPIC, metadata: true}
    steps:
      - {type: json, fields: {n: bigint}}
    sink: {type: file, path: "{here}/out.json"}
"""
TO = """
    name: to-rocketmq
    source: {type: file, path: "{here}/in.json"}
    steps:
      - {type: json, fields: {n: bigint}}
    sink: {type: rocketmq, servers: ["SERVER"], topic: TOPIC}
"""


@pytest.fixture
def server() -> Iterator[RocketMq]:
    """One that may be restarted."""
    with RocketMq(settings={"flushDiskType": "ASYNC_FLUSH"}) as running:
        yield running


def topic_of(server: RocketMq) -> str:
    topic = f"kills-{time.time_ns()}"
    server.create_topic(topic, 3)
    return topic


def fill(server: RocketMq, topic: str, first: int, last: int) -> None:
    """Put numbered events into a topic, each once: a producer that waits for its answers."""
    sink = RocketmqSink(servers=(server.address,), topic=topic, body_field="body", identity_key=False)
    bodies = [json.dumps({"n": n}) for n in range(first, last)]
    batch = pa.record_batch({"body": bodies, "_offset": pa.array(range(len(bodies)), pa.int64())})
    writer = sink.open(Task("kills", "in", f"{first}", "/nowhere", batch.schema))
    result = writer.write(batch)
    writer.close()
    assert result.retryable is None, result.cause


def held(server: RocketMq, topic: str) -> list[tuple[int, str]]:
    """Numbers and first keys of all messages of a topic."""
    source = RocketmqSource(servers=(server.address,), topics=(topic,), keys_field="keys")
    cluster(source.access()).close()  # connections may be older than the broker's last start
    start = source.start()
    found: list[tuple[int, str]] = []
    for split in source.splits(start, source.latest(start, Limit(1 << 62)), 1):
        for batch in source.read(split):
            assert isinstance(batch, pa.RecordBatch)
            bodies, keys = (batch.column(name).cast(pa.string()).to_pylist() for name in ("message", "keys"))
            found += [(json.loads(body)["n"], key) for body, key in zip(bodies, keys, strict=True)]
    return found


def numbers(file: Path) -> Iterator[int]:
    with file.open() as lines:
        for line in lines:
            yield json.loads(line)["n"]


def test_from_rocketmq_to_files_exactly_once(rocketmq: RocketMq, etl: Etl) -> None:
    topic = topic_of(rocketmq)
    pipeline = etl.pipeline(FROM.replace("SERVER", rocketmq.address).replace("TOPIC", topic))

    found = kills(etl, pipeline, lambda a, b: fill(rocketmq, topic, a, b), lambda: numbers(etl.folder / "out.json"))

    assert found.exact, found


def test_from_files_to_rocketmq_none_is_missing_and_repetitions_have_the_same_key(server: RocketMq, etl: Etl) -> None:
    topic = topic_of(server)
    pipeline = etl.pipeline(TO.replace("SERVER", server.address).replace("TOPIC", topic))
    lines = etl.folder / "in.json"

    def append(first: int, last: int) -> None:
        with lines.open("a") as file:
            file.writelines(f'{{"n": {n}}}\n' for n in range(first, last))

    found = kills(etl, pipeline, append, lambda: (n for n, _ in held(server, topic)), restart=server.restart)

    assert not found.missing, found
    assert not found.foreign, found
    by_key: dict[str, set[int]] = {}
    for number, key in held(server, topic):
        by_key.setdefault(key, set()).add(number)
    assert len(by_key) == found.total, "a key is an event, and an event has one key"
    assert all(len(same) == 1 for same in by_key.values())
    print(f"{found.repeats} of {found.total} events were sent again")
