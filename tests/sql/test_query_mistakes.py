"""Forms of queries that a stream cannot have are refused with a reason, at their place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from etl.catalogue import installed
from etl.sql.script import compile_script

TABLES = """
CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE rates (name STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since)
WITH ('connector' = 'filesystem', 'path' = 'rates.jsonl', 'format' = 'json');
CREATE VIEW plain AS SELECT name, rate FROM rates;
"""
CASES = yaml.safe_load(Path(__file__).with_name("query_mistakes.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["message"])
def test_the_mistake_is_found_at_its_place(case: dict[str, str]) -> None:
    script = TABLES + case["query"]
    [error] = compile_script(script, installed()).errors
    assert str(error) == case["message"]
    assert " ".join(script[error.at :].split()).startswith(case["at"]), script[error.at :][:40]


def test_constant_patterns_that_do_not_compile_are_warnings() -> None:
    query = "SELECT REGEXP_EXTRACT(host, '(a', 1) AS b, REGEXP_REPLACE(host, '[', '') AS c FROM logs WHERE REGEXP(host, 'a*')"

    compiled = compile_script(TABLES + query, installed())

    assert [(one.code, str(one), query[one.at - len(TABLES) :][:4]) for one in compiled.warnings] == [
        ("bad-regex", "'(a' is not a regular expression: the group at 0 is not closed", "'(a'"),
        ("bad-regex", "'[' is not a regular expression: the character class at 0 is not closed", "'[',"),
    ]
    assert not compiled.errors


def test_statements_of_a_session_change_nothing_or_what_they_say() -> None:
    script = f"""{TABLES} USE CATALOG c; ADD JAR 'x.jar'; CREATE DATABASE d; SHOW TABLES;
        DESCRIBE logs; DROP TABLE IF EXISTS other;
        SET 'table.exec.state.ttl' = '1 h'; RESET 'table.exec.state.ttl'; DROP TABLE rates;
        CREATE TABLE rates (name STRING, rate INT) WITH ('connector' = 'print');
        EXPLAIN STATEMENT SET BEGIN INSERT INTO rates SELECT host, 2 FROM logs; INSERT INTO rates SELECT host, 3 FROM logs; END;
        EXPLAIN PLAN FOR SELECT bytes FROM logs;
        EXECUTE STATEMENT SET BEGIN INSERT INTO rates SELECT host, count(*) FROM logs GROUP BY host; END;
        EXECUTE INSERT INTO rates SELECT host, 1 FROM logs;
        CREATE TABLE copied WITH ('connector' = 'print') AS SELECT host, bytes FROM logs; QUIT"""

    compiled = compile_script(script, installed())

    assert not compiled.errors
    assert [one.code for one in compiled.warnings] == ["no-effect"] * 6
    assert {name: sink["from"] for name, sink in compiled.value["sinks"].items()} == {
        "rates": ["rates_rows", "rates_rows_2"],
        "copied": "copied_rows",
    }
    assert not [step for stream in compiled.value["streams"].values() for step in stream["steps"] if "ttl" in step]


def test_queries_in_conditions_are_nested_up_to_a_depth() -> None:
    query = "SELECT bytes FROM logs"
    for _ in range(9):
        query = f"SELECT bytes FROM logs WHERE bytes > (SELECT max(bytes) FROM ({query}) AS q WHERE q.bytes > 1)"

    assert [str(one) for one in compile_script(TABLES + query, installed()).errors] == [
        "more than 6 queries in conditions are nested"
    ]


@pytest.mark.parametrize(
    "condition", ["EXISTS (SELECT 1 FROM rates r WHERE r.name = host)", "bytes > (SELECT max(rate) FROM rates)"]
)
def test_a_query_in_a_condition_may_be_the_first_to_read_a_table(condition: str) -> None:
    compiled = compile_script(f"{TABLES} SELECT host FROM logs WHERE {condition}", installed())

    named = {*compiled.value["sources"], *compiled.value["streams"]}
    read = [stream["from"] for stream in compiled.value["streams"].values()]
    assert not compiled.errors
    assert {name for names in read for name in ([names] if isinstance(names, str) else names)} <= named
