"""The sink `lake` with Apache Iceberg, read back by PyIceberg and DuckDB."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_writing import batch_of, deliver, sorted_rows, stage
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from connectors.lake import rest_catalog
from connectors.lake.sink import LakeSink
from etl.api import TIMESTAMP, BatchId, ComponentError

SCHEMA = pa.schema([("n", pa.int64()), ("host", pa.string()), ("user.name", pa.string()), ("user.id", pa.int32())])


def catalog_options(folder: Path) -> dict[str, str]:
    """A catalog in a database of SQLite."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def iceberg(folder: Path, **options: Any) -> LakeSink:
    """The sink for the table `logs.events`."""
    table = {"type": "lake", "format": "iceberg", "table": "logs.events", "catalog": catalog_options(folder)}
    return LakeSink.model_validate(table | options)


def catalog(folder: Path) -> Catalog:
    return load_catalog("default", **catalog_options(folder))


def table_of(folder: Path) -> Table:
    return catalog(folder).load_table("logs.events")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of the table."""
    return sorted_rows(table_of(folder).scan().to_arrow().to_pylist())


def data_files(folder: Path) -> list[Path]:
    """All data files on disk."""
    return sorted((folder / "warehouse").rglob("*.parquet"))


def test_a_table_is_created_with_the_fields_as_columns(tmp_path: Path) -> None:
    deliver(iceberg(tmp_path), tmp_path, [{"n": 1, "host": "a", "user.name": "x", "user.id": 7}], SCHEMA)

    assert rows_of(tmp_path) == [{"n": 1, "host": "a", "user": {"name": "x", "id": 7}}]
    snapshot = table_of(tmp_path).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["sluice.query"], snapshot.summary["sluice.batch"]) == ("q1", "0")


def test_a_commit_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    sink = iceberg(tmp_path)
    deliver(sink, tmp_path, [{"n": 1}], SCHEMA, 0)

    deliver(sink, tmp_path, [{"n": 1}], SCHEMA, 0)  # as after a crash between this commit and Spark's
    deliver(sink, tmp_path, [{"n": 2}], SCHEMA, 1)
    deliver(sink, tmp_path, [{"n": 3}], SCHEMA, 0, query="other")

    assert [row["n"] for row in rows_of(tmp_path)] == [1, 2, 3]


def test_a_commit_is_found_in_the_history_and_by_the_property(tmp_path: Path) -> None:
    for number in range(3):
        deliver(iceberg(tmp_path), tmp_path, [{"n": number}], SCHEMA, number)
    deliver(iceberg(tmp_path), tmp_path, [{"n": 3}], SCHEMA, 0, query="other")
    table = table_of(tmp_path)
    with table.transaction() as change:
        change.remove_properties("sluice.committed.q1")  # as a table that was migrated
    deliver(iceberg(tmp_path), tmp_path, [{"n": 2}], SCHEMA, 2)
    iceberg(tmp_path).lake_table().expire(0)  # the snapshots of q1 are gone, but its property is not
    deliver(iceberg(tmp_path), tmp_path, [{"n": 3}], SCHEMA, 0, query="other")

    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3]


def test_files_of_killed_attempts_are_removed_by_the_commit(tmp_path: Path) -> None:
    sink = iceberg(tmp_path)
    sink.prepare(SCHEMA)
    stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))  # this attempt is never committed
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))
    assert staged is not None
    committer = sink.committer(str(tmp_path))

    committer.commit(BatchId("q1", 0), [staged])
    committer.commit(BatchId("q1", 0), [staged])

    assert len(data_files(tmp_path)) == 1
    assert [row["n"] for row in rows_of(tmp_path)] == [1]


def test_partitions_have_transforms(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("at", TIMESTAMP), ("day", pa.date32()), ("user.name", pa.string_view())])
    fields = ["day(at)", "user.name", "bucket(4, n)", "year(day)"]
    rows = [
        {"n": 1, "at": datetime(2026, 1, 1, 23, 59, tzinfo=UTC), "day": date(2025, 5, 5), "user.name": "a b/ü"},
        {"n": 2, "at": datetime(2026, 1, 2, tzinfo=UTC), "day": None, "user.name": None},
        {"n": 3, "at": datetime(1969, 12, 31, 23, tzinfo=UTC), "day": date(1969, 1, 1), "user.name": "a b/ü"},
    ]

    deliver(iceberg(tmp_path, partition_by=fields), tmp_path, rows, schema)

    table = table_of(tmp_path)
    assert [str(one.transform) for one in table.spec().fields] == ["day", "identity", "bucket[4]", "year"]
    assert [row["n"] for row in rows_of(tmp_path)] == [1, 2, 3]
    found = table.scan(row_filter="at >= '2026-01-02T00:00:00+00:00'")
    assert found.to_arrow()["n"].to_pylist() == [2]
    assert len(list(found.plan_files())) == 1
    assert table.scan(row_filter="user.name = 'a b/ü' and n = 3").to_arrow()["day"].to_pylist() == [date(1969, 1, 1)]
    deliver(iceberg(tmp_path, partition_by=fields), tmp_path, rows[:1], schema, 1)
    with pytest.raises(ComponentError, match=r"partitioned by day\(at\), user.name, bucket\(4, n\), year\(day\), and"):
        iceberg(tmp_path, partition_by=["hour(at)"]).prepare(schema)


def test_types_come_back_as_they_were(tmp_path: Path) -> None:
    values = {
        "n": 1,
        "@timestamp": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "a b": "blank",
        "i8": -3,
        "u32": 4_000_000_000,
        "f": 1.5,
        "flag": True,
        "naive": datetime(2026, 1, 2, 3, 4, 5, 678901),
        "price": Decimal("12.34"),
        "raw": b"\x00\xff",
        "tags": ["a", None],
        "codes": [("k", 1)],
        "word": "often",
        "view": "a text that is longer than twelve bytes",
    }
    types = {
        "n": pa.int64(),
        "@timestamp": TIMESTAMP,
        "a b": pa.string(),
        "i8": pa.int8(),
        "u32": pa.uint32(),
        "f": pa.float64(),
        "flag": pa.bool_(),
        "naive": pa.timestamp("us"),
        "price": pa.decimal128(10, 2),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
        "codes": pa.map_(pa.string(), pa.int64()),
        "word": pa.dictionary(pa.int32(), pa.string()),
        "view": pa.string_view(),
    }
    empty = dict.fromkeys(types)

    deliver(iceberg(tmp_path), tmp_path, [values, empty | {"n": 2}], pa.schema(list(types.items())))

    assert rows_of(tmp_path) == [values, empty | {"n": 2}]
    files = [str(file) for file in data_files(tmp_path)]
    assert duckdb.read_parquet(files).filter("n = 1").select("word", "tags").fetchall() == [("often", ["a", None])]


def test_new_fields_become_columns_and_types_become_wider(tmp_path: Path) -> None:
    first = pa.schema(
        [
            ("n", pa.int32()),
            ("user.id", pa.int32()),
            ("ratio", pa.float32()),
            ("price", pa.decimal128(5, 2)),
            ("l", pa.list_(pa.int32())),
        ]
    )
    deliver(iceberg(tmp_path), tmp_path, [{"n": 1, "user.id": 7, "ratio": 0.5, "price": Decimal("1.25"), "l": [1]}], first, 0)
    second = pa.schema(
        [
            ("n", pa.int64()),
            ("user.name", pa.string()),
            ("ratio", pa.float64()),
            ("price", pa.decimal128(9, 2)),
            ("l", pa.list_(pa.int64())),
        ]
    )

    deliver(
        iceberg(tmp_path),
        tmp_path,
        [{"n": 2**40, "user.name": "x", "ratio": 0.1, "price": Decimal("1.5"), "l": [2**40]}],
        second,
        1,
    )

    assert rows_of(tmp_path) == [
        {"n": 1, "user": {"id": 7, "name": None}, "ratio": 0.5, "price": Decimal("1.25"), "l": [1]},
        {"n": 2**40, "user": {"id": None, "name": "x"}, "ratio": 0.1, "price": Decimal("1.50"), "l": [2**40]},
    ]
    deliver(iceberg(tmp_path), tmp_path, [{"n": 3, "user.id": 8, "ratio": 0.5, "price": None, "l": [3]}], first, 2)
    assert rows_of(tmp_path)[1]["user"] == {"id": 8, "name": None}


def test_without_evolve_another_type_ends_the_run(tmp_path: Path) -> None:
    deliver(iceberg(tmp_path), tmp_path, [{"n": 1}], pa.schema([("n", pa.int32())]))
    wider = pa.schema([("n", pa.int64()), ("port", pa.int32())])

    with pytest.raises(ComponentError, match=r"change its columns port \(int\), n \(int to bigint\), and evolve is false"):
        iceberg(tmp_path, evolve=False).prepare(wider)
    assert [finding.code for finding in iceberg(tmp_path, evolve=False).probe(wider)] == ["table-mismatch"]
    with pytest.raises(ComponentError, match="column 'n' is int, and the field is string"):
        iceberg(tmp_path).prepare(pa.schema([("n", pa.string())]))


def test_a_table_that_was_replaced_during_a_run_is_not_written_to(tmp_path: Path) -> None:
    sink = iceberg(tmp_path)
    sink.prepare(SCHEMA)
    staged, _ = stage(sink, tmp_path, batch_of([{"n": 1}], SCHEMA))
    assert staged is not None
    catalog(tmp_path).drop_table("logs.events")
    iceberg(tmp_path).prepare(SCHEMA)

    with pytest.raises(ComponentError, match=r"logs.events was replaced .* start again"):
        iceberg(tmp_path).committer(str(tmp_path)).commit(BatchId("q1", 0), [staged])


@pytest.mark.slow
def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    iceberg(tmp_path).prepare(SCHEMA)
    failures: list[BaseException] = []

    def write(query: str) -> None:
        sink = iceberg(tmp_path)
        committer = sink.committer(str(tmp_path))
        for number in range(5):
            staged, _ = stage(sink, tmp_path / query, batch_of([{"n": number, "host": query}], SCHEMA), number, query=query)
            assert staged is not None
            for _ in range(50):
                try:
                    committer.commit(BatchId(query, number), [staged])
                    break
                except OSError:  # as the engine does after its backoff
                    continue
                except BaseException as error:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=write, args=(f"query{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    assert sorted((row["host"], row["n"]) for row in rows_of(tmp_path)) == [(f"query{a}", b) for a in range(3) for b in range(5)]


@pytest.mark.slow
def test_small_files_are_merged_and_old_snapshots_removed(tmp_path: Path) -> None:
    sink = iceberg(tmp_path, partition_by=["truncate(1, host)"], compact={"every": "1s", "target_size": "1MiB", "keep": "1h"})
    for number in range(6):
        deliver(sink, tmp_path, [{"n": number, "host": "ab"[number % 2]}], SCHEMA, number)
    committer = sink.committer(str(tmp_path))

    committer.maintain()
    assert [len(list(table_of(tmp_path).scan(row_filter=f"host = '{host}'").plan_files())) for host in "ab"] == [1, 1]
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4, 5]
    assert len(data_files(tmp_path)) == 8  # readers of older snapshots still have theirs
    sink.lake_table().expire(0)

    assert len(data_files(tmp_path)) == 2
    assert len(table_of(tmp_path).metadata.snapshots) == 1
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4, 5]
    deliver(sink, tmp_path, [{"n": 5}], SCHEMA, 5)
    deliver(sink, tmp_path, [{"n": 6}], SCHEMA, 6)
    assert [row["n"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("compression", "codec"), [("snappy", "SNAPPY"), ("none", "UNCOMPRESSED"), ("zstd", "ZSTD")])
def test_merged_files_are_compressed_as_the_option_says(tmp_path: Path, compression: str, codec: str) -> None:
    sink = iceberg(tmp_path, compression=compression, compact={"target_size": "1MiB"})
    for number in range(3):
        deliver(sink, tmp_path, [{"n": number}], SCHEMA, number)

    sink.committer(str(tmp_path)).maintain()

    (task,) = table_of(tmp_path).scan().plan_files()
    metadata = pq.read_metadata(task.file.file_path.removeprefix("file://"))
    assert {metadata.row_group(0).column(number).compression for number in range(metadata.num_columns)} == {codec}


def test_an_empty_property_of_a_catalog_is_left_out(tmp_path: Path) -> None:
    properties = {"token": "", "credential": "", "header.x": "y"}
    sink = iceberg(tmp_path, catalog={"type": "rest", "uri": "http://127.0.0.1:1", "properties": properties})

    assert sink.catalog is not None
    assert sink.catalog.client_properties() == {"type": "rest", "uri": "http://127.0.0.1:1", "header.x": "y"}


def test_a_catalog_that_is_down_is_temporary_and_its_password_stays_hidden(tmp_path: Path) -> None:
    down = iceberg(tmp_path, catalog={"type": "rest", "uri": "http://127.0.0.1:1", "properties": {"token": "hidden"}})

    with pytest.raises(OSError, match=r"logs\.events") as raised:
        down.prepare(SCHEMA)
    assert "hidden" not in str(raised.value)
    assert [(finding.code, finding.path) for finding in down.probe(SCHEMA)] == [("unreachable", ("catalog",))]


def test_long_partition_values_have_short_folders(tmp_path: Path) -> None:
    hosts = ["x" * 300, "é" * 100, "../a=b"]
    deliver(iceberg(tmp_path, partition_by=["host"]), tmp_path, [{"n": n, "host": host} for n, host in enumerate(hosts)], SCHEMA)

    assert [row["host"] for row in rows_of(tmp_path)] == hosts
    assert len(data_files(tmp_path)) == 3


def test_a_table_that_was_created_again_during_a_run_ends_it(tmp_path: Path) -> None:
    sink = iceberg(tmp_path)
    sink.prepare(SCHEMA)
    committer = sink.committer(str(tmp_path))
    for number in (0, 1):
        staged, _ = stage(sink, tmp_path, batch_of([{"n": number}], SCHEMA), number)
        if staged is not None and number == 0:
            committer.commit(BatchId("q1", number), [staged])
            catalog(tmp_path).drop_table("logs.events")
            iceberg(tmp_path).prepare(SCHEMA)

    assert staged is not None
    with pytest.raises(ComponentError, match="was replaced during the run: start again"):
        committer.commit(BatchId("q1", 1), [staged])
    assert rows_of(tmp_path) == []


def test_a_catalog_that_accepts_and_is_silent_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_catalog, "TIMEOUT_SECONDS", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for properties in ({"token": "hidden"}, {"credential": "me:hidden", "oauth2-server-uri": f"{uri}/token"}):
            sink = iceberg(tmp_path, catalog={"type": "rest", "uri": uri, "properties": properties})

            with pytest.raises(OSError, match=r"logs\.events: .*[Tt]imed? ?out") as caught:
                sink.prepare(SCHEMA)

            assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"type": "rest", "uri": "http://u:hidden@127.0.0.1:1/api"},
            OSError,
            "cannot connect to http://127.0.0.1:1: Connection refused",
        ),
        ({"type": "sql", "uri": "nosuch://x"}, ComponentError, "Can't load plugin: sqlalchemy.dialects:nosuch"),
        ({"type": "sql", "uri": "catalog.db"}, ComponentError, "Could not parse SQLAlchemy URL"),
        ({"type": "sql", "uri": "sqlite:///:memory:"}, ComponentError, "; set catalog.warehouse to where tables are created"),
    ],
)
def test_what_is_wrong_with_a_catalog_is_one_line(tmp_path: Path, options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        iceberg(tmp_path, catalog=options).prepare(SCHEMA)

    assert str(raised.value).startswith("logs.events: ")
    assert message in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert "\n" not in str(raised.value)
