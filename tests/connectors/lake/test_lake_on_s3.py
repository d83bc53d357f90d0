"""The sink `lake` with tables on an S3 server: moto in a process of its own, because delta-rs holds the interpreter's lock
while it waits for an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lake_writing import batch_of, deliver, delta_storage, iceberg_storage, sorted_rows, stage
from pyiceberg.catalog import load_catalog
from servers.object_store import StoreProcess

from connectors.lake.sink import LakeSink
from etl.api import BatchId

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("n", pa.int64()), ("host", pa.string())])


@pytest.fixture(scope="module")
def store() -> Iterator[StoreProcess]:
    with StoreProcess() as found:
        found.client().create_bucket(Bucket="lake")
        yield found


def keys(store: StoreProcess, prefix: str) -> list[str]:
    """Data files in the bucket."""
    found = store.client().list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", ())
    return [one["Key"] for one in found if one["Key"].endswith(".parquet")]


def test_a_table_of_delta_lake_on_s3(store: StoreProcess, tmp_path: Path) -> None:
    options = {
        "format": "delta",
        "table": "s3://lake/delta/events",
        "partition_by": ["host"],
        "storage": delta_storage(store.address),
    }
    sink = LakeSink.model_validate(options)
    sink.prepare(SCHEMA)
    stage(sink, tmp_path, batch_of([{"n": 1, "host": "a"}], SCHEMA))  # a killed attempt
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1, "host": "a"}, {"n": 2, "host": "b"}], SCHEMA))
    assert staged is not None
    committer = sink.committer(str(tmp_path))

    committer.commit(BatchId("q1", 0), [staged])
    committer.commit(BatchId("q1", 0), [staged])
    deliver(sink, tmp_path, [{"n": 3, "host": "a"}], SCHEMA, 1)

    table = DeltaTable("s3://lake/delta/events", storage_options=dict(delta_storage(store.address)))
    assert sorted_rows(table.to_pyarrow_table().to_pylist()) == [
        {"n": 1, "host": "a"},
        {"n": 2, "host": "b"},
        {"n": 3, "host": "a"},
    ]
    assert len(keys(store, "delta/")) == 3
    assert sink.lake_table().compact(1 << 20, "zstd") == 2


def test_a_table_of_iceberg_on_s3(store: StoreProcess, tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": "s3://lake/iceberg"}
    options = {"format": "iceberg", "table": "logs.events", "catalog": catalog, "storage": iceberg_storage(store.address)}
    sink = LakeSink.model_validate(options)
    sink.prepare(SCHEMA)
    stage(sink, tmp_path, batch_of([{"n": 1, "host": "a"}], SCHEMA))  # a killed attempt
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1, "host": "a"}], SCHEMA))
    assert staged is not None
    committer = sink.committer(str(tmp_path))

    committer.commit(BatchId("q1", 0), [staged])
    committer.commit(BatchId("q1", 0), [staged])
    deliver(sink, tmp_path, [{"n": 2, "host": "a"}], SCHEMA, 1)

    table = load_catalog("default", **catalog, **iceberg_storage(store.address)).load_table("logs.events")
    assert sorted_rows(table.scan().to_arrow().to_pylist()) == [{"n": 1, "host": "a"}, {"n": 2, "host": "a"}]
    assert len(keys(store, "iceberg/")) == 2
    assert sink.lake_table().compact(1 << 20, "zstd") == 2
