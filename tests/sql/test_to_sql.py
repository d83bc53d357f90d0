"""Pipelines as SQL scripts, which are compiled to the same pipelines; steps as table functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from running import ROOT

from etl.catalogue import installed
from etl.cli.main import cli
from etl.config.document.parser import read
from etl.config.loader import inspect
from etl.sql.script import compile_script
from etl.sql.to_sql import NotSqlError, long_form, same, to_script

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
        value = read(path.read_bytes()).value
        if "tests" in value or ("source" not in value and "sources" not in value):
            continue
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


def test_options_of_all_kinds_come_back() -> None:
    odd = 'it\'s {x} \\d \\\\ "q" [a]\n\té'
    step = {"type": "over", "keys": ["a"], "rows": 3, "aggregates": {"n": "count(*)", odd: odd}, "late": "1m"}
    value = {
        "name": "odd",
        "description": odd,
        "run": {"parallelism": 2, "fsync": False},
        "dead_letters": {"type": "file", "path": "{x}.jsonl"},
        "tables": {"names": {"type": "inline", "key": "a", "rows": [{"a": "b", "n": 1.5}]}},
        "sources": {"in-put": {"type": "file", "path": "[x]*.log", "multiline": {"start": odd}}, "b": {"type": "stdin"}},
        "streams": {
            "both": {"from": ["in-put", "b"], "steps": [{"type": "lookup", "table": "names", "on": "a", "add": {"n": "n"}}]},
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
