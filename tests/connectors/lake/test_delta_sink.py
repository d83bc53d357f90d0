"""The sink `lake` with Delta Lake, read back by delta-rs and DuckDB."""

from __future__ import annotations

import json
import os
import shutil
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lake_writing import batch_of, deliver, sorted_rows, stage

from connectors.lake.sink import LakeSink
from etl.api import OFFSET, TIMESTAMP, BatchId, ComponentError

SCHEMA = pa.schema([("n", pa.int64()), ("host", pa.string()), ("user.name", pa.string()), ("user.id", pa.int32())])


def delta(folder: Path, **options: Any) -> LakeSink:
    """The sink for a table in a folder."""
    return LakeSink.model_validate({"type": "lake", "format": "delta", "table": str(folder / "table"), **options})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of the table."""
    return sorted_rows(DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist())


def data_files(folder: Path) -> list[Path]:
    """All data files on disk."""
    return sorted((folder / "table").rglob("*.parquet"))


def test_a_table_is_created_with_the_fields_as_columns(tmp_path: Path) -> None:
    deliver(delta(tmp_path), tmp_path, [{"n": 1, "host": "a", "user.name": "x", "user.id": 7}], SCHEMA)

    assert rows_of(tmp_path) == [{"n": 1, "host": "a", "user": {"name": "x", "id": 7}}]


def test_a_commit_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    sink = delta(tmp_path)
    deliver(sink, tmp_path, [{"n": 1}], SCHEMA, 0)

    deliver(sink, tmp_path, [{"n": 1}], SCHEMA, 0)  # as after a crash between this commit and Spark's
    deliver(sink, tmp_path, [{"n": 2}], SCHEMA, 1)

    assert [row["n"] for row in rows_of(tmp_path)] == [1, 2]


def test_a_commit_that_is_repeated_with_the_same_files_keeps_them(tmp_path: Path) -> None:
    sink = delta(tmp_path)
    sink.prepare(SCHEMA)
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))
    assert staged is not None
    committer = sink.committer(str(tmp_path))

    committer.commit(BatchId("q1", 0), [staged])
    committer.commit(BatchId("q1", 0), [staged])  # as after an answer that was lost

    assert [row["n"] for row in rows_of(tmp_path)] == [1]


def test_queries_are_told_apart_by_their_checkpoints(tmp_path: Path) -> None:
    deliver(delta(tmp_path), tmp_path, [{"n": 1}], SCHEMA, 0, query="one")
    deliver(delta(tmp_path), tmp_path, [{"n": 2}], SCHEMA, 0, query="two")

    assert [row["n"] for row in rows_of(tmp_path)] == [1, 2]
    table = DeltaTable(str(tmp_path / "table"))
    assert (table.transaction_version("sluice-one"), table.transaction_version("sluice-two")) == (0, 0)


def test_files_of_killed_attempts_are_removed_by_the_commit(tmp_path: Path) -> None:
    sink = delta(tmp_path)
    sink.prepare(SCHEMA)
    stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))  # this attempt is never committed
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))
    assert staged is not None
    assert len(data_files(tmp_path)) == 2

    sink.committer(str(tmp_path)).commit(BatchId("q1", 0), [staged])

    assert len(data_files(tmp_path)) == 1
    assert [row["n"] for row in rows_of(tmp_path)] == [1]


def test_an_aborted_split_leaves_no_file(tmp_path: Path) -> None:
    sink = delta(tmp_path, partition_by=["host"])
    sink.prepare(SCHEMA)
    from etl.api import Task

    writer = sink.open(Task("p", "out", "a", str(tmp_path), SCHEMA, BatchId("q1", 0)))
    for number in range(70):  # more partitions than open files
        writer.write(batch_of([{"n": number, "host": f"h{number}"}], SCHEMA))
    assert data_files(tmp_path)

    writer.abort()

    assert not data_files(tmp_path)


def test_partitions_are_folders_and_values_come_from_the_log(tmp_path: Path) -> None:
    rows = [{"n": number, "host": host} for number, host in enumerate(["a", "b/..%2F", "a", None, "", "ü x"])]

    deliver(delta(tmp_path, partition_by=["host"]), tmp_path, rows, SCHEMA)

    assert [row["host"] for row in rows_of(tmp_path)] == ["a", "b/..%2F", "a", None, None, "ü x"]
    assert {file.parent.name for file in data_files(tmp_path)} == {
        "host=a",
        "host=b_.._2F",
        "host=__HIVE_DEFAULT_PARTITION__",
        "host=__x",
    }
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table(filters=[("host", "=", "a")]).num_rows == 2


def test_types_come_back_as_they_were(tmp_path: Path) -> None:
    values = {
        "n": 1,
        "i8": -3,
        "u16": 65535,
        "u32": 4_000_000_000,
        "u64": 2**64 - 1,
        "f": 1.5,
        "flag": True,
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "naive": datetime(2026, 1, 2, 3, 4, 5, 678901),
        "day": date(2026, 1, 2),
        "price": Decimal("12.34"),
        "raw": b"\x00\xff",
        "tags": ["a", None],
        "codes": [("k", 1)],
        "word": "often",
        "view": "a text that is longer than twelve bytes",
    }
    types = {
        "n": pa.int64(),
        "i8": pa.int8(),
        "u16": pa.uint16(),
        "u32": pa.uint32(),
        "u64": pa.uint64(),
        "f": pa.float64(),
        "flag": pa.bool_(),
        "at": TIMESTAMP,
        "naive": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
        "codes": pa.map_(pa.string(), pa.int64()),
        "word": pa.dictionary(pa.int32(), pa.string()),
        "view": pa.string_view(),
    }
    empty = dict.fromkeys(types)

    deliver(delta(tmp_path), tmp_path, [values, empty | {"n": 2}], pa.schema(list(types.items())))

    assert rows_of(tmp_path) == [values, empty | {"n": 2}]
    files = [str(file) for file in data_files(tmp_path)]
    assert duckdb.read_parquet(files).filter("n = 1").select("word", "price", "u64").fetchall() == [
        ("often", Decimal("12.34"), Decimal(2**64 - 1))
    ]


def test_new_fields_become_columns_also_in_structs(tmp_path: Path) -> None:
    first = pa.schema([("n", pa.int64()), ("user.id", pa.int32())])
    deliver(delta(tmp_path), tmp_path, [{"n": 1, "user.id": 7}], first, 0)
    second = pa.schema([("n", pa.int64()), ("user.name", pa.string()), ("net.ip", pa.string())])

    deliver(delta(tmp_path), tmp_path, [{"n": 2, "user.name": "x", "net.ip": "::1"}], second, 1)

    assert rows_of(tmp_path) == [
        {"n": 1, "user": {"id": 7, "name": None}, "net": None},
        {"n": 2, "user": {"id": None, "name": "x"}, "net": {"ip": "::1"}},
    ]


def test_without_evolve_a_new_field_ends_the_run(tmp_path: Path) -> None:
    deliver(delta(tmp_path), tmp_path, [{"n": 1}], SCHEMA)
    wider = SCHEMA.append(pa.field("port", pa.int32()))

    with pytest.raises(ComponentError, match=r"no columns for port \(int\), and evolve is false"):
        delta(tmp_path, evolve=False).prepare(wider)
    assert [finding.code for finding in delta(tmp_path, evolve=False).probe(wider)] == ["table-mismatch"]
    assert not list(delta(tmp_path).probe(wider))


def test_a_field_of_another_type_ends_the_run_and_says_what_to_do(tmp_path: Path) -> None:
    deliver(delta(tmp_path), tmp_path, [{"n": 1}], SCHEMA)

    with pytest.raises(ComponentError, match=r"column 'n' is bigint, and the field is string: cast it .*cast\(`n` as bigint\)"):
        delta(tmp_path).prepare(pa.schema([("n", pa.string())]))
    with pytest.raises(ComponentError, match="column 'n', which differs from 'N' in case only"):
        delta(tmp_path).prepare(pa.schema([("N", pa.int64())]))


def test_integers_that_are_too_large_for_a_column_are_dead_letters(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([("n", pa.int64()), ("port", pa.int16()), ("ratio", pa.float64())]))
    schema = pa.schema([("n", pa.int64()), ("port", pa.int64()), ("ratio", pa.int64())])
    rows = [{"n": 1, "port": 80, "ratio": 3}, {"n": 2, "port": 70000}, {"n": 3, "ratio": 2**53 + 1}, {"n": 4}]

    rejected = deliver(delta(tmp_path), tmp_path, rows, schema)

    assert [row["n"] for row in rows_of(tmp_path)] == [1, 4]
    assert [(one.code, one.events["n"].to_pylist()) for one in rejected] == [("does-not-fit", [2]), ("does-not-fit", [3])]
    assert rejected[0].reasons == "port is too large for the column, smallint"


def test_a_null_where_the_table_forbids_it_is_a_dead_letter(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([pa.field("n", pa.int64(), nullable=False), ("host", pa.string())]))

    rejected = deliver(delta(tmp_path), tmp_path, [{"n": 1}, {"host": "a"}], SCHEMA)

    assert [row["n"] for row in rows_of(tmp_path)] == [1]
    assert [one.reasons for one in rejected] == ["n is null, and the column must not be"]
    with pytest.raises(ComponentError, match="no field for the column 'n', which must not be null"):
        delta(tmp_path).prepare(pa.schema([("host", pa.string())]))


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [({"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, "mapped")],
)
def test_a_table_with_rules_that_an_append_must_follow_is_refused(
    tmp_path: Path, configuration: dict[str, str], reason: str
) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([("n", pa.int64())]), configuration=configuration)

    with pytest.raises(ComponentError, match=reason):
        delta(tmp_path).prepare(pa.schema([("n", pa.int64())]))


def test_a_table_with_constraints_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([("n", pa.int64())])).alter.add_constraint({"positive": "n > 0"})

    with pytest.raises(ComponentError, match="has constraints"):
        delta(tmp_path).prepare(pa.schema([("n", pa.int64())]))


def test_another_partitioning_ends_the_run(tmp_path: Path) -> None:
    deliver(delta(tmp_path, partition_by=["host"]), tmp_path, [{"n": 1}], SCHEMA)

    with pytest.raises(ComponentError, match="it is partitioned by host, and partition_by says n"):
        delta(tmp_path, partition_by=["n"]).prepare(SCHEMA)


def test_the_log_says_what_readers_may_skip(tmp_path: Path) -> None:
    long, schema = "z" * 40, pa.schema([("n", pa.int64()), ("text", pa.string()), ("at", TIMESTAMP), ("f", pa.float64())])
    rows = [
        {"n": 5, "text": "b", "at": datetime(2026, 1, 1, tzinfo=UTC), "f": float("nan")},
        {"n": 9, "text": long, "at": None, "f": 1.0},
    ]

    deliver(delta(tmp_path), tmp_path, rows, schema)

    log = (tmp_path / "table" / "_delta_log" / "00000000000000000001.json").read_text().splitlines()
    added = next(action["add"] for action in map(json.loads, log) if "add" in action)
    assert json.loads(added["stats"]) == {
        "numRecords": 2,
        "minValues": {"n": 5, "text": "b", "at": "2026-01-01T00:00:00.000000Z"},
        "maxValues": {"n": 9, "text": "z" * 32 + "\U0010ffff", "at": "2026-01-01T00:00:00.000000Z"},
        "nullCount": {"n": 0, "text": 0, "at": 1, "f": 0},
    }
    table = DeltaTable(str(tmp_path / "table")).to_pyarrow_dataset()
    assert table.to_table(filter=pa.compute.field("text") == long).num_rows == 1


@pytest.mark.slow
def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    sink = delta(tmp_path)
    sink.prepare(SCHEMA)
    failures: list[BaseException] = []

    def write(query: str) -> None:
        try:
            for number in range(8):
                deliver(delta(tmp_path), tmp_path / query, [{"n": number, "host": query}], SCHEMA, number, query)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"query{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    assert sorted((row["host"], row["n"]) for row in rows_of(tmp_path)) == [(f"query{a}", b) for a in range(4) for b in range(8)]


@pytest.mark.parametrize(("compression", "codec"), [("snappy", "SNAPPY"), ("none", "UNCOMPRESSED"), ("zstd", "ZSTD")])
def test_merged_files_are_compressed_as_the_option_says(tmp_path: Path, compression: str, codec: str) -> None:
    sink = delta(tmp_path, compression=compression, compact={"target_size": "1MiB"})
    for number in range(3):
        deliver(sink, tmp_path, [{"n": number}], SCHEMA, number)

    sink.committer(str(tmp_path)).maintain()

    (file,) = DeltaTable(str(tmp_path / "table")).file_uris()
    metadata = pq.read_metadata(file)
    assert {metadata.row_group(0).column(number).compression for number in range(metadata.num_columns)} == {codec}


def test_small_files_are_merged_and_old_versions_removed(tmp_path: Path) -> None:
    sink = delta(tmp_path, compact={"every": "1s", "target_size": "1MiB", "keep": "1h"})
    for number in range(5):
        deliver(sink, tmp_path, [{"n": number}], SCHEMA, number)
    committer = sink.committer(str(tmp_path))

    committer.maintain()
    assert len(DeltaTable(str(tmp_path / "table")).file_uris()) == 1
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4]
    assert len(data_files(tmp_path)) == 6  # readers of older versions still have theirs
    sink.lake_table().expire(0)

    assert len(data_files(tmp_path)) == 1
    deliver(sink, tmp_path, [{"n": 4}], SCHEMA, 4)  # what the table remembers of queries survives
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_table_that_was_created_again_during_a_run_gets_no_files_of_the_old_one(tmp_path: Path) -> None:
    sink = delta(tmp_path)
    sink.prepare(SCHEMA)
    committer = sink.committer(str(tmp_path))
    for number in (0, 1):
        staged, _ = stage(sink, tmp_path, batch_of([{"n": number}], SCHEMA), number)
        assert staged is not None
        if number == 1:
            shutil.rmtree(tmp_path / "table")
            sink.prepare(SCHEMA)
            with pytest.raises(ComponentError, match="was replaced or partitioned otherwise during the run: start again"):
                committer.commit(BatchId("q1", number), [staged])
        else:
            committer.commit(BatchId("q1", number), [staged])

    assert rows_of(tmp_path) == []


def test_fields_that_the_table_lacks_since_the_start_of_a_run_end_it(tmp_path: Path) -> None:
    delta(tmp_path).prepare(pa.schema([("n", pa.int64())]))

    with pytest.raises(ComponentError, match=r"was changed during the run and lacks host \(string\).*: start again"):
        stage(delta(tmp_path), tmp_path, batch_of([{"n": 1, "host": "a"}], SCHEMA))


def test_times_beyond_microseconds_are_dead_letters(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("s"))])
    delta(tmp_path).prepare(schema)
    times = pa.array([1 << 60, -(1 << 60), 5, None], pa.int64()).cast(pa.timestamp("s"))
    batch = pa.RecordBatch.from_arrays([pa.array(range(4)), times, pa.array(range(4))], names=["n", "at", OFFSET])

    staged, rejected = stage(delta(tmp_path), tmp_path, batch)

    assert staged is not None
    assert [one.events["n"].to_pylist() for one in rejected] == [[0, 1]]
    assert staged.events == 2


def test_small_decimals_are_partition_values_without_an_exponent(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("price", pa.decimal128(20, 9))])
    deliver(delta(tmp_path, partition_by=["price"]), tmp_path, [{"n": 1, "price": Decimal("0.000000001")}], schema)

    log = (tmp_path / "table" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    added = [json.loads(line)["add"] for line in log if "add" in json.loads(line)]
    assert [one["partitionValues"] for one in added] == [{"price": "0.000000001"}]


def test_versions_are_kept_as_long_as_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours: list[int] = []
    monkeypatch.setattr(DeltaTable, "vacuum", lambda self, retention_hours, **_: hours.append(retention_hours))
    deliver(delta(tmp_path), tmp_path, [{"n": 1}], SCHEMA)

    delta(tmp_path).lake_table().expire(5400.0)

    assert hours == [2]


def test_a_commit_is_durable_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))

    for number in (0, 1):
        deliver(delta(tmp_path), tmp_path, [{"n": 1}], SCHEMA, number)

    assert [name for name in synced if name != "_delta_log"] == [f"{1:020d}.json", f"{2:020d}.json"]
