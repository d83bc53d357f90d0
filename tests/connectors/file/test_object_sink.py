"""The `file` sink on an S3 server: parts appear whole, once, also after a crash at any point of the commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers.object_store import ObjectStore

from connectors.file.sink import FileSink
from connectors.file.writing.stores import RemoteStore
from etl.api import OFFSET, BatchId, Staged, Task

BUCKET = "out"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        started.client().create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture
def s3(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    client = store.client()
    yield client
    for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=one["Key"])


def sink_of(**options: Any) -> FileSink:
    path = f"s3://{BUCKET}/logs/{{host}}/"
    return FileSink.model_validate({"type": "file", "path": path, **options})


def stage(sink: FileSink, folder: Path, numbers: range, batch: int) -> Staged:
    """Stage events of one split."""
    rows = [{"n": number, "host": "ab"[number % 2], OFFSET: number} for number in numbers]
    events = pa.RecordBatch.from_pylist(rows, schema=pa.schema([("n", pa.int64()), ("host", pa.string()), (OFFSET, pa.int64())]))
    staging = folder / f"staging-{batch}"
    staging.mkdir(exist_ok=True)
    writer = sink.open(Task("p", "out", "s", str(staging), events.drop_columns([OFFSET]).schema, BatchId("q", batch)))
    writer.write(events)
    staged = writer.close()
    assert staged is not None
    return staged


def numbers_in(s3: Any, name: str = "") -> list[int]:
    """All events in the bucket."""
    found: list[int] = []
    for one in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        body = s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
        if one["Key"].endswith(".parquet"):
            found += pq.read_table(pa.BufferReader(body))["n"].to_pylist()
        else:
            found += [json.loads(line)["n"] for line in body.splitlines()]
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_parts_are_published_at_the_end_of_the_run_and_once(store: ObjectStore, s3: Any, tmp_path: Path, format_: str) -> None:
    sink = sink_of(format=format_)
    (tmp_path / "state").mkdir()
    committer = sink.committer(str(tmp_path / "state"))
    staged = stage(sink, tmp_path, range(10), 0)

    committer.commit(BatchId("q", 0), [staged])
    committer.commit(BatchId("q", 0), [staged])
    committer.commit(BatchId("q", 1), [stage(sink, tmp_path, range(10, 20), 1)])
    assert numbers_in(s3) == []  # they wait for a part that is full or old
    committer.close()
    sink.committer(str(tmp_path / "state")).close()

    assert numbers_in(s3) == list(range(20))
    assert not s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads")


def test_a_crash_while_parts_are_published_repeats_nothing(
    store: ObjectStore, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(roll={"max_bytes": "1B"})
    (tmp_path / "state").mkdir()
    committer = sink.committer(str(tmp_path / "state"))
    put, puts = RemoteStore.put, []

    def crash(self: RemoteStore, file: str, path: str) -> None:
        put(self, file, path)
        puts.append(path)
        raise KeyboardInterrupt  # nothing after the upload of the first part happens

    with monkeypatch.context() as patched:
        patched.setattr(RemoteStore, "put", crash)
        with pytest.raises(KeyboardInterrupt):
            committer.commit(BatchId("q", 0), [stage(sink, tmp_path, range(10), 0)])
    again = sink.committer(str(tmp_path / "state"))
    again.commit(BatchId("q", 0), [stage(sink, tmp_path, range(10), 0)])
    again.close()

    assert puts
    assert numbers_in(s3) == list(range(10))
