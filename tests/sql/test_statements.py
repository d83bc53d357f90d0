"""Statements beside queries: SET, EXPLAIN, metadata columns, TEMPORARY, those that there are not; notations of windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etl.catalogue import installed
from etl.config.loader import inspect
from etl.sql.script import compile_script

LOGS = """
CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
"""
KAFKA = "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092')"


def compiled(text: str) -> dict[str, Any]:
    found = compile_script(text, installed())
    assert not found.errors, [str(error) for error in found.errors]
    return found.value


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("'parallelism.default' = '4'", ("run", "parallelism"), 4),
        ("'execution.checkpointing.interval' = '10 s'", ("run", "trigger"), "10s"),
        ("'run.max_batch_bytes' = '64MiB'", ("run", "max_batch_bytes"), "64MiB"),
        ("'pipeline.name' = '2026'", ("name",), "2026"),
        ("'description' = 'a: b'", ("description",), "a: b"),
        ("'dead_letters' = '{type: file, path: dead.jsonl}'", ("dead_letters", "path"), "dead.jsonl"),
        ("'table.exec.source.idle-timeout' = '30 s'", ("streams", "result_rows", "steps", 0, "idle"), "30s"),
        ("'table.exec.state.ttl' = '90 min'", ("streams", "result_rows", "steps", 0, "within"), "90m"),
        ("'table.exec.state.ttl' = '500 ms'", ("streams", "result_rows", "steps", 0, "within"), "500ms"),
        ("'table.exec.state.ttl' = '5000'", ("streams", "result_rows", "steps", 0, "within"), "5s"),
        ("'table.exec.state.ttl' = '2 days'", ("streams", "result_rows", "steps", 0, "within"), "2d"),
    ],
)
def test_settings_are_options(setting: str, path: tuple[str | int, ...], value: object) -> None:
    found: Any = compiled(f"{LOGS} SET {setting}; SELECT DISTINCT * FROM logs;")
    for key in path:
        found = found[key]
    assert found == value


def test_a_setting_without_effect_is_a_warning_if_it_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(
        f"{LOGS}SET 'table.exec.mini-batch.enabled' = 'true';\nSET 'table.exec.state.tll' = '1 h';\nSELECT host FROM logs;",
        "utf-8",
    )
    checked = inspect(tmp_path / "job.sql", {})
    assert checked.pipeline is not None
    [problem] = checked.problems
    assert (problem.severity, problem.line, problem.column, problem.hint) == ("warning", 5, 5, "is 'table.exec.state.ttl' meant?")


def test_times_are_in_utc() -> None:
    [error] = compile_script("SET 'table.local-time-zone' = 'Asia/Shanghai'; SELECT 1 AS a", installed()).errors
    assert str(error) == "times are in UTC"


@pytest.mark.slow
@pytest.mark.parametrize("explain", ["EXPLAIN", "explain plan for", "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE"])
def test_what_is_explained_is_read_and_does_not_run(explain: str) -> None:
    assert compiled(f"{LOGS} {explain} SELECT bytes FROM logs;\nSELECT host FROM logs;") == compiled(
        f"{LOGS} SELECT host FROM logs;"
    )
    script = f"{LOGS} SELECT host FROM logs; {explain} SELECT bytes FORM logs x y;"
    [error] = compile_script(script, installed()).errors
    assert error.at > script.index("bytes FORM")


def test_metadata_of_messages_are_columns() -> None:
    columns = "sent TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, a INT, `partition` INT METADATA VIRTUAL"
    found = compiled(f"CREATE TABLE k ({columns}, WATERMARK FOR sent AS sent) {KAFKA}; SELECT * FROM k;")
    assert found["sources"]["k"]["metadata"] is True
    assert found["streams"]["k_rows"]["steps"] == [
        {"type": "json", "fields": {"a": "int"}},
        {
            "type": "set",
            "fields": {"sent": "CAST(kafka.`timestamp` AS TIMESTAMP)", "partition": "CAST(kafka.partition AS INT)"},
        },
    ]
    assert list(found["streams"]["result_rows"]["steps"][0]["fields"]) == ["sent", "a", "partition"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("s TIMESTAMP(3) METADATA FROM 'time' VIRTUAL", "a source 'kafka' has no metadata 'time'"),
        ("h MAP<STRING, STRING> METADATA FROM 'headers' VIRTUAL", "'headers' is a single value"),
    ],
)
def test_metadata_that_there_are_not_are_refused(column: str, message: str) -> None:
    found = compile_script(f"CREATE TABLE k (a INT, {column}) {KAFKA}; SELECT a FROM k", installed()).errors
    assert [str(error) for error in found] == [message]


def test_metadata_are_read_and_not_written() -> None:
    table = "CREATE TABLE o (host STRING, t TIMESTAMP(3) METADATA FROM 'timestamp'{}) " + KAFKA
    [error] = compile_script(f"{LOGS} {table.format('')}; INSERT INTO o SELECT host, t FROM logs", installed()).errors
    assert str(error) == "the metadata 'timestamp' is not written"
    assert compiled(f"{LOGS} {table.format(' VIRTUAL')}; INSERT INTO o SELECT host FROM logs")["sinks"]["o"]["type"] == "kafka"


def test_what_is_temporary_is_declared_as_well() -> None:
    script = "CREATE TEMPORARY TABLE IF NOT EXISTS o (a BIGINT) COMMENT 'x' WITH ('connector' = 'print');"
    script += "CREATE OR REPLACE TEMPORARY VIEW v (b) COMMENT 'y' AS SELECT bytes FROM logs; INSERT INTO o SELECT b FROM v;"
    assert compiled(LOGS + script)["sinks"]["o"] == {"from": "o_rows", "type": "console"}


@pytest.mark.parametrize("statement", ["ALTER TABLE logs SET ('a' = 'b')", "TRUNCATE TABLE logs", "STOP JOB 'x'"])
def test_statements_of_a_session_are_refused_with_a_reason(statement: str) -> None:
    [error] = compile_script(f"{LOGS} {statement}; SELECT host FROM logs", installed()).errors
    assert str(error) == f"a script has no {statement.split()[0]}"
    assert error.hint


@pytest.mark.parametrize(
    "window",
    [
        "TABLE(HOP(TABLE logs, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)) "
        "GROUP BY host, window_start, window_end",
        "TABLE(HOP(SIZE => INTERVAL '1' MINUTE, SLIDE => INTERVAL '10' SECOND, TIMECOL => DESCRIPTOR(t), DATA => TABLE logs)) "
        "GROUP BY host, window_start, window_end",
        "logs GROUP BY HOP(t, INTERVAL '10' SECOND, INTERVAL '1' MINUTE), host",
        "logs GROUP BY window(t, '1 minute', '10 seconds'), host",
    ],
)
def test_windows_have_four_notations(window: str) -> None:
    [step, _] = compiled(f"{LOGS} SELECT host, sum(bytes) AS n FROM {window}")["streams"]["result_rows"]["steps"]
    assert step == {
        "type": "window",
        "time": "t",
        "late": "5s",
        "size": "1m",
        "slide": "10s",
        "group_by": ["host"],
        "aggregates": {"n": "SUM(bytes)"},
    }


def test_windows_with_an_offset_go_by_an_earlier_time() -> None:
    window = (
        "TABLE(TUMBLE(TABLE logs, DESCRIPTOR(t), INTERVAL '1' DAY, INTERVAL '-8' HOUR)) GROUP BY host, window_start, window_end"
    )
    steps = compiled(f"{LOGS} SELECT host, window_start FROM {window}")["streams"]["result_rows"]["steps"]
    assert steps[0]["fields"] == {"t_without_offset": "t - INTERVAL 57600 SECONDS"}
    assert steps[1]["time"] == "t_without_offset"
    assert steps[2]["fields"]["window_start"] == "window_start + INTERVAL 57600 SECONDS"


def test_emit_changes_gives_each_change_of_a_window() -> None:
    query = "SELECT host, count(*) AS n FROM logs GROUP BY TUMBLE(t, INTERVAL '1' MINUTE), host EMIT CHANGES"
    assert compiled(f"{LOGS} {query}")["streams"]["result_rows"]["steps"][0]["emit"] == "on_change"


def test_kafka_is_read_from_a_time_and_tables_of_databases_are_created() -> None:
    start = "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1700000000500'"
    options = "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:///d.db', 'table-name' = 'd', 'create' = 'true'"
    database = f"CREATE TABLE d (a INT) WITH ({options});"
    found = compiled(f"CREATE TABLE k (a INT) {KAFKA[:-1]}, {start}); {database} INSERT INTO d SELECT a FROM k;")

    assert found["sources"]["k"]["start"] == "timestamp"
    assert found["sources"]["k"]["start_time"] == "2023-11-14T22:13:20.500000"
    assert found["sinks"]["d"]["create"] == "true"


def test_kafka_is_read_from_offsets_and_wrong_starts_are_told_in_the_words_of_flink() -> None:
    offsets = "'scan.startup.specific-offsets' = 'partition:0,offset:42;partition:1,offset:300'"
    source = compiled(
        f"CREATE TABLE k (a INT) {KAFKA[:-1]}, 'scan.startup.mode' = 'specific-offsets', {offsets}); SELECT a FROM k"
    )["sources"]["k"]
    [wrong] = compile_script(
        f"CREATE TABLE k (a INT) {KAFKA[:-1]}, 'scan.startup.mode' = 'earliest'); SELECT a FROM k", installed()
    ).errors

    assert source["start"] == "offsets"
    assert list(source["start_offsets"].values()) == [{"0": 42, "1": 300}]
    assert (str(wrong), wrong.hint) == ("'earliest' is not a scan.startup.mode", "is 'earliest-offset' meant?")
