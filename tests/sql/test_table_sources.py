"""Tables of SQL over each kind of source: texts are read by a format, other sources get the columns as their fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_conformance import values

from etl.catalogue import installed
from etl.config.loader import inspect
from etl.sql.script import compile_script
from etl.sql.table_options.metadata import metadata_of
from etl.sql.table_options.options import Options, option_names

SOURCES: Mapping[str, type[Any]] = installed().families["source"]


def streams(text: str) -> dict[str, Any]:
    found = compile_script(text, installed())
    assert not found.errors, [str(error) for error in found.errors]
    return found.value


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_columns_are_fields_of_the_source_or_read_from_its_text(name: str) -> None:
    """Law: a source that takes no fields gives the text ``message``, which a format reads."""
    has_fields = "fields" in option_names(SOURCES[name])
    for example in values(SOURCES[name]):
        assert has_fields or example.fields().field("message").type == pa.string()

    value = streams(f"CREATE TABLE t (host STRING, n INT) WITH ('type' = '{name}'); SELECT host, n FROM t;")

    fields = {"host": "string", "n": "int"}
    rows = value["streams"].get("t_rows", {"steps": []})["steps"]
    assert value["sources"]["t"].get("fields") == (fields if has_fields else None)
    assert rows == ([] if has_fields else [{"type": "json", "fields": fields}])


@pytest.mark.parametrize(
    ("type_", "options"),
    [
        ("http", "'listen' = 'http://127.0.0.1:9000', 'format' = 'elasticsearch'"),
        ("beats", "'listen' = 'tcp://127.0.0.1:9001'"),
        ("forward", "'listen' = 'tcp://127.0.0.1:9002'"),
        ("redis", "'url' = 'redis://localhost:6379/0', 'streams' = '[logs]'"),
        ("mqtt", "'servers' = '[localhost:1883]', 'topics' = '[logs]', 'client_id' = 'etl'"),
        ("stream", "'name' = 'logins'"),
    ],
)
def test_a_table_over_a_receiver_is_a_pipeline(type_: str, options: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(
        f"CREATE TABLE t (host STRING, n INT) WITH ('type' = '{type_}', {options});\n"
        "CREATE TABLE o WITH ('type' = 'file', 'path' = 'out.jsonl');\nINSERT INTO o SELECT host, n + 1 AS m FROM t;\n"
    )
    checked = inspect(script)
    assert not [one for one in checked.problems if one.severity == "error"], [str(one) for one in checked.problems]


def test_lines_of_text_over_http_are_one_column() -> None:
    value = streams("CREATE TABLE t (line STRING) WITH ('type' = 'http', 'format' = 'text'); SELECT line FROM t;")
    assert value["streams"]["t_rows"]["steps"] == [{"type": "rename", "fields": {"message": "line"}}]
    assert value["sources"]["t"]["format"] == "text"


@pytest.mark.parametrize(
    ("name", "format_"), [(name, "") for name in ("beats", "forward", "mqtt", "redis", "syslog")]
    + [("http", one) for one in ("ndjson", "elasticsearch", "splunk_hec", "loki", "opentelemetry")],
)  # fmt: skip
def test_metadata_is_what_the_source_gives(name: str, format_: str) -> None:
    [example, *_] = values(SOURCES[name])
    if format_:
        example = SOURCES[name].model_validate({"type": name, "listen": "http://127.0.0.1:9000", "format": format_})

    known = metadata_of(Options("own", name, 0, texts={"format": format_}))

    assert {*known} == {*example.fields().names} - {"message"}


def test_columns_of_metadata_over_a_receiver() -> None:
    value = streams(
        "CREATE TABLE t (a STRING, tag STRING METADATA FROM 'fluent.tag' VIRTUAL) WITH ('type' = 'forward');\n"
        "SELECT a, tag FROM t;"
    )
    assert value["streams"]["t_rows"]["steps"] == [
        {"type": "json", "fields": {"a": "string"}},
        {"type": "set", "fields": {"tag": "CAST(fluent.tag AS STRING)"}},
    ]


@pytest.mark.parametrize(
    ("family", "type_", "format_", "is_of_component"),
    [
        ("sink", "lake", "iceberg", True),
        ("sink", "opentelemetry", "json", True),
        ("sink", "syslog", "rfc3164", True),
        ("sink", "console", "jsn", True),
        ("source", "kafka", "binary", True),
        ("source", "kafka", "json", False),
        ("source", "file", "csv", False),
    ],
)
def test_a_format_is_the_components_or_that_of_the_text(family: str, type_: str, format_: str, is_of_component: bool) -> None:
    """A value that the component does not have is an error of its option, unless SQL has formats beside."""
    query = "SELECT * FROM t" if family == "source" else "INSERT INTO t SELECT * FROM u"
    value = streams(
        f"CREATE TABLE t WITH ('type' = '{type_}', 'format' = '{format_}'); CREATE TABLE u WITH ('type' = 'stdin'); {query};"
    )
    assert value[f"{family}s"]["t"].get("format") == (format_ if is_of_component else None)
