"""Pipelines as SQL scripts, which are compiled to the same pipelines; steps as table functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from running import ROOT

from etl.catalogue import installed
from etl.cli.main import cli
from etl.config.document.parser import read
from etl.config.loader import inspect
from etl.sql.forms.same_pipelines import same
from etl.sql.script import compile_script
from etl.sql.to_sql import NotSqlError, long_form, to_script

SOURCE = "CREATE TABLE logs WITH ('type' = 'file', 'path' = 'logs.txt');\n"


def compiled(text: str) -> dict[str, Any]:
    found = compile_script(text, installed())
    assert not found.errors, [str(error) for error in found.errors]
    return found.value


def converted(value: dict[str, Any]) -> dict[str, Any]:
    """The value of the script that a value becomes."""
    return compiled(to_script(value, installed()))


@pytest.mark.slow
def test_recipes_are_scripts_too() -> None:
    for path in sorted((ROOT / "pipelines").glob("*.yaml")):
        value = dict(read(path.read_bytes()).value)
        if "source" not in value and "sources" not in value:
            continue
        kinds = {step["type"] for stream in long_form(value)["streams"].values() for step in stream.get("steps") or ()}
        if "tests" in value and not kinds & {"window", "top", "dedupe", "over", "join", "lookup"}:
            continue
        value.pop("tests", None)
        once = converted(value)
        assert same(long_form(value), once), path
        assert converted(once) == once, path


@pytest.mark.slow
def test_scripts_of_other_tools_come_back(acceptance: Path) -> None:
    if not (acceptance / "rsql").is_dir():
        pytest.skip(f"there is no {acceptance / 'rsql'}")
    texts = [path.read_text("utf-8") for path in sorted((acceptance / "rsql" / "sql").glob("*.sql"))]
    cases = (acceptance / "rsql" / "cases").glob("*.yaml")
    texts += [yaml.safe_load(path.read_text("utf-8"))["script"] for path in sorted(cases)]
    nexmark = acceptance / "nexmark" / "queries"
    tables = (nexmark / "ddl_source.sql").read_text("utf-8") + (nexmark / "ddl_views.sql").read_text("utf-8") + ";"
    texts += [tables + path.read_text("utf-8") for path in sorted(nexmark.glob("q*.sql"))]
    scripts = (compile_script(text, installed()) for text in texts)
    values = [found.value for found in scripts if not found.errors and not found.declares_only]
    assert len(values) > 55
    for value in values:
        assert same(value, converted(value))


@pytest.mark.slow
def test_forms_of_queries_come_back() -> None:
    from test_query_results import CASES, TABLES

    for case in CASES.values():
        value = compiled(
            f"{TABLES} CREATE TABLE o ({case['columns']}) WITH ('connector' = 'print'); INSERT INTO o {case['query']}"
        )
        assert same(value, converted(value))


def test_filters_and_lists_of_fields_are_select() -> None:
    value = {
        "source": {"type": "file", "path": "in.txt"},
        "steps": [
            {"type": "json", "fields": {"host": "string", "n": "int"}},
            {"type": "filter", "where": "n > 1"},
            {"type": "select", "fields": {"host": "UPPER(host)", "source.port": "n"}},
        ],
        "sink": {"type": "console"},
    }
    assert to_script(value, installed()).split("\n\n", 2)[2] == (
        """CREATE VIEW steps AS
SELECT
  UPPER(host) AS host,
  n AS `source.port`
FROM TABLE(json(TABLE main,
  fields => '{"host": "string", "n": "int"}'))
WHERE n > 1;

INSERT INTO result SELECT * FROM steps;
"""
    )


@pytest.mark.parametrize(
    ("step", "query"),
    [
        (
            {"type": "window", "time": "t", "late": "60s", "size": "10m", "group_by": ["source.ip"], "having": "n >= 3"}
            | {"aggregates": {"n": "count(*)", "bytes": "sum(bytes) filter (where bytes != 0)"}},
            "SELECT\n  window_start,\n  window_end,\n  `source.ip`,\n  count(*) AS n,\n"
            "  sum(bytes) filter (where bytes != 0) AS bytes\n"
            "FROM TABLE(TUMBLE(TABLE main, DESCRIPTOR(t), INTERVAL '10' MINUTE))\n"
            "GROUP BY window_start, window_end, `source.ip`\nHAVING count(*) >= 3",
        ),
        (
            {"type": "window", "time": "t", "late": "1m", "size": "90s", "slide": "30s", "aggregates": {"n": "count(*)"}},
            "HOP(TABLE main, DESCRIPTOR(t), INTERVAL '30' SECOND, INTERVAL '90' SECOND)",
        ),
        (
            {"type": "window", "time": "t", "late": "1m", "size": "1d", "step": "1h", "aggregates": {"n": "max(x)"}},
            "CUMULATE(TABLE main, DESCRIPTOR(t), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
        ),
        (
            {"type": "window", "time": "t", "late": "1m", "gap": "5m", "group_by": ["a"], "aggregates": {"n": "min(x)"}},
            "SESSION(TABLE main PARTITION BY a, DESCRIPTOR(t), INTERVAL '5' MINUTE)",
        ),
        (
            {"type": "top", "time": "t", "late": "1m", "size": "10m", "keys": ["a"], "by": "x", "limit": 3, "nulls": "smallest"},
            "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, a ORDER BY x DESC) AS rank\n"
            "FROM TABLE(TUMBLE(TABLE main, DESCRIPTOR(t), INTERVAL '10' MINUTE)))\nWHERE rank <= 3",
        ),
        (
            {"type": "top", "keys": ["a"], "by": "x", "order": "ascending", "then": {"t": "descending"}, "nulls": "smallest"}
            | {"limit": 1, "ties": "dense_rank", "rank": "place", "changelog": True, "ttl": "7d"},
            "SELECT /*+ STATE_TTL('t' = '7d') */ *, DENSE_RANK() OVER (PARTITION BY a ORDER BY x, t DESC) AS place\n"
            "FROM main AS t)\nWHERE place <= 1",
        ),
        (
            {"type": "dedupe", "keys": ["source.ip", "a"], "time": "t", "late": "1m", "within": "10m"},
            "SELECT /*+ STATE_TTL('t' = '10m') */ * FROM main AS t\n"
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY `source.ip`, a ORDER BY t) = 1",
        ),
        (
            {"type": "dedupe", "keys": ["a"], "within": "36500d"},
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY PROCTIME()) = 1",
        ),
        (
            {
                "type": "over",
                "keys": ["a"],
                "time": "t",
                "late": "1m",
                "rows": 5,
                "aggregates": {"before": "lag(t)", "n": "sum(x)"},
            },
            "lag(t) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS before",
        ),
        (
            {"type": "over", "keys": ["a"], "time": "t", "late": "1m", "within": "1h", "aggregates": {"n": "count(*)"}},
            "count(*) OVER (PARTITION BY a ORDER BY t RANGE BETWEEN INTERVAL '3599.999' SECOND PRECEDING AND CURRENT ROW) AS n",
        ),
    ],
)
def test_steps_are_queries_where_sql_says_the_same(step: dict[str, Any], query: str) -> None:
    value = {"source": {"type": "file", "path": "in.txt"}, "steps": [step], "sink": {"type": "console"}}

    text = to_script(value, installed())

    assert query in text
    assert ("(WATERMARK FOR t AS t - INTERVAL '1' MINUTE)" in text) == ("time" in step)
    assert same(long_form(value), compiled(text))
    assert f"`{step['type']}`(" not in text


@st.composite
def _row_patterns(draw: st.DrawFn, depth: int = 2) -> str:
    """The text of a PATTERN, of which the last part takes one row."""

    def part() -> str:
        if depth and draw(st.integers(0, 3)) == 0:
            inner = [draw(_row_patterns(depth - 1)) for _ in range(draw(st.integers(1, 2)))]
            return f"({' | '.join(inner)})"
        return draw(st.sampled_from("ABCD"))

    many = st.sampled_from(["", "", "?", "+", "*", "+?", "*?", "{2}", "{2,}", "{,3}", "{0,1}", "{1,3}?"])
    return " ".join([*(part() + draw(many) for _ in range(draw(st.integers(1, 3)))), draw(st.sampled_from("ABCD"))])


CONDITIONS = st.sampled_from(
    ["{0}.x > 1", "x IS NOT NULL AND s <> 'a b'", "{0}.x = 1 OR {0}.x = 2", "{0}.x > {1}.x", "{0}.x < FIRST({1}.x) AND x > 0",
     "{0}.x > LAST({0}.x, 1)", "(x > 1 OR s = 'or') AND {0}.s = {1}.s"]
)  # fmt: skip
MEASURES = st.sampled_from(["{0}.x", "FIRST({0}.x)", "COUNT({0}.x)", "UPPER(LAST({0}.s))", "MATCH_ROWTIME()", "{0}.x"])
SKIPS = st.sampled_from(["", "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO FIRST {0}"])


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    _row_patterns(), st.lists(st.tuples(st.sampled_from("ABCD"), st.sampled_from("ABCD"), CONDITIONS), max_size=4),
    st.lists(st.tuples(st.sampled_from("ABCD"), MEASURES), min_size=1, max_size=3), SKIPS, st.booleans(),
)  # fmt: skip
def test_rows_that_are_matched_come_back(
    pattern: str, defined: list[tuple[str, str, str]], measured: list[tuple[str, str]], skip: str, has_keys: bool
) -> None:
    defines = {
        name: f"{name} AS {text.format(name, other)}" for name, other, text in defined if name in pattern and other in pattern
    }
    measures = [f"{text.format(name)} AS m{at}" for at, (name, text) in enumerate(measured) if name in pattern]
    script = (
        "CREATE TABLE given (s STRING, x INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '2' SECOND) "
        "WITH ('type' = 'stdin'); "
        "CREATE TABLE o WITH ('connector' = 'print'); INSERT INTO o SELECT * FROM given MATCH_RECOGNIZE ("
        f"{'PARTITION BY s' if has_keys else ''} ORDER BY t MEASURES {', '.join([*measures, 'MATCH_ROWTIME() AS at'])} "
        f"{skip.format(pattern.split()[-1])} PATTERN ({pattern}) WITHIN INTERVAL '90' SECOND "
        f"{'DEFINE ' if defines else ''}{', '.join(defines.values())})"
    )
    found = compile_script(script, installed())
    assume(not found.errors)

    text = to_script(found.value, installed())

    assert "MATCH_RECOGNIZE (" in text
    assert "sequence(" not in text
    assert same(found.value, compiled(text))


@pytest.mark.parametrize("change", [{"pattern": "a then b"}, {"idle": "1m"}, {"pattern": "a then next b+ then next a"}])
def test_sequences_that_no_clause_says_are_functions(change: dict[str, Any]) -> None:
    step = {"type": "sequence", "keys": ["k"], "time": "t", "within": "1m", "events": {"a": "x = 1", "b": "x = 2"}}
    steps = [step | {"pattern": "a then next b"} | change, {"type": "select", "fields": {"k": "k", "n": "a_count"}}]
    value = {"source": {"type": "stdin"}, "steps": steps, "sink": {"type": "console"}}

    text = to_script(value, installed())

    assert "-- sequence is a function here" in text
    assert "MATCH_RECOGNIZE" not in text
    assert same(long_form(value), compiled(text))


def test_a_comment_says_for_which_options_of_a_look_up_there_are_no_words() -> None:
    step = {"type": "lookup", "table": "n", "on": "k", "add": {"v": "v"}, "match": "prefix"}
    tables = {"n": {"type": "file", "path": "n.csv", "key": "k"}}
    value = {"tables": tables, "source": {"type": "stdin"}, "steps": [step], "sink": {"type": "console"}}

    text = to_script(value, installed())

    assert "\n-- lookup is a function here: SQL has no words for match, several: first\nCREATE VIEW" in text
    assert same(long_form(value), compiled(text))


@pytest.mark.parametrize(
    "options",
    [
        {"size": "10m", "aggregates": {"n": "count(*)"}},
        {"time": "t", "size": ["1m", "5m"], "aggregates": {"n": "count(*)"}},
        {"time": "t", "size": "${SIZE:-1m}", "aggregates": {"n": "count(*)"}},
        {"time": "t", "size": "1m", "aggregates": {"n": "top(x, 3)"}},
        {"time": "t", "size": "1m", "idle": "1m", "aggregates": {"n": "count(*)"}},
        {"time": "t", "size": "1m", "aggregates": {"n": "count(*) AS m, 1"}},
    ],
)
def test_windows_that_sql_cannot_say_are_functions(options: dict[str, Any]) -> None:
    step = {"type": "window", **options}
    value = {"source": {"type": "stdin"}, "steps": [{"type": "filter", "where": "a > 1"}, step], "sink": {"type": "console"}}

    text = to_script(value, installed())

    assert "TABLE(`window`(TABLE (SELECT * FROM main\nWHERE a > 1)" in text
    assert "WATERMARK" not in text
    assert same(long_form(value), compiled(text))


def test_a_null_is_the_default_of_an_option_or_cannot_be_said() -> None:
    def pipeline(step: dict[str, Any]) -> dict[str, Any]:
        return {"source": {"type": "stdin"}, "steps": [step], "sink": {"type": "console"}}

    (step,) = converted(pipeline({"type": "csv", "rest": None}))["streams"]["steps"]["steps"]

    assert step == {"type": "csv"}
    assert not same({"steps": [{"type": "csv", "rest": None}]}, {"steps": [{"type": "csv", "rest": "None"}]})
    with pytest.raises(NotSqlError, match="SQL cannot say this step 'cef'"):
        to_script(pipeline({"type": "cef", "rest": None}), installed())


def test_steps_after_queries_come_back() -> None:
    """After GROUP BY columns are known, so that `SELECT *, x AS y` says `select`; a source has one watermark."""
    window = {"type": "window", "time": "t", "size": "1m", "group_by": ["a"], "aggregates": {"n": "count(*)"}}
    best = {"type": "top", "time": "t", "late": "5s", "size": "1m", "by": "x", "limit": 3, "nulls": "smallest"}
    after = [
        {"type": "set", "fields": {"kind": "'alert'"}},
        {"type": "filter", "where": "n > 3"},
        {"type": "drop", "fields": ["a"]},
    ]
    value = {
        "sources": {"logs": {"type": "stdin"}, "more": {"type": "file", "path": "x"}},
        "streams": {
            "read": {"from": ["logs", "more"], "steps": [{"type": "json"}, {"type": "filter", "where": "a IS NOT NULL and x=1"}]},
            "counts": {"from": "read", "steps": [window, *after]},
            "both": {"from": ["counts", "read"], "steps": [{"type": "filter", "where": "a = 'b'"}]},
            "best": {"from": "read", "steps": [best]},
        },
        "sinks": {"out": {"from": ["both", "best"], "type": "console"}},
    }

    text = to_script(value, installed())

    assert same(value, compiled(text))
    assert "GROUP BY window_start, window_end, a" in text
    assert text.count("WATERMARK FOR t AS t - INTERVAL '10' SECOND") == 2
    assert "top(TABLE" in text


def test_expressions_are_the_same_but_for_case_and_spaces() -> None:
    def step(text: str) -> dict[str, Any]:
        return {"steps": [{"type": "filter", "where": text}]}

    assert same(step("upper(a)!='x' and  b IN (1,2)"), step("UPPER(a) <> 'x' AND b in (1, 2)"))
    assert same(step("`timestamp` > 1"), step("timestamp > 1"))
    for one, other in [("a = 'x'", "a = 'X'"), ("A = 1", "a = 1"), ("`null` = 1", "null = 1"), ("a = 'x y'", "a = 'x  y'")]:
        assert not same(step(one), step(other))


def test_options_of_all_kinds_come_back() -> None:
    odd = 'it\'s {x} \\d \\\\ "q" [a]\n\té'
    step = {"type": "over", "keys": ["a"], "rows": 3, "aggregates": {"n": "count(*)", odd: odd}, "late": "1m"}
    look_ups = [{"type": "lookup", "table": name, "on": "a", "add": {"n": "n"}} for name in ("names", "users")]
    value = {
        "name": "odd",
        "description": odd,
        "run": {"parallelism": 2, "fsync": False},
        "dead_letters": {"type": "file", "path": "{x}.jsonl"},
        "tables": {
            "names": {"type": "inline", "key": "a", "rows": [{"a": "b", "n": 1.5}]},
            "users": {"type": "file", "path": "users.txt", "format": "json", "key": "a"},
        },
        "sources": {"in-put": {"type": "file", "path": "[x]*.log", "multiline": {"start": odd}}, "b": {"type": "stdin"}},
        "streams": {
            "both": {"from": ["in-put", "b"], "steps": look_ups},
            "select": {"from": "both", "steps": [step, {"type": "filter", "where": "cast(n as int) = 1"}]},
        },
        "sinks": {"b": {"from": ["both", "select"], "type": "file", "path": "{a}.txt"}},
    }
    expected = long_form(value)
    assert list(expected["sinks"]) == ["b_sink"]
    assert same(expected, converted(value))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"source": {"type": "stdin"}, "steps": ["json"], "sink": {"type": "console"}}, ("streams", "steps", "steps", 0)),
        ({"source": {"type": "stdin"}, "sink": {"type": "console"}, "tests": []}, ("tests",)),
    ],
)
def test_what_sql_cannot_say_is_named(value: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(NotSqlError) as raised:
        to_script(value, installed())
    assert raised.value.path == path


def test_convert_prints_a_script(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "source: {type: stdin}\nsteps:\n  - {type: filter, where: message <> ''}\nsink: {type: console}\n"
        "tests:\n  t: {input: [a], expect: [{message: a}]}\n"
    )
    printed = CliRunner().invoke(cli, ["convert", str(tmp_path / "job.yaml"), "--to", "sql"])
    assert printed.exit_code == 0, printed.output
    assert "tests are left out" in printed.stderr
    assert compiled(printed.stdout)["streams"] == {
        "steps": {"from": "main", "steps": [{"type": "filter", "where": "message <> ''"}]}
    }


@pytest.mark.parametrize(
    ("query", "at", "message"),
    [
        ("SELECT * FROM TABLE(thrttle(TABLE logs, keys => '[a]'))", "thrttle", "there is no table function 'thrttle'"),
        ("SELECT * FROM TABLE(throttle(keys => '[a]'))", "throttle", "throttle takes a table"),
        ("SELECT * FROM TABLE(throttle(TABLE logs, keys => a + b))", "a + b", "an option is a text, a number or TRUE"),
        ("SELECT DISTINCT * FROM logs", "DISTINCT", "which columns * stands for is not known here"),
        ("SELECT *, 1 + 1 FROM logs", "1 + 1", "a column beside * needs a name"),
    ],
)
def test_mistakes_in_functions_have_their_place(query: str, at: str, message: str) -> None:
    [error] = compile_script(SOURCE + query, installed()).errors
    assert str(error) == message
    assert at in (SOURCE + query)[max(0, error.at - 9) :][: len(at) + 9]


def test_a_function_json_without_fields_is_a_problem(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(f"{SOURCE}SELECT a FROM TABLE(json(TABLE logs));\n", "utf-8")

    assert [one.code for one in inspect(script).problems] == ["missing-option"]


def test_functions_of_the_user_are_declared() -> None:
    value = {
        "functions": {"twice": {"file": "f.py"}, "half": {"module": "m.n", "function": "halves"}},
        "source": {"type": "file", "path": "in.txt"},
        "steps": [{"type": "filter", "where": "half(twice(message)) > 1"}],
        "sink": {"type": "console"},
    }

    text = to_script(value, installed())

    assert "CREATE FUNCTION twice AS 'f.py:twice' LANGUAGE PYTHON;" in text
    assert "CREATE FUNCTION half AS 'm.n:halves' LANGUAGE PYTHON;" in text
    assert same(long_form(value), compiled(text))


def test_an_option_that_create_function_does_not_have_is_named() -> None:
    value = {"functions": {"twice": {"file": "f.py", "timeout": "3s"}}, "source": {"type": "stdin"}}

    with pytest.raises(NotSqlError, match="CREATE FUNCTION has no words for 'timeout'") as raised:
        to_script(value, installed())

    assert raised.value.path == ("functions", "twice", "timeout")


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("CEIL()", "lacks an argument"),
        ("FLOOR()", "lacks an argument"),
        ("DATE_FORMAT()", "takes 2 arguments"),
        ("JSON_ARRAYAGG()", "a value"),
        ("CURRENT_WATERMARK(s)", "because the watermark is that of a whole micro-batch"),
        ("TUMBLE(s, s)", "here windows stand in GROUP BY TUMBLE"),
        ("ML_PREDICT(s)", "here there are no models"),
    ],
)
def test_calls_that_cannot_be(call: str, shown: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(f"{SOURCE}SELECT {call} AS r FROM (SELECT message AS s FROM logs) t;\n", "utf-8")

    problems = inspect(script).problems

    assert any(shown in f"{one.message} {one.hint}" for one in problems), [str(one) for one in problems]
