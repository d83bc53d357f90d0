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
        "HOP(TABLE logs, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '1' MINUTE) AS w GROUP BY host, window_start, window_end",
        "HOP(DATA => TABLE logs, TIMECOL => DESCRIPTOR(t), SLIDE => INTERVAL '10' SECOND, SIZE => INTERVAL '1' MINUTE) "
        "GROUP BY host, window_start, window_end",
        "logs GROUP BY HOP(t, INTERVAL '10' SECOND, INTERVAL '1' MINUTE), host",
        "logs GROUP BY window(t, '1 minute', '10 seconds'), host",
    ],
)
def test_windows_have_several_notations(window: str) -> None:
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


PARTED = "CREATE TABLE parted (host STRING, n BIGINT, day DATE, hour INT) PARTITIONED BY (day, hour) "
PARTED += "WITH ('connector' = 'filesystem', 'path' = 'out/{day}/{hour}/', 'format' = 'json'); "


@pytest.mark.parametrize(
    ("statement", "same"),
    [
        (
            "WITH x AS (SELECT host FROM logs) INSERT INTO o SELECT host FROM x",
            "INSERT INTO o WITH x AS (SELECT host FROM logs) SELECT host FROM x",
        ),
        (
            "WITH x AS (SELECT * FROM logs) INSERT INTO o WITH y AS (SELECT host FROM x) SELECT host FROM y",
            "INSERT INTO o WITH x AS (SELECT * FROM logs), y AS (SELECT host FROM x) SELECT host FROM y",
        ),
        (
            "INSERT INTO o (WITH x AS (SELECT host FROM logs) SELECT host FROM x)",
            "INSERT INTO o WITH x AS (SELECT host FROM logs) SELECT host FROM x",
        ),
        ("INSERT INTO o (VALUES ('a'))", "INSERT INTO o VALUES ('a')"),
        (
            "CREATE VIEW v AS SELECT host FROM logs; INSERT INTO o TABLE v",
            "CREATE VIEW v AS SELECT host FROM logs; INSERT INTO o SELECT * FROM v",
        ),
        (
            "CREATE VIEW v AS SELECT host FROM logs; INSERT INTO o (TABLE v) UNION ALL TABLE v",
            "CREATE VIEW v AS SELECT host FROM logs; INSERT INTO o SELECT * FROM v UNION ALL SELECT * FROM v",
        ),
    ],
)
def test_notations_of_insert_are_the_same(statement: str, same: str) -> None:
    table = f"{LOGS} CREATE TABLE o (host STRING) WITH ('connector' = 'print'); "
    assert compiled(table + statement) == compiled(table + same)


@pytest.mark.parametrize(
    "columns", ["PARTITION (day = '2026-01-01', hour = 7)", "(host, n) PARTITION (hour = 7, day = DATE '2026-01-01')"]
)
def test_columns_of_partition_have_one_value(columns: str) -> None:
    streams = compiled(f"{LOGS} {PARTED} INSERT INTO parted {columns} SELECT host, bytes FROM logs")["streams"]
    select, constants = streams["parted_rows"]["steps"]
    assert list(select["fields"]) == ["host", "n"]
    assert constants["type"] == "set"
    assert constants["fields"]["hour"] == "7"
    assert constants["fields"]["day"] in ("CAST('2026-01-01' AS DATE)", "DATE '2026-01-01'")


@pytest.mark.parametrize(
    ("partition", "at", "message"),
    [
        ("PARTITION (dya = '2026-01-01')", "dya", "PARTITION: 'parted' has no column 'dya'"),
        ("PARTITION (n = 1)", "n = 1", "'parted' is not partitioned by 'n'"),
        ("PARTITION (hour = 1, hour = 2)", "hour = 2", "'hour' is in PARTITION as well"),
        ("PARTITION (hour = 1) (host, hour)", "hour = 1", "'hour' is in the columns that the query writes as well"),
        ("PARTITION (hour)", "hour)", "PARTITION gives 'hour' no value"),
        ("PARTITION (hour = n)", "hour = n", "the value of 'hour' is not a constant"),
    ],
)
def test_a_partition_that_is_wrong_is_named(partition: str, at: str, message: str) -> None:
    script = f"{LOGS} {PARTED} INSERT INTO parted {partition} SELECT host, bytes FROM logs"
    [error] = compile_script(script, installed()).errors
    assert (str(error), error.at) == (message, script.rindex(at))
    assert error.hint


def test_overwrite_is_refused_and_its_query_is_checked(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(
        f"{LOGS} {PARTED}\nINSERT OVERWRITE parted PARTITION (day = '1', hour = 1) SELECT hots, 1 FROM logs", "utf-8"
    )
    problems = [one for one in inspect(tmp_path / "job.sql", {}).problems if one.severity == "error"]
    assert [one.message for one in problems] == ["a stream does not overwrite a table", "there is no column 'hots'"]


EARLY = "SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '{}'; "
LATE = "SET 'table.exec.emit.late-fire.enabled' = 'true'; SET 'table.exec.emit.late-fire.delay' = '{}'; "
LATE += "SET 'table.exec.emit.allow-lateness' = '1 h'; "
COUNTS = "SELECT host, count(*) AS n FROM logs GROUP BY TUMBLE(t, INTERVAL '1' MINUTE), host"


@pytest.mark.parametrize(
    ("settings", "emit"),
    [
        (EARLY.format("10 s"), ["on_close", {"every": "10s"}]),
        (EARLY.format("0"), ["on_close", "on_change"]),
        (EARLY.format("10 s") + LATE.format("30 s"), ["on_close", {"every": "10s"}, {"late": {"for": "1h", "every": "30s"}}]),
        (LATE.format("0 s"), ["on_close", {"late": {"for": "1h"}}]),
        (EARLY.format("10 s") + "RESET 'table.exec.emit.early-fire.enabled';", None),
        (EARLY.format("10 s") + "SET 'table.exec.emit.early-fire.enabled' = 'false';", None),
        (EARLY.format("10 s") + "RESET;", None),
    ],
)
def test_early_and_late_fire_are_what_emit_says(settings: str, emit: object) -> None:
    steps = compiled(f"{LOGS} {settings} {COUNTS}")["streams"]["result_rows"]["steps"]
    assert steps[0].get("emit") == emit


def test_windows_by_the_time_of_reading_have_no_late_events() -> None:
    query = COUNTS.replace("(t,", "(PROCTIME(),")
    assert "emit" not in compiled(f"{LOGS} {LATE.format('0 s')} {query}")["streams"]["result_rows"]["steps"][0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("SET 'table.exec.emit.early-fire.enabled' = 'true'", "'table.exec.emit.early-fire.enabled' needs a delay"),
        (
            LATE.format("1 s").rpartition("SET")[0],
            "'table.exec.emit.late-fire.enabled' needs the time for which events may be late",
        ),
        ("SET 'table.exec.emit.early-fire.enabled' = 'yes'", "'yes' is neither true nor false"),
        ("SET 'table.exec.emit.early-fire.delay' = 'soon'", "'soon' is not a duration"),
    ],
)
def test_settings_of_fires_that_are_wrong_are_named(settings: str, message: str) -> None:
    found = compile_script(f"{LOGS} {settings}; {COUNTS}", installed()).errors
    assert message in [str(error) for error in found]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT host, sum(n) FROM ({}) GROUP BY host",
        "SELECT TUMBLE_START(w, INTERVAL '1' HOUR), sum(n) FROM ({}) GROUP BY TUMBLE(w, INTERVAL '1' HOUR)",
        "SELECT DISTINCT n FROM ({})",
        "SELECT host, ROW_NUMBER() OVER (PARTITION BY host ORDER BY w) AS place FROM ({})",
        "SELECT a.host FROM ({}) AS a JOIN logs AS b ON a.host = b.host",
        "SELECT host, n FROM (SELECT host, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS place FROM ({})) WHERE place <= 3",
    ],
)
def test_windows_that_are_combined_again_give_one_result(query: str) -> None:
    inner = COUNTS.replace("AS n", "AS n, TUMBLE_ROWTIME(t, INTERVAL '1' MINUTE) AS w")
    script = f"{LOGS} {EARLY.format('10 s')} {query.format(inner)}"
    steps = [step for stream in compiled(script)["streams"].values() for step in stream["steps"]]
    assert [one for one in steps if one["type"] == "window" and one.get("size") == "1m" and "emit" in one] == []


def test_views_that_no_query_reads_are_checked_as_others_are(tmp_path: Path) -> None:
    views = """CREATE VIEW v AS SELECT nofunc(host) AS a FROM logs WHERE nope(host);
CREATE VIEW w AS SELECT x FROM TABLE(grok(TABLE logs, field => 'host', patterns => '["%{NOPE:x}"]'));
"""
    query = "INSERT INTO o SELECT {} FROM logs;"
    table = f"{LOGS}CREATE TABLE o (host STRING) WITH ('connector' = 'print');\n"
    found = []
    for column in ("host", "hots"):
        (tmp_path / "job.sql").write_text(f"{table}{views}{query.format(column)}", "utf-8")
        found.append(inspect(tmp_path / "job.sql", {}))

    codes = ["unknown-function", "unknown-function", "unknown-pattern"]
    right, wrong = ([(one.severity, one.code, one.line) for one in checked.problems] for checked in found)
    assert right == [("warning", code, line) for code, line in zip(codes, (5, 5, 6), strict=True)]
    assert wrong == [*right, ("error", "unknown-field", 7)]
    assert found[0].pipeline is not None
    assert list(found[0].pipeline.sinks) == ["o"]


def test_a_function_of_a_table_needs_no_table_around_it() -> None:
    wrapped = "SELECT f.host FROM TABLE(filter(TABLE (SELECT host, bytes FROM logs), where => 'bytes > 1')) AS f"
    bare = "SELECT f.host FROM filter(TABLE (SELECT host, bytes FROM logs), where => 'bytes > 1') AS f"
    assert compiled(f"{LOGS} {bare}") == compiled(f"{LOGS} {wrapped}")


def test_a_class_of_java_over_groups_is_an_aggregate_to_fill_in(tmp_path: Path) -> None:
    from etl.sql.functions.stubs import java_functions, stub_file
    from etl.sql.reading import read_script

    script = f"{LOGS} CREATE FUNCTION spread AS 'com.acme.Spread'; CREATE FUNCTION short AS 'com.acme.Short';"
    script += "SELECT short(host) AS host, spread(bytes) AS n FROM logs GROUP BY host;"
    text = stub_file(java_functions(read_script(script)), is_new=True)
    (tmp_path / "functions.py").write_text(text, "utf-8")
    (tmp_path / "job.sql").write_text(f"SET 'java.functions' = 'functions.py'; {script}", "utf-8")

    checked = inspect(tmp_path / "job.sql", {})

    assert "class spread:" in text
    assert "def short(" in text
    assert checked.problems == ()


def test_a_script_without_tables_says_how_one_is_declared() -> None:
    [error] = compile_script("SELECT a FROM t", installed()).errors
    assert error.hint == "declare it: CREATE TABLE t (…) WITH (…)"


def test_unknown_keys_of_a_join_are_reported_once_under_their_names(tmp_path: Path) -> None:
    query = "SELECT a.host FROM logs AS a JOIN logs AS b ON a.hots_id = b.other_id AND a.t BETWEEN b.t AND b.t"
    (tmp_path / "job.sql").write_text(f"{LOGS}{query}", "utf-8")
    problems = [one for one in inspect(tmp_path / "job.sql", {}).problems if one.severity == "error"]
    assert [one.message for one in problems] == ["there is no column 'a.hots_id'", "there is no column 'b.other_id'"]


@pytest.mark.parametrize(
    ("statement", "warnings"),
    [
        ("DROP TEMPORARY SYSTEM FUNCTION IF EXISTS f", ["DROP FUNCTION has no effect in a script"]),
        ("DROP TEMPORARY FUNCTION f", ["DROP FUNCTION has no effect in a script"]),
        ("CREATE TEMPORARY VIEW IF NOT EXISTS v (x COMMENT 'a host', y) COMMENT 'v' AS SELECT host, bytes FROM logs", []),
        (
            "CREATE TEMPORARY SYSTEM FUNCTION f AS 'com.x.F' LANGUAGE JAVA USING JAR '/x.jar', JAR '/y.jar'",
            ["'f' is the class 'com.x.F' of Java, which does not run here; no query calls it"],
        ),
    ],
)
def test_forms_of_flinks_statements(statement: str, warnings: list[str]) -> None:
    found = compile_script(f"{LOGS}{statement};\nSELECT host FROM logs;", installed())

    assert ([str(one) for one in found.errors], [str(one) for one in found.warnings]) == ([], warnings)


def test_texts_of_datagen_have_a_hundred_characters(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("CREATE TABLE g (s STRING) WITH ('connector' = 'datagen'); SELECT s FROM g;", "utf-8")

    checked = inspect(tmp_path / "job.sql", {})

    assert (checked.pipeline is not None, [*checked.problems]) == (True, [])


def test_statements_that_write_the_same_rows_are_both_carried_out(tmp_path: Path) -> None:
    table = "CREATE TABLE o (host STRING, bytes BIGINT, t TIMESTAMP(3)) WITH ('connector' = 'print');"
    (tmp_path / "job.sql").write_text(f"{LOGS}{table}" + "INSERT INTO o SELECT * FROM logs;" * 2, "utf-8")

    checked = inspect(tmp_path / "job.sql", {})

    assert (checked.pipeline is not None, [*checked.problems]) == (True, [])
    assert checked.pipeline is not None
    assert len(checked.pipeline.sinks["o"].inputs) == 2
