"""The `spark` source."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from connectors.spark import SparkSource
from etl.api import TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def codes(**options: Any) -> list[str]:
    return [finding.code for finding in SparkSource(**options).check()]


def test_formats_with_fixed_fields_need_no_declaration() -> None:
    source = SparkSource(format="rate", streaming=True)

    assert list(source.check()) == []
    assert source.streaming
    assert source.fields() == pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"format": "jdbc"}, "missing-fields"),
        ({"format": "parquet", "path": "/nowhere/at/all"}, "missing-fields"),
        ({"format": "json", "fields": {"a": "int"}}, "missing-path"),
        ({"format": "rate"}, "not-bounded"),
        ({"format": "jdbc", "streaming": True, "fields": {"a": "int"}}, "not-streaming"),
        ({"format": "json", "path": "x", "fields": {"a": "int", "a.b": "int"}}, "field-conflict"),
        ({"format": "json", "path": "x", "fields": {"level": "int", "Level": "int"}}, "field-conflict"),
        ({"format": "parqet", "fields": {"a": "int"}}, "unknown-format"),
    ],
)
def test_findings(options: dict[str, Any], code: str) -> None:
    assert codes(**options) == [code]


def test_unknown_formats_are_passed_to_spark() -> None:
    assert codes(format="com.example.Anything", fields={"a": "int"}) == []


def test_secrets_never_print_and_survive_pickling() -> None:
    source = SparkSource(
        format="jdbc",
        fields={"id": "bigint"},
        options={"url": "jdbc:mysql://root:hunter2@db/x", "user": "root", "password": "hunter2", "apiToken": 22, "fetchsize": 5},
    )

    printed = f"{source!r} {source} {source.model_dump()} {source.model_dump_json()}"

    assert "hunter2" not in printed
    assert "22" not in printed
    assert "root" in printed
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert copy.options["password"].get_secret_value() == "hunter2"


def test_fields_of_local_parquet_files_are_read_from_them(tmp_path: Path) -> None:
    table = pa.table(
        {"at": pa.array([0], pa.timestamp("ms", "UTC")), "source": [{"ip": "10.0.0.1"}], "n": pa.array([1], pa.uint32())}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")

    source = SparkSource(format="parquet", path=str(tmp_path))

    assert list(source.check()) == []
    assert source.fields() == pa.schema([("at", TIMESTAMP), ("source.ip", pa.string()), ("n", pa.int64())])


@pytest.mark.spark
def test_parquet_is_read_with_the_fields_found(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2024, 2, 29, 12, tzinfo=UTC)
    table = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC")), "source": [{"ip": "10.0.0.1", "port": 22}]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")

    rows = SparkSource(format="parquet", path=str(tmp_path)).load(spark).toArrow().to_pylist()

    assert rows == [{"at": at, "source": {"ip": "10.0.0.1", "port": 22}}]


@pytest.mark.spark
def test_json_members_are_selected_and_typed(spark: SparkSession, tmp_path: Path) -> None:
    event = {"id": 7, "left": "out", "customer": {"name": "Ada", "age": 36}, "@at": "2024-02-29T12:00:00Z", "tags": ["x"]}
    (tmp_path / "a.json").write_text(json.dumps(event) + "\n")
    fields = {"@at": "timestamp", "customer.name": "string", "id": "bigint", "missing.deep": "int", "tags": "array<string>"}

    frame = SparkSource(format="json", path=str(tmp_path), fields=fields).load(spark)

    assert frame.toArrow().to_pylist() == [
        {
            "@at": datetime(2024, 2, 29, 12, tzinfo=UTC),
            "customer": {"name": "Ada"},
            "id": 7,
            "missing": {"deep": None},
            "tags": ["x"],
        }
    ]


@pytest.mark.spark
def test_csv_columns_are_found_by_name_with_a_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("b,a,c\n2,1,3\n")

    frame = SparkSource(format="csv", path=str(tmp_path), options={"header": True}, fields={"a": "int", "b": "bigint"}).load(
        spark
    )

    assert frame.toArrow().to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.spark
def test_csv_columns_are_found_by_position_without_a_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("2;x\n")

    frame = SparkSource(format="csv", path=str(tmp_path), options={"sep": ";"}, fields={"n": "int", "s": "string"}).load(spark)

    assert frame.toArrow().to_pylist() == [{"n": 2, "s": "x"}]


@pytest.mark.spark
def test_a_streaming_source_gives_a_streaming_frame(spark: SparkSession) -> None:
    frame = SparkSource(format="rate", streaming=True, options={"rowsPerSecond": 5}, fields={"value": "string"}).load(spark)

    assert frame.isStreaming
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [("value", "string")]


@pytest.mark.spark
def test_followed_files_are_read_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"a": {"b": 1}}\n{"a": {"b": 2}}\n')
    source = SparkSource(format="json", path=str(tmp_path / "in"), streaming=True, fields={"a.b": "int"})

    query = (
        source.load(spark)
        .writeStream.format("memory")
        .queryName("followed")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)

    assert sorted(row.a.b for row in spark.table("followed").collect()) == [1, 2]
