"""A `redis` source and sink, and the client with which tests look at the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import redis as redis_py

from connectors.redis.sink import RedisSink
from connectors.redis.source import RedisSource
from etl.api import BatchId, Limit, Result, Task

FAR = Limit(1 << 62)


def client_of(server: Any) -> Any:
    return redis_py.Redis(server.host, server.port, password=server.password or None, decode_responses=True)


def create_source(server: Any, *streams: str, **options: Any) -> RedisSource:
    return RedisSource.model_validate({"type": "redis", "url": server.url, "streams": list(streams), **options})


def create_sink(server: Any, **options: Any) -> RedisSink:
    return RedisSink.model_validate({"type": "redis", "url": server.url, "key": "out", **options})


def numbers(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [int(json.loads(row["message"])["n"]) for row in rows]


def batch_of(first: int = 0, **columns: Sequence[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.record_batch({**columns, "_offset": pa.array(range(first, first + count), pa.int64())})


def task(number: int = 0, split: str = "s", ordered: bool = True) -> Task:
    return Task("test", "out", split, "/nowhere", pa.schema([]), BatchId("query", number), ordered=ordered)


def write(sink: RedisSink, *batches: pa.RecordBatch, at: Task | None = None) -> list[Result]:
    writer = sink.open(at or task())
    results = [writer.write(batch) for batch in batches]
    writer.close()
    return results
