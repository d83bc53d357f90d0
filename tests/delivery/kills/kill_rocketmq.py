"""RocketMQ in kill tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from kill_table import LINES, Workspace, lines
from servers.brokers.rocketmq_server import RocketMq

from connectors.rocketmq.protocol.cluster import cluster
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import Limit, Task

QUEUES = 3


class RocketmqInput:
    """A topic, and a producer that waits for answers and opens new connections each time, because the broker may restart."""

    steps = LINES

    def __init__(self, workspace: Workspace) -> None:
        self.server: RocketMq = workspace.servers["rocketmq"]
        self.topic = f"{workspace.label}-in"
        group = f"commit_group: {self.topic}"
        self.options = f"{{type: rocketmq, servers: ['{self.server.address}'], topics: [{self.topic}], {group}}}"

    def begin(self) -> None:
        self.server.create_topic(self.topic, QUEUES)

    def write_events(self, first: int, last: int) -> None:
        sink = RocketmqSink(servers=(self.server.address,), topic=self.topic, body_field="body", identity_key=False)
        cluster(sink.settings()).close()
        bodies = lines(first, last)
        batch = pa.record_batch({"body": bodies, "_offset": pa.array(range(len(bodies)), pa.int64())})
        writer = sink.open(Task("kills", "in", f"{first}", "/nowhere", batch.schema))
        result = writer.write(batch)
        writer.close()
        assert result.retryable is None, result.cause


class RocketmqOutput:
    """A topic whose messages have keys, by which consumers recognise repeats."""

    def __init__(self, workspace: Workspace) -> None:
        self.server: RocketMq = workspace.servers["rocketmq"]
        self.topic = f"{workspace.label}-out"
        self.server.create_topic(self.topic, QUEUES)
        self.options = f"type: rocketmq, servers: ['{self.server.address}'], topic: {self.topic}"

    def delivered(self) -> Iterator[int]:
        return (number for number, _ in self._messages())

    def check(self, total: int) -> None:
        """Assert that each event has one key, which no other event has."""
        pairs = set(self._messages())
        assert len(pairs) == len({key for _, key in pairs}) == total

    def _messages(self) -> Iterator[tuple[int, str]]:
        source = RocketmqSource(servers=(self.server.address,), topics=(self.topic,), keys_field="keys")
        cluster(source.settings()).close()
        start = source.start()
        for split in source.splits(start, source.latest(start, Limit(1 << 62)), 1):
            for batch in source.read(split):
                assert isinstance(batch, pa.RecordBatch)
                bodies, keys = (batch.column(name).cast(pa.string()).to_pylist() for name in ("message", "keys"))
                yield from ((json.loads(body)["n"], key) for body, key in zip(bodies, keys, strict=True))
