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
