"""A real RocketMQ broker for tests: create and delete topics, send like other producers, read with the source."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from running import wait_for
from servers.brokers.rocketmq_server import RocketMq

from connectors.rocketmq.message_encoding import MessageEncoding
from connectors.rocketmq.protocol.codes import SEND_BATCH_MESSAGE
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import OFFSET, Limit, Offset, Rejects, Task
from etl.delivery.identities import EventIdentities
from etl.delivery.sink_writer import SinkWriter

SEND, DELETE_TOPIC, DELETE_ROUTE = 310, 215, 216
EVERYTHING = Limit(1 << 62)
_numbers = itertools.count()


def topic_of(server: RocketMq, queues: int = 4, attributes: str = "") -> str:
    """Create a topic with a unique name."""
    topic = f"case-{time.time_ns()}-{next(_numbers)}"
    server.create_topic(topic, queues, attributes)
    return topic


def connection_options(server: RocketMq) -> dict[str, Any]:
    """Return the options for connecting."""
    servers = server.address.split(";")
    if server.account is None:
        return {"servers": servers}
    return {"servers": servers, "user": server.account.user, "password": server.account.password}


def source_of(server: RocketMq, topic: str, **options: Any) -> RocketmqSource:
    return RocketmqSource.model_validate({**connection_options(server), "topics": [topic], **options})


def sink_of(server: RocketMq, topic: str, **options: Any) -> RocketmqSink:
    return RocketmqSink.model_validate({**connection_options(server), "topic": topic, **options})


def outlet_of(sink: RocketmqSink, batch: pa.RecordBatch, reject: Callable[[Rejects], None], **more: Any) -> SinkWriter:
    """Open the sink as the engine does."""
    task = Task("p", "out", "split-1", "/nowhere", batch.schema, identity="case")
    return SinkWriter("out", sink, sink.open(task), reject, EventIdentities("case"), **more)


def events(count: int, **columns: Any) -> pa.RecordBatch:
    """Numbered events."""
    given = {"message": [f"event {n}" for n in range(count)], **columns}
    return pa.RecordBatch.from_pydict({**given, OFFSET: pa.array(range(count), pa.int64())})


def send_events(server: RocketMq, topic: str, batch: pa.RecordBatch, **options: Any) -> list[Rejects]:
    """Send events through the sink; returns its rejects."""
    rejected: list[Rejects] = []
    sink_writer = outlet_of(sink_of(server, topic, **options), batch, rejected.append)
    try:
        sink_writer.write(batch)
    except BaseException:
        sink_writer.abort()
        raise
    sink_writer.close()
    return rejected


def send_one(server: RocketMq, topic: str, body: bytes, flags: int = 0, properties: str = "", queue: int = 0) -> None:
    """Send one message like a producer that compressed it."""
    fields = {
        "a": "case",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": str(flags),
        "g": "0",
        "h": "0",
        "i": properties,
    }
    connection = Connection(server.broker, source_of(server, topic).settings())
    connection.call(SEND, {**fields, "j": "0", "k": "false", "m": "false"}, body)
    connection.close()


def send_at_once(server: RocketMq, topic: str, batch: pa.RecordBatch, queue: int = 0, **form: Any) -> None:
    """Send messages in one request like Java producers: with a request id, by which brokers store them together in topics of
    the type BatchCQ.
    """
    body = MessageEncoding(body="message", **form).encode(batch).concatenate(np.arange(len(batch)))
    fields = {"a": "case", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "0", "h": "0"}
    fields |= {"i": f"UNIQ_KEY\x01{time.time_ns():032X}\x02", "j": "0", "k": "false", "m": "true"}
    connection = Connection(server.broker, source_of(server, topic).settings())
    connection.call(SEND_BATCH_MESSAGE, fields, bytes(body))
    connection.close()


def delete_topic(server: RocketMq, topic: str) -> None:
    access = source_of(server, topic).settings()
    for place, code in ((server.broker, DELETE_TOPIC), *((names.address, DELETE_ROUTE) for names in server.names)):
        connection = Connection(place, access)
        connection.call(code, {"topic": topic})
        connection.close()


def wait_for_messages(source: RocketmqSource, start: Offset, count: int) -> Offset:
    """Return the end of a micro-batch with ``count`` messages; brokers list stored messages after a delay."""
    begun = sum(start["queues"].values())
    ends: list[Offset] = []

    def enough() -> bool:
        ends.append(source.latest(start, EVERYTHING))
        return sum(ends[-1]["queues"].values()) - begun >= count

    wait_for(enough, what=f"{count} messages")
    return ends[-1]


def read(source: RocketmqSource, start: Offset, end: Offset, parallelism: int = 2) -> list[Any]:
    """Return the events as rows, and the rejects."""
    found: list[Any] = []
    for split in source.splits(start, end, parallelism):
        for batch in source.read(split):
            found += [batch] if isinstance(batch, Rejects) else rows_of(batch)
    return found


def read_all(source: RocketmqSource, count: int) -> list[Any]:
    """Return all events of a new topic."""
    start = source.start()
    return read(source, start, wait_for_messages(source, start, count))


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [column.cast(pa.string()) if column.type == pa.string_view() else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def texts(rows: Iterable[Any], name: str = "message") -> list[Any]:
    return sorted(row[name] for row in rows)


def numbered(count: int) -> Sequence[str]:
    return sorted(f"event {n}" for n in range(count))
