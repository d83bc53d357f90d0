"""SQL scripts are pipelines: what they compile to, and what `etl lint` says about mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.catalogue import installed
from etl.cli.main import cli
from etl.config.loader import CheckedPipeline, inspect
from etl.sql.script import compile_script

LOGS = """
CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE out (host STRING, amount BIGINT) WITH ('connector' = 'print');
"""


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[str], CheckedPipeline]:
    def check(text: str) -> CheckedPipeline:
        path = tmp_path / "job.sql"
        path.write_text(text, "utf-8")
        return inspect(path, {})

    return check


WINDOWED = "TABLE(TUMBLE(TABLE logs, DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end"


def steps(text: str, stream: str = "out_rows") -> list[dict[str, Any]]:
    compiled = compile_script(text, installed())
    assert not compiled.errors, [str(error) for error in compiled.errors]
    return list(compiled.value["streams"][stream]["steps"])


def test_a_query_is_a_filter_and_a_list_of_fields() -> None:
    assert steps(LOGS + "INSERT INTO out SELECT upper(host), bytes * 2 FROM logs WHERE bytes > 10") == [
        {"type": "filter", "where": "bytes > 10"},
        {
            "type": "select",
            "fields": {"host": "UPPER(host)", "amount": "flink_multiply(bytes, 2)"},
        },
    ]


@pytest.mark.parametrize(
    ("window", "options"),
    [
        ("TUMBLE(t, INTERVAL '1' MINUTE)", {"size": "1m"}),
        ("HOP(t, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)", {"size": "1m", "slide": "10s"}),
        ("CUMULATE(t, INTERVAL '1' HOUR, INTERVAL '1' DAY)", {"size": "1d", "step": "1h"}),
        ("SESSION(t, INTERVAL '30' SECOND)", {"gap": "30s"}),
    ],
)
def test_windows_go_by_the_watermark_of_the_table(window: str, options: dict[str, str]) -> None:
    [step, _] = steps(LOGS + f"INSERT INTO out SELECT host, sum(bytes) FROM logs GROUP BY {window}, host")
    assert step == {
        "type": "window",
        "time": "t",
        "late": "5s",
        **options,
        "group_by": ["host"],
        "aggregates": {"aggregate_1": "SUM(bytes)"},
    }


def test_a_table_function_is_the_same_window() -> None:
    assert steps(LOGS + f"INSERT INTO out SELECT host, sum(bytes) FROM {WINDOWED}") == steps(
        LOGS + "INSERT INTO out SELECT host, sum(bytes) FROM logs GROUP BY host, TUMBLE(t, INTERVAL '1' MINUTE)"
    )


def test_having_filters_the_results_of_windows() -> None:
    found = steps(
        LOGS + "INSERT INTO out SELECT host, count(*) FROM logs GROUP BY TUMBLE(t, INTERVAL '1' MINUTE), host HAVING count(*) > 5"
    )
    assert found[1] == {"type": "filter", "where": "aggregate_1 > 5"}


def test_emit_says_when_windows_give_results() -> None:
    query = "SELECT host, count(*) FROM logs GROUP BY TUMBLE(t, INTERVAL '1' HOUR), host"
    emit = "EMIT WITH DELAY '1' MINUTE BEFORE WATERMARK, WITHOUT DELAY AFTER WATERMARK"
    script = f"SET 'table.exec.emit.allow-lateness' = '2 h'; INSERT INTO out {query} {emit}"
    assert steps(LOGS + script)[0]["emit"] == ["on_close", {"every": "1m"}, {"late": {"for": "2h"}}]


def test_row_number_within_windows_is_top() -> None:
    inner = f"SELECT host, sum(bytes) AS amount, window_start, window_end FROM {WINDOWED}"
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY amount DESC) AS place FROM ({inner})"
    found = steps(LOGS + f"INSERT INTO out SELECT host, amount FROM ({ranked}) WHERE place <= 3")
    assert {
        "type": "top",
        "time": "window_start",
        "size": "1m",
        "late": "0s",
        "by": "amount",
        "limit": 3,
        "nulls": "smallest",
        "rank": "place",
        "ties": "row_number",
    } in found


def test_row_number_by_time_is_dedupe() -> None:
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY t ASC) AS n FROM logs"
    found = steps(LOGS + f"SET 'table.exec.state.ttl' = '1 d'; INSERT INTO out SELECT host, bytes FROM ({ranked}) WHERE n = 1")
    assert found[0] == {"type": "dedupe", "keys": ["host"], "time": "t", "late": "5s", "within": "1d", "keep": "first"}


TTL = "SET 'table.exec.state.ttl' = '1 d'; INSERT INTO out "
COUNTS = "SELECT host, count(*) AS c FROM logs GROUP BY host"


@pytest.mark.parametrize(
    ("type_", "query"),
    [
        ("window", COUNTS),
        ("window", f"SELECT DISTINCT host, c FROM ({COUNTS})"),
        ("top", "SELECT host, bytes FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY bytes DESC) AS n FROM logs) WHERE n <= 3"),
        ("over", "SELECT host, sum(bytes) OVER (PARTITION BY host ORDER BY t) AS total FROM logs"),
        ("join", "SELECT l.host, r.bytes FROM logs l LEFT JOIN logs r ON l.host = r.host"),
    ],
)
def test_what_would_keep_state_for_ever_has_the_time_to_live(type_: str, query: str) -> None:
    found = [one for one in steps(LOGS + TTL + query) if one.get("type") == type_]
    assert {one["ttl"] for one in found} == {"1d"}, found


def test_running_values_within_a_time_need_no_time_to_live() -> None:
    over = "sum(bytes) OVER (PARTITION BY host ORDER BY t RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW)"
    assert "ttl" not in steps(LOGS + TTL + f"SELECT host, {over} AS total FROM logs")[0]


def test_over_gives_running_values() -> None:
    over = "sum(bytes) OVER (PARTITION BY host ORDER BY t ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
    found = steps(LOGS + f"INSERT INTO out SELECT host, {over} FROM logs")
    assert found[0] == {
        "type": "over",
        "keys": ["host"],
        "time": "t",
        "late": "5s",
        "aggregates": {"over_1": "SUM(bytes)"},
        "rows": 10,
    }


def test_bounds_in_time_make_an_interval_join() -> None:
    condition = "a.host = b.host AND b.t BETWEEN a.t - INTERVAL '1' MINUTE AND a.t + INTERVAL '5' MINUTE AND b.bytes > a.bytes"
    found = steps(LOGS + f"INSERT INTO out SELECT a.host, b.bytes FROM logs a JOIN logs b ON {condition}")
    assert found[0] == {
        "type": "join",
        "time": "t",
        "late": "5s",
        "before": "1m",
        "after": "5m",
        "on": {"host": "host"},
        "prefix": "right.",
        "where": "(right.bytes > bytes)",
        "left": "logs_rows",
        "right": "logs_rows",
    }


def test_a_table_for_look_ups_is_a_table_of_the_pipeline() -> None:
    names = (
        "CREATE TABLE names (host STRING, name STRING) WITH ('connector' = 'filesystem', 'path' = 'names.csv', 'format' = 'csv');"
    )
    joined = "logs l LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON l.host = n.host"
    query = f"INSERT INTO out SELECT n.name, l.bytes FROM {joined}"
    compiled = compile_script(LOGS + names + query, installed())
    assert compiled.value["tables"]["names"] == {
        "type": "file",
        "path": "names.csv",
        "key": "host",
        "header": ["host", "name"],
        "columns": {"host": "string", "name": "string"},
    }
    [step, _] = compiled.value["streams"]["out_rows"]["steps"]
    assert step["miss"] == "keep"
    assert step["on"] == "host"


def test_string_split_makes_rows() -> None:
    found = steps(LOGS + "INSERT INTO out SELECT part, bytes FROM logs, LATERAL TABLE(STRING_SPLIT(host, '.')) AS s(part)")
    assert found[:2] == [
        {"type": "set", "fields": {"part": "split(host, concat('\\\\Q', '.', '\\\\E'))"}},
        {"type": "unnest", "field": "part"},
    ]


def test_a_window_by_a_time_without_watermark_is_warned_of(checked: Callable[[str], CheckedPipeline]) -> None:
    text = LOGS.replace(", WATERMARK FOR t AS t - INTERVAL '5' SECOND", "")
    [warning] = checked(text + "SELECT host, count(*) AS n FROM logs GROUP BY TUMBLE(t, INTERVAL '1' MINUTE), host").problems
    assert (warning.code, warning.severity, warning.line) == ("missing-watermark", "warning", 5)


def test_not_in_without_a_bound_is_a_changelog_and_warned_of(checked: Callable[[str], CheckedPipeline]) -> None:
    query = "SELECT host, bytes FROM logs l WHERE NOT EXISTS (SELECT 1 FROM logs r WHERE r.host = l.host AND r.bytes > 100{})"
    [step, _] = steps(LOGS + f"INSERT INTO out {query.format('')}")
    assert step["kind"] == "anti"
    assert step["changelog"] is True
    [warning] = checked(LOGS + f"INSERT INTO out {query.format('')}").problems
    assert (warning.code, warning.severity) == ("unbounded-state", "warning")
    bound = " AND r.t BETWEEN l.t - INTERVAL '1' MINUTE AND l.t"
    assert checked(LOGS + f"INSERT INTO out {query.format(bound)}").problems == ()
    assert checked(LOGS + f"SET 'table.exec.state.ttl' = '1 d'; INSERT INTO out {query.format('')}").problems == ()


def test_a_sink_gets_the_rows_of_all_inserts() -> None:
    compiled = compile_script(
        LOGS + "INSERT INTO out SELECT host, 1 FROM logs; INSERT INTO out SELECT host, 2 FROM logs", installed()
    )
    assert compiled.value["sinks"]["out"] == {"from": ["out_rows", "out_rows_2"], "type": "console"}


PARTS = """
CREATE TABLE parts (kind INT, a ROW<id BIGINT, `size` INT, `when` TIMESTAMP(3)>, b ROW<id BIGINT, text STRING>, c STRING)
WITH ('connector' = 'filesystem', 'path' = 'parts.jsonl', 'format' = 'json');
CREATE TABLE sums (id BIGINT) WITH ('connector' = 'print');
CREATE VIEW av AS SELECT a.id, a.`size`, a.`when` FROM parts WHERE kind = 1;
CREATE VIEW bv AS SELECT b.id, b.text FROM parts WHERE kind = 2;
"""


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT id FROM av", {"kind", "a.id"}),
        ("SELECT CAST(`size` + id AS BIGINT) FROM av", {"kind", "a.id", "a.size"}),
        ("SELECT av.id FROM av JOIN bv ON av.id = bv.id WHERE bv.text <> 'x'", {"kind", "a.id", "b.id", "b.text"}),
        ("SELECT id FROM (SELECT DISTINCT id, `when` FROM av)", {"kind", "a.id", "a.when"}),
        ("SELECT 1 FROM parts", {"kind"}),
    ],
)
def test_columns_that_no_query_uses_are_not_read(query: str, read: set[str]) -> None:
    compiled = compile_script(PARTS + f"INSERT INTO sums {query}", installed())

    assert not compiled.errors, [str(error) for error in compiled.errors]
    [reader] = [step for stream in compiled.value["streams"].values() for step in stream["steps"] if step["type"] == "json"]
    assert set(reader["fields"]) == read


def test_views_that_read_each_other_twice_are_compiled_in_time() -> None:
    views = "".join(
        f"CREATE VIEW v{n + 1} AS SELECT * FROM v{n} WHERE kind > {n} UNION ALL SELECT * FROM v{n} WHERE kind < {n};\n"
        for n in range(40)
    )

    compiled = compile_script(
        PARTS + f"CREATE VIEW v0 AS SELECT * FROM parts;\n{views}INSERT INTO sums SELECT a.id FROM v40", installed()
    )

    assert not compiled.errors, [str(error) for error in compiled.errors]
    [reader] = [step for stream in compiled.value["streams"].values() for step in stream["steps"] if step["type"] == "json"]
    assert list(reader["fields"]) == ["kind", "a.id"]


def test_columns_are_read_where_all_go_to_a_sink() -> None:
    compiled = compile_script(PARTS + "SELECT * FROM parts", installed())

    [reader] = [step for stream in compiled.value["streams"].values() for step in stream["steps"] if step["type"] == "json"]
    assert list(reader["fields"]) == ["kind", "a.id", "a.size", "a.when", "b.id", "b.text", "c"]


def test_a_query_alone_prints_its_rows(checked: Callable[[str], CheckedPipeline]) -> None:
    pipeline = checked(LOGS + "SELECT host FROM logs").pipeline
    assert pipeline is not None
    assert pipeline.sinks["result"].sink.type == "console"


@pytest.mark.parametrize(
    ("script", "place", "message"),
    [
        ("SELECT hots FROM logs", (5, 8), "there is no column 'hots'"),
        ("SELECT host FROM log", (5, 18), "there is no table 'log'"),
        ("INSERT INTO out SELECT host FROM logs", (5, 24), "the query gives 1 columns, and the table takes 2: host, amount"),
        ("SELECT uper(host) AS h FROM logs", (5, 8), "there is no function 'uper'"),
        ("SELECT host FROM logs ORDER BY host", (5, 32), "ORDER BY over a stream has no end to wait for"),
        (
            "SELECT a.host FROM logs a JOIN logs b ON a.bytes > b.bytes",
            (5, 32),
            "the join has no bound: it keeps the columns that are used of every row of both sides for ever",
        ),
        ("SELECT bytes FROM logs a JOIN logs b ON a.host = b.host", (5, 8), "'bytes' is a column of 'a', 'b'"),
        ("CREATE VIEW v AS SELECT * FROM v; SELECT * FROM v", (5, 13), "the view 'v' reads itself: v → v"),
        ("SELECT host FROM logs WHERE", (5, 1), None),
        ("DELETE FROM logs", (5, 1), "a script has no DELETE"),
        ("CREATE TABLE x (a TIME) WITH ('type' = 'file', 'path' = 'x'); SELECT a FROM x", (5, 19), "there is no type TIME here"),
        ("CREATE TABLE x (a INT) WITH ('connector' = 'kafak'); SELECT a FROM x", (5, 44), "there is no connector 'kafak'"),
        (
            "CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'pth' = 'x'); SELECT a FROM x",
            (5, 58),
            "there is no option 'pth'",
        ),
        ("SELECT concat(host, bytes, FROM logs", (5, 1), None),
    ],
)
def test_mistakes_are_found_with_their_place(
    checked: Callable[[str], CheckedPipeline], script: str, place: tuple[int, int], message: str | None
) -> None:
    problems = checked(LOGS + script).problems
    assert problems
    if message is not None:
        assert problems[0].message == message
        assert (problems[0].line, problems[0].column) == place
    assert problems[0].line == place[0]


def test_results_that_change_need_a_sink_that_replaces_rows(checked: Callable[[str], CheckedPipeline]) -> None:
    file = "CREATE TABLE f (host STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'f.jsonl', 'format' = 'json');"
    query = "SELECT host, count(*) FROM logs GROUP BY host"
    [problem] = checked(LOGS + file + f"INSERT INTO f {query}").problems
    assert problem.code == "changing-results"
    assert "PRIMARY KEY (…) NOT ENFORCED" in str(problem.hint)
    columns = "(host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)"
    database = f"CREATE TABLE d {columns} WITH ('connector' = 'jdbc', 'url' = 'sqlite:///d.db', 'table-name' = 'd');"
    assert checked(LOGS + database + f"INSERT INTO d {query}").pipeline is not None


LAST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY t DESC, bytes) AS r FROM logs) WHERE r = 1"
CHANGING = """
CREATE VIEW sums AS SELECT host, sum(bytes) AS total FROM logs GROUP BY host;
CREATE VIEW newest AS SELECT host, bytes FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY t DESC) AS r FROM logs)
WHERE r = 1;
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT host, bytes FROM {LAST}", {"by": "t", "then": {"bytes": "ascending"}, "limit": 1, "changelog": True}),
        ("SELECT host, count(*) FROM logs GROUP BY host", {"type": "window", "emit": "on_change", "group_by": ["host"]}),
        ("SELECT s.host, n.bytes FROM sums s LEFT JOIN newest n ON s.host = n.host", {"kind": "left", "changelog": True}),
        ("SELECT a.host, b.bytes FROM logs a FULL JOIN logs b ON a.host = b.host", {"kind": "full", "changelog": True}),
        ("SELECT a.host, b.bytes FROM logs a JOIN logs b ON a.host = b.host", {"within": "36500d"}),
    ],
)
def test_results_that_change(query: str, expected: dict[str, Any]) -> None:
    [*_, found] = [step for step in steps(LOGS + CHANGING + f"INSERT INTO out {query};") if step["type"] != "select"]

    assert {name: found.get(name) for name in expected} == expected


def test_aggregates_of_results_that_change(checked: Callable[[str], CheckedPipeline]) -> None:
    for query in ("SELECT 'all', max(total) FROM sums", "SELECT DISTINCT 'x', bytes FROM newest", "SELECT host, total FROM sums"):
        assert checked(LOGS + CHANGING + f"INSERT INTO out {query};").problems == (), query


def test_each_statement_has_its_own_mistakes(checked: Callable[[str], CheckedPipeline]) -> None:
    problems = checked(LOGS + "SELECT a FROM logs;\nSELECT b FROM logs;\nSELEC c FROM logs;").problems
    assert [problem.line for problem in problems] == [5, 6, 7]


def test_mistakes_in_options_of_components_have_the_place_of_the_option(checked: Callable[[str], CheckedPipeline]) -> None:
    table = "CREATE TABLE x (a INT)\nWITH ('type' = 'kafka', 'servers' = '[\"k:9092\"]',\n'topcs' = '[\"t\"]');\nSELECT a FROM x"
    problems = checked(LOGS + table).problems
    assert ("unknown-option", 7) in [(problem.code, problem.line) for problem in problems]


def test_convert_prints_a_pipeline_that_is_equal(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(
        LOGS + "INSERT INTO out SELECT host, max(bytes) FROM logs GROUP BY host, TUMBLE(t, INTERVAL '1' MINUTE)", "utf-8"
    )
    printed = CliRunner().invoke(cli, ["convert", str(script)])
    assert printed.exit_code == 0, printed.output
    (tmp_path / "job.yaml").write_text(printed.stdout, "utf-8")
    as_yaml, as_sql = inspect(tmp_path / "job.yaml", {}).pipeline, inspect(script, {}).pipeline
    assert as_yaml is not None
    assert as_sql is not None
    assert (as_yaml.sources, as_yaml.streams, as_yaml.sinks) == (as_sql.sources, as_sql.streams, as_sql.sinks)


@pytest.mark.parametrize(
    "text",
    [
        *["", ";", "'", "CREATE TABLE", "SELECT " + "(" * 500, "INSERT INTO x VALUES (1)", "\x00"],
        pytest.param("SELECT " + "a+" * 60_000, marks=pytest.mark.slow),
    ],
)
def test_no_text_is_too_odd(checked: Callable[[str], CheckedPipeline], text: str) -> None:
    found = checked(text)
    assert found.pipeline is None
    assert found.problems


FORMS = (
    "SELECT host FROM logs l WHERE NOT EXISTS (SELECT 1 FROM logs r WHERE r.host = l.host AND r.t BETWEEN l.t AND l.t) AND "
    "bytes IN (SELECT bytes FROM logs);",
    "SELECT host, GROUPING(host) AS g FROM logs GROUP BY TUMBLE(t, INTERVAL '1' HOUR), GROUPING SETS ((host), (bytes), ());",
    "SELECT * FROM logs MATCH_RECOGNIZE (PARTITION BY host ORDER BY t MEASURES LAST(B.bytes) AS b ONE ROW PER MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C) WITHIN INTERVAL '1' HOUR DEFINE B AS B.bytes < LAST(B.bytes, 1)) AS m;",
    "SELECT l.host FROM logs l JOIN logs FOR SYSTEM_TIME AS OF l.t AS r ON l.host = r.host CROSS JOIN UNNEST(split(r.host, '.')) "
    "WITH ORDINALITY AS u(part, n);",
    "SET 'run.parallelism' = '2'; SELECT * FROM TABLE(throttle(TABLE logs, keys => '[host]', every => '1m', limit => 3));",
    "INSERT INTO out VALUES ('a', 1), (upper('b'), -2); SELECT sum(bytes) OVER w AS s FROM logs WINDOW w AS (ORDER BY t);",
)

PIECES = ("(", ")", ",", "'", "SELECT", "NULL", "*", "OVER", "1", "AS", ".", "WITH", "EMIT", "INTERVAL")


@pytest.mark.slow
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_scripts_with_words_lost_added_or_exchanged_are_compiled_or_refused(data: st.DataObject) -> None:
    queries = (
        f"INSERT INTO out SELECT host, max(t) FROM {WINDOWED} HAVING count(*) > 2 EMIT WITH DELAY '1' MINUTE BEFORE WATERMARK",
        "SELECT a.host FROM logs a LEFT JOIN logs b ON a.host = b.host AND b.t BETWEEN a.t AND a.t + INTERVAL '5' MINUTE;",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY t) AS n FROM logs) WHERE n = 1;",
        "SELECT host, max(bytes) OVER (PARTITION BY host ORDER BY t ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM logs;",
    )
    words = re.findall(r"\s+|\w+|'[^']*'|.", LOGS + data.draw(st.sampled_from((*queries, *FORMS))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from([*PIECES, *words]), max_size=2))
    text = "".join(words)

    compiled = compile_script(text, installed())

    assert compiled.errors or compiled.value["sinks"]
    assert all(0 <= error.at <= len(text) for error in compiled.errors)


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ("SELECT av.id FROM av, bv WHERE av.id = bv.id AND av.`size` > 1 AND bv.text = 'x'", {"size > 1", "text = 'x'"}),
        ("SELECT av.id FROM av JOIN bv ON av.id = bv.id AND bv.text = 'x' WHERE av.`size` > 1", {"size > 1", "text = 'x'"}),
        ("SELECT av.id FROM av LEFT JOIN bv ON av.id = bv.id AND bv.text = 'x' WHERE av.`size` > 1", {"size > 1", "text = 'x'"}),
        ("SELECT av.id FROM av LEFT JOIN bv ON av.id = bv.id AND av.`size` > 1 WHERE bv.text IS NULL", set()),
        ("SELECT av.id FROM av RIGHT JOIN bv ON av.id = bv.id AND av.`size` > 1 WHERE av.`when` IS NULL", {"size > 1"}),
        ("SELECT av.id FROM av FULL JOIN bv ON av.id = bv.id AND av.`size` > 1", set()),
    ],
)
def test_conditions_on_one_side_of_a_join_are_met_before_it(query: str, filters: set[str]) -> None:
    compiled = compile_script(PARTS + f"INSERT INTO sums {query}", installed())

    assert not compiled.errors, [str(error) for error in compiled.errors]
    streams = compiled.value["streams"]
    before = {name: stream["steps"] for name, stream in streams.items() if "_of_join_" in name}
    assert {step["where"] for steps in before.values() for step in steps if step["type"] == "filter"} == filters


def test_options_are_texts_and_have_the_types_of_the_component(checked: Callable[[str], CheckedPipeline]) -> None:
    tables = """
    CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5', 'rows-per-second' = '100');
    CREATE TABLE d (n INT) WITH ('connector' = 'jdbc', 'url' = 'sqlite:///d.db', 'table-name' = 'd', 'create' = 'true');
    CREATE TABLE e (n INT) WITH ('type' = 'database', 'url' = 'sqlite:///e.db', 'table' = 'e', 'batch.max_events' = '7');
    INSERT INTO d SELECT n FROM g; INSERT INTO e SELECT n FROM g;
    """
    found = checked(tables)
    assert found.problems == ()
    assert found.pipeline is not None
    sinks = {name: output.sink.model_dump() for name, output in found.pipeline.sinks.items()}
    assert sinks["d"]["create"] is True
    assert sinks["e"]["batch"]["max_events"] == 7
    [problem] = checked(tables.replace("'7'", "'many'")).problems
    assert problem.message == "'many' is not a whole number"


PER_HOST = f"SELECT host, count(*) AS n, window_start AS s FROM {WINDOWED}"


@pytest.mark.parametrize(
    ("query", "windows"),
    [
        (f"SELECT a.host, b.n FROM ({PER_HOST}) a JOIN (SELECT max(n) AS n, s FROM ({PER_HOST}) GROUP BY s) b ON a.n = b.n", 1),
        (f"SELECT host, n FROM ({PER_HOST}) UNION ALL SELECT host, n FROM ({PER_HOST})", 1),
        (f"SELECT host, n FROM ({PER_HOST}) UNION ALL SELECT host, n FROM ({PER_HOST} HAVING count(*) > RAND())", 1),
        (f"SELECT host, n FROM ({PER_HOST}) UNION ALL SELECT host, n FROM ({PER_HOST.replace('MINUTE', 'HOUR')})", 2),
        (f"SELECT host, n FROM ({PER_HOST}); CREATE TABLE o WITH ('connector' = 'print'); INSERT INTO o {PER_HOST}", 2),
    ],
)
def test_equal_sub_queries_of_a_query_run_once(query: str, windows: int) -> None:
    compiled = compile_script(LOGS + f"INSERT INTO out {query}", installed())

    assert not compiled.errors, [str(error) for error in compiled.errors]
    found = [(name, at, step) for name, one in compiled.value["streams"].items() for at, step in enumerate(one["steps"])]
    assert sum(step["type"] == "window" and step.get("time") == "t" for *_, step in found) == windows
    assert all(("streams", name, "steps", at) in compiled.locations for name, at, _ in found)


@pytest.mark.parametrize(("path", "codes"), [("out/", ["no-effect"]), ("out/{host}/", ["unbounded-paths"])])
def test_partitions_need_a_path_that_names_their_columns(
    checked: Callable[[str], CheckedPipeline], path: str, codes: list[str]
) -> None:
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'json'"
    table = f"CREATE TABLE f (host STRING) PARTITIONED BY (host) WITH ({options});"
    assert [problem.code for problem in checked(LOGS + table + "INSERT INTO f SELECT host FROM logs").problems] == codes
