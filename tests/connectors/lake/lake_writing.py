"""Writes events through the sink `lake` as the engine does, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from servers.object_store import REGION

from connectors.lake.sink import LakeSink
from etl.api import OFFSET, BatchId, Rejects, Staged, Task


def batch_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of flat events with offsets."""
    events = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    return events.append_column(OFFSET, pa.array(range(len(rows)), pa.int64()))


def stage(
    sink: LakeSink, folder: Path, batch: pa.RecordBatch, number: int = 0, split: str = "a", query: str = "q1"
) -> tuple[Staged | None, list[Rejects]]:
    """Write a split and return what a commit gets, and the rejected events."""
    staging = folder / f"staging-{query}-{number}"
    staging.mkdir(parents=True, exist_ok=True)
    task = Task("p", "out", split, str(staging), batch.drop_columns([OFFSET]).schema, BatchId(query, number))
    writer = sink.open(task)
    result = writer.write(batch)
    return writer.close(), list(result.rejected)


def deliver(
    sink: LakeSink, folder: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema, number: int = 0, query: str = "q1"
) -> list[Rejects]:
    """Prepare the table, write a split and commit it."""
    sink.prepare(schema)
    staged, rejected = stage(sink, folder, batch_of(rows, schema), number, query=query)
    sink.committer(str(folder)).commit(BatchId(query, number), [staged] if staged else [])
    return rejected


def sorted_rows(rows: Iterable[dict[str, Any]], key: str = "n") -> list[dict[str, Any]]:
    """Rows by a field."""
    return sorted(rows, key=lambda row: row[key])


def delta_storage(address: str) -> Mapping[str, str]:
    """Options of a table of Delta Lake on the S3 server of the tests."""
    return {
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
    }


def iceberg_storage(address: str) -> Mapping[str, str]:
    """Options of a table of Iceberg on the S3 server of the tests."""
    return {
        "s3.endpoint": f"http://{address}",
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": REGION,
    }
