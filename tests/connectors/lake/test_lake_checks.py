"""What `etl lint` says of the sink `lake`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from connectors.lake.sink import LakeSink
from etl.api import TIMESTAMP

SCHEMA = pa.schema([("n", pa.int64()), ("host", pa.string()), ("user.name", pa.string()), ("at", TIMESTAMP)])
CATALOG = {"type": "sql", "uri": "sqlite:///catalog.db"}


def found(schema: pa.Schema = SCHEMA, **options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    """Codes and paths of the findings."""
    sink = LakeSink.model_validate({"type": "lake", "format": "delta", "table": "out", **options})
    return [(finding.code, finding.path) for finding in sink.check(schema)]


@pytest.mark.parametrize(
    "options",
    [
        {"partition_by": ["host"]},
        {"table": "s3://bucket/events"},
        {"format": "iceberg", "table": "logs.events", "catalog": CATALOG},
        {"format": "iceberg", "table": "a.b.events", "catalog": {"type": "glue"}, "partition_by": ["day(at)", "user.name"]},
        {"format": "iceberg", "table": "a.b", "catalog": CATALOG, "partition_by": ["bucket(16, host)", "truncate(4, n)"]},
    ],
)
def test_these_are_right(options: dict[str, Any]) -> None:
    assert found(**options) == []


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"table": "ftp://host/x"}, "unknown-scheme", ("table",)),
        ({"catalog": CATALOG}, "unused-option", ("catalog",)),
        ({"format": "iceberg", "table": "logs.events"}, "missing-option", ()),
        ({"format": "iceberg", "table": "events", "catalog": CATALOG}, "bad-table-name", ("table",)),
        ({"format": "iceberg", "table": "s3://a.b/c", "catalog": CATALOG}, "bad-table-name", ("table",)),
        ({"format": "iceberg", "table": "a.b", "catalog": {"type": "rest"}}, "missing-option", ("catalog", "uri")),
        (
            {"format": "iceberg", "table": "a.b", "catalog": {"type": "rest", "uri": "host:8181"}},
            "unknown-scheme",
            ("catalog", "uri"),
        ),
        (
            {"format": "iceberg", "table": "a.b", "catalog": {"type": "sql", "uri": "cat.db"}},
            "unknown-scheme",
            ("catalog", "uri"),
        ),
        (
            {"format": "iceberg", "table": "a.b", "catalog": {"type": "sql", "uri": "postgresql://me:secret@host/db"}},
            "url-with-password",
            ("catalog", "uri"),
        ),
        ({"partition_by": ["hots"]}, "unknown-field", ("partition_by", 0)),
        ({"partition_by": ["host", "host"]}, "duplicate-name", ("partition_by", 1)),
        ({"partition_by": ["day(at)"]}, "unsupported-partition", ("partition_by", 0)),
        ({"partition_by": ["user.name"]}, "unsupported-partition", ("partition_by", 0)),
        (
            {"format": "iceberg", "table": "a.b", "catalog": CATALOG, "partition_by": ["day(host)"]},
            "unsupported-partition",
            ("partition_by", 0),
        ),
    ],
)
def test_these_are_wrong(options: dict[str, Any], code: str, path: tuple[str | int, ...]) -> None:
    assert found(**options) == [(code, path)]


@pytest.mark.parametrize(
    ("name", "type_", "code"),
    [
        ("unknown", pa.null(), "unsupported-type"),
        ("time", pa.duration("us"), "unsupported-type"),
        ("HOST", pa.string(), "bad-column-name"),
        ("a b", pa.string(), "bad-column-name"),
        ("HOST.name", pa.string(), "bad-column-name"),
        ("User.id", pa.string(), "bad-column-name"),
    ],
)
def test_fields_that_cannot_be_columns(name: str, type_: pa.DataType, code: str) -> None:
    assert found(SCHEMA.append(pa.field(name, type_))) == [(code, ())]


def test_bytes_are_no_partition_of_delta_lake() -> None:
    assert found(SCHEMA.append(pa.field("raw", pa.large_binary())), partition_by=["raw"]) == [
        ("unsupported-partition", ("partition_by", 0))
    ]


def test_a_table_has_one_target_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to("table")
    (tmp_path / "sub").mkdir()

    def targets(table: str, **options: Any) -> list[str]:
        return list(LakeSink.model_validate({"format": "delta", "table": table, **options}).targets())

    def iceberg(**catalog: Any) -> list[str]:
        return targets("a.b", format="iceberg", catalog={"type": "sql", **catalog})

    assert targets(f"{tmp_path}/table/") == targets(f"file://{tmp_path}/table") == targets(f"{tmp_path}/link")
    assert targets("s3a://b/t") == targets("s3://b/t/") != targets("s3://b/u")
    assert iceberg(uri=f"sqlite:///{tmp_path}/c.db") == iceberg(uri=f"sqlite:///{tmp_path}/sub/../c.db?timeout=3")
    assert iceberg(properties={"uri": "postgresql://me:hidden@host/db"}) == iceberg(uri="postgresql://host/db")
    assert iceberg(uri="postgresql://host/db") != iceberg(uri="postgresql://host/other")


@pytest.mark.parametrize("text", ["days(at)", "bucket(host)", "bucket(0, host)", "day(at", "a b", ""])
def test_a_partition_field_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValidationError):
        found(partition_by=[text])


def test_secrets_are_not_shown() -> None:
    sink = LakeSink.model_validate(
        {"format": "delta", "table": "s3://b/t", "storage": {"AWS_SECRET_ACCESS_KEY": "hidden1"}}
        | {"catalog": {"type": "rest", "uri": "http://c", "properties": {"token": "hidden2"}}}
    )

    assert "hidden" not in repr(sink) + sink.model_dump_json() + "".join(sink.targets())


@pytest.mark.slow
def test_checking_imports_neither_library() -> None:
    program = (
        "import sys, pyarrow as pa; from connectors.lake.sink import LakeSink;"
        "list(LakeSink.model_validate({'format': 'delta', 'table': 'x'}).check(pa.schema([('n', 'int64')])));"
        "print([name for name in ('deltalake', 'pyiceberg', 'numba', 'sqlalchemy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
