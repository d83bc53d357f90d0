"""Options of keys and values of messages: tables of `kafka` and `upsert-kafka`, and the last rows of a real topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker
from query_runs import run_query
from servers.brokers.kafka_server import Kafka

from etl.catalogue import installed
from etl.config.document.sql_script import read_script
from etl.config.loader import inspect_document
from etl.sql.script import compile_script

COLUMNS = "k_id BIGINT, host STRING, n INT"


def table(name: str, columns: str = COLUMNS, **options: str) -> str:
    common = {"connector": "kafka", "topic": name, "properties.bootstrap.servers": "localhost:9092", "properties.group.id": "g"}
    given = common | {one.replace("__", "-").replace("_", "."): value for one, value in options.items()}
    written = ", ".join(f"'{one}' = '{value}'" for one, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({written});"


UPSERT = {"connector": "upsert-kafka", "key_format": "json", "value_format": "json"}
KEY = f"{COLUMNS}, PRIMARY KEY (k_id) NOT ENFORCED"
LOGS = "CREATE TABLE logs (k_id BIGINT, host STRING, n INT) WITH ('type' = 'inline', 'rows' = '[]');"


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (KEY, UPSERT, {"key": ["k_id"], "key_format": "json"}),
        (
            KEY,
            UPSERT
            | {"key_fields__prefix": "k_", "value_fields__include": "EXCEPT_KEY", "sink_delivery__guarantee": "exactly-once"},
            {"key": ["k_id"], "key_format": "json", "key_prefix": "k_", "key_in_value": False, "delivery": "exactly_once"},
        ),
        (KEY.replace("(k_id)", "(HOST)"), UPSERT | {"key_format": "raw"}, {"key": ["host"]}),
        (COLUMNS, {"format": "debezium-json"}, {"changes": "debezium"}),
        (
            COLUMNS,
            {"value_format": "debezium-json", "key_format": "json", "key_fields": "host;k_id"},
            {"key": ["host", "k_id"], "key_format": "json", "changes": "debezium"},
        ),
    ],
)
def test_a_table_is_a_sink_with_keys(columns: str, options: dict[str, str], expected: dict[str, Any]) -> None:
    script = LOGS + table("o", columns, **options) + "INSERT INTO o SELECT k_id, host, max(n) FROM logs GROUP BY k_id, host;"

    compiled = compile_script(script, installed())

    assert not compiled.errors
    sink = compiled.value["sinks"]["o"]
    assert {name: value for name, value in sink.items() if name not in ("from", "type", "topic", "servers")} == expected


@pytest.mark.parametrize(
    ("columns", "options", "at", "message"),
    [
        (COLUMNS, UPSERT, "upsert-kafka", "upsert-kafka needs a PRIMARY KEY"),
        (KEY, UPSERT | {"key_fields": "k_id"}, "key.fields", "upsert-kafka has no option 'key.fields'"),
        (KEY, UPSERT | {"value_format": "debezium-json"}, "debezium-json", "upsert-kafka has no rows in 'debezium-json'"),
        (KEY, UPSERT | {"key_format": "avro"}, "avro", "keys are not 'avro'"),
        (
            KEY,
            UPSERT | {"key_format": "raw"},
            "raw",
            "a key in the format 'raw' is a STRING, and 'k_id' is another type, of which Flink writes the bytes",
        ),
        (
            COLUMNS.replace("host STRING", "host ROW<a INT>"),
            {"format": "json", "key_format": "json", "key_fields": "host"},
            "host",
            "the column 'host' of the key is a ROW",
        ),
        (KEY, UPSERT | {"value_fields__includes": "ALL"}, "value.fields-includes", "there is no option 'value.fields-includes'"),
        (KEY, UPSERT | {"value_fields__include": "NONE"}, "NONE", "'NONE' is not a value.fields-include"),
        (
            KEY,
            UPSERT | {"key_fields__prefix": "k_"},
            "key.fields-prefix",
            "key.fields-prefix is for columns that are in the key alone",
        ),
        (
            KEY,
            UPSERT | {"key_fields__prefix": "x_", "value_fields__include": "EXCEPT_KEY"},
            "x_",
            "the column 'k_id' of the key does not begin with 'x_'",
        ),
        (COLUMNS, {"format": "json", "key_fields": "k_id"}, "key.fields", "key.fields needs key.format"),
        (COLUMNS, {"format": "json", "key_format": "json"}, "key.format", "the columns of the key are not given"),
        (COLUMNS, {"format": "json", "key_format": "json", "key_fields": "hots"}, "hots", "there is no column 'hots'"),
        (
            COLUMNS,
            {"format": "json", "key_format": "raw", "key_fields": "host;n"},
            "raw",
            "a key in the format 'raw' is one column",
        ),
        (COLUMNS, {"format": "avro"}, "avro", "messages are not written as 'avro'"),
        (COLUMNS, {"format": "json", "sink_delivery__guarantee": "once"}, "once", "'once' is not a sink.delivery-guarantee"),
    ],
)
def test_the_mistake_is_found_at_its_option(columns: str, options: dict[str, str], at: str, message: str) -> None:
    script = LOGS + table("o", columns, **options) + "INSERT INTO o SELECT k_id, host, n FROM logs;"

    errors = compile_script(script, installed()).errors

    assert [(str(one), one.at) for one in errors] == [(message, script.index(f"'{at}'"))]


def test_a_key_of_no_column_is_one_mistake() -> None:
    script = table("i", KEY.replace("(k_id)", "(k_di)"), **UPSERT) + "SELECT host FROM i;"

    assert [str(one) for one in compile_script(script, installed()).errors] == ["PRIMARY KEY: the table 'i' has no column 'k_di'"]


def test_results_that_change_need_a_topic_that_takes_changes() -> None:
    script = (
        LOGS + table("o", "host STRING, n BIGINT", format="json") + "INSERT INTO o SELECT host, count(*) FROM logs GROUP BY host;"
    )

    problems = inspect_document("job.sql", read_script(script.encode(), installed(), Path())).problems

    assert [one.code for one in problems if one.severity == "error"] == ["changing-results"]


@pytest.mark.servers
def test_a_topic_gives_the_last_row_of_each_key(kafka: Kafka, tmp_path: Path) -> None:
    broker = Broker(kafka)
    topic = broker.topic(2)
    rows: list[tuple[int, bytes | None]] = [(1, b'{"host":"a","n":1}'), (2, b'{"host":"b","n":2}'), (1, b'{"host":"c","n":3}')]
    rows += [(2, None), (3, b'{"host":"d"}'), (4, None), (5, b"nonsense"), (3, b'{"host":"d","n":4}')]
    for id_, value in rows:
        broker.produce(topic, [value], id_ % 2, key=b'{"id":%d}' % id_)
    broker.produce(topic, [b'{"host":"e","n":5}'])
    options = UPSERT | {"key_fields__prefix": "k_", "value_fields__include": "EXCEPT_KEY", "topic": topic}
    last = table("last", KEY.replace("PRIMARY", "p INT METADATA FROM 'partition', PRIMARY"), **options)
    script = last.replace("localhost:9092", broker.address)

    rows_of_keys = run_query(script + "SELECT k_id, host, n, p FROM last", tmp_path / "rows", max_events=2)
    totals = run_query(script + "SELECT count(*) AS c, sum(n) AS s FROM last", tmp_path / "totals", max_events=2)

    assert sorted(rows_of_keys.rows) == [(1, "c", 3, 1), (3, "d", 4, 1)]
    assert sorted(one.split(":")[0] for one in rows_of_keys.failed) == ["is not JSON", "is null"]
    assert totals.rows == [(2, 7)]
