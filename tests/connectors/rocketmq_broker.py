"""What tests with a real broker do to it: make and delete topics, send as other producers do, read with the source."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from running import wait_for
from servers.rocketmq_server import RocketMq

from connectors.rocketmq.codes import SEND_BATCH
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.messages import Form
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import OFFSET, Limit, Offset, Rejects, Task
from etl.delivery.identities import Identities
from etl.delivery.outlet import Outlet

SEND, DELETE_TOPIC, DELETE_ROUTE = 310, 215, 216
EVERYTHING = Limit(1 << 62)
_numbers = itertools.count()


def topic_of(server: RocketMq, queues: int = 4, attributes: str = "") -> str:
    """A new topic."""
    topic = f"case-{time.time_ns()}-{next(_numbers)}"
    server.create_topic(topic, queues, attributes)
    return topic


def reach(server: RocketMq) -> dict[str, Any]:
    """Options that every component needs."""
    servers = server.address.split(";")
    if server.account is None:
        return {"servers": servers}
    return {"servers": servers, "user": server.account.user, "password": server.account.password}


def source_of(server: RocketMq, topic: str, **options: Any) -> RocketmqSource:
    return RocketmqSource.model_validate({**reach(server), "topics": [topic], **options})


def sink_of(server: RocketMq, topic: str, **options: Any) -> RocketmqSink:
    return RocketmqSink.model_validate({**reach(server), "topic": topic, **options})


def outlet_of(sink: RocketmqSink, batch: pa.RecordBatch, reject: Callable[[Rejects], None], **more: Any) -> Outlet:
    """The sink as the engine runs it."""
    task = Task("p", "out", "split-1", "/nowhere", batch.schema, identity="case")
    return Outlet("out", sink, sink.open(task), reject, Identities("case"), **more)


def events(count: int, **columns: Any) -> pa.RecordBatch:
    """Numbered events."""
    given = {"message": [f"event {n}" for n in range(count)], **columns}
    return pa.RecordBatch.from_pydict({**given, OFFSET: pa.array(range(count), pa.int64())})


def put(server: RocketMq, topic: str, batch: pa.RecordBatch, **options: Any) -> list[Rejects]:
    """Send events through the sink; what it rejected."""
    rejected: list[Rejects] = []
    outlet = outlet_of(sink_of(server, topic, **options), batch, rejected.append)
    try:
        outlet.take(batch)
    except BaseException:
        outlet.abort()
        raise
    outlet.close()
    return rejected


def send_one(server: RocketMq, topic: str, body: bytes, flags: int = 0, properties: str = "", queue: int = 0) -> None:
    """A message as producers send one that they have compressed."""
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
    connection = Connection(server.broker, source_of(server, topic).access())
    connection.call(SEND, {**fields, "j": "0", "k": "false", "m": "false"}, body)
    connection.close()


def send_at_once(server: RocketMq, topic: str, batch: pa.RecordBatch, queue: int = 0, **form: Any) -> None:
    """Messages as Java's producers send several at once: the request has an id, by which brokers keep them together where the
    topic's type is BatchCQ."""
    body = Form(body="message", **form).messages(batch).joined(np.arange(len(batch)))
    fields = {"a": "case", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "0", "h": "0"}
    fields |= {"i": f"UNIQ_KEY\x01{time.time_ns():032X}\x02", "j": "0", "k": "false", "m": "true"}
    connection = Connection(server.broker, source_of(server, topic).access())
    connection.call(SEND_BATCH, fields, bytes(body))
    connection.close()


def delete_topic(server: RocketMq, topic: str) -> None:
    access = source_of(server, topic).access()
    for place, code in ((server.broker, DELETE_TOPIC), *((names.address, DELETE_ROUTE) for names in server.names)):
        connection = Connection(place, access)
        connection.call(code, {"topic": topic})
        connection.close()


def taken(source: RocketmqSource, start: Offset, count: int) -> Offset:
    """Where a micro-batch ends that holds so many messages; brokers need a moment to list what they have stored."""
    begun = sum(start["queues"].values())
    ends: list[Offset] = []

    def enough() -> bool:
        ends.append(source.latest(start, EVERYTHING))
        return sum(ends[-1]["queues"].values()) - begun >= count

    wait_for(enough, 30, f"{count} messages")
    return ends[-1]


def read(source: RocketmqSource, start: Offset, end: Offset, parallelism: int = 2) -> list[Any]:
    """Rows of events, and rejects."""
    found: list[Any] = []
    for split in source.splits(start, end, parallelism):
        for batch in source.read(split):
            found += [batch] if isinstance(batch, Rejects) else rows_of(batch)
    return found


def read_all(source: RocketmqSource, count: int) -> list[Any]:
    """Everything there is in a new topic."""
    start = source.start()
    return read(source, start, taken(source, start, count))


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [column.cast(pa.string()) if column.type == pa.string_view() else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def texts(rows: Iterable[Any], name: str = "message") -> list[Any]:
    return sorted(row[name] for row in rows)


def numbered(count: int) -> Sequence[str]:
    return sorted(f"event {n}" for n in range(count))
