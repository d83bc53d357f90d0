"""Expressions with the syntax of other languages: lint's message for each, and its position."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.api import TIMESTAMP
from etl.expressions import analyse
from etl.steps.filter import Filter
from etl.steps.sql import Sql

FIELDS = pa.schema(
    [
        ("level", pa.string()),
        ("took", pa.int32()),
        ("ok", pa.bool_()),
        ("ts", TIMESTAMP),
        ("source.ip", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("file.path", pa.string()),
    ]
)


@pytest.mark.parametrize("name", ["reflect", "java_method", "try_reflect"])
def test_no_expression_runs_java_code(name: str) -> None:
    found = list(Filter(where=f"{name}('java.lang.System', 'getProperty', 'user.home') = level").check(FIELDS))

    assert [(one.code, one.at) for one in found] == [("bad-expression", 0)]
    assert "would run code of its own" in found[0].message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_trunc('HOUR', level) = level", "time_trunc() is of the type TIME, which events cannot have"),
        ("hour(to_time(level)) = 1", "to_time() is of the type TIME, which events cannot have"),
        ("time_diff('HOUR', level, level) > 1", "time_diff() is of the type TIME, which events cannot have"),
        ("cast(cast(level as time) as string) = '1'", "time() is of the type TIME, which events cannot have"),
        ("unix_nanos(ts) > 1", "unix_nanos() takes a time with nanoseconds, and times have microseconds"),
        ("window_time(ts) > ts", "window_time() takes a window of Spark, which an event has not"),
        ("range(5) = 1", "range() gives a table, and an expression has one value"),
    ],
)
def test_functions_that_spark_refuses_in_any_case_are_found(text: str, message: str) -> None:
    assert [(one.code, one.message) for one in Filter(where=text).check(FIELDS)] == [("bad-expression", message)]


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("ok && took > 5", 3, "write and"),
        ("level == 'ERROR' || took > 5", 9, "between conditions write or"),
        ("took > 5 || level == 'ERROR'", 7, "between conditions write or"),
        ("ok xor took > 5", 3, "of two conditions exactly one: (ok) <> (took), each in brackets"),
        ("level contains 'x'", 6, "write contains(level, 'x')"),
        ("level not contains 'x'", 10, "write not contains(level, 'x')"),
        ("source.ip startswith '10.'", 10, "write startswith(source.ip, '10.')"),
        ("level matches 'x+'", 6, "write level rlike 'x+'"),
        ("level =~ 'x+'", 6, "a regular expression: level rlike 'x+'"),
        ("level =~ /x+/", 6, "a regular expression: level rlike '…'"),
        ("level !~ 'x+'", 6, "write not level rlike 'x+'"),
        ("level ~ 'x+'", 6, "a regular expression: level rlike 'x+'"),
        ("level === 'x'", 6, "write ="),
        ("level !== 'x'", 6, "write <>"),
        ("took =< 5", 5, "write <="),
        ("took => 5", 5, "write >="),
        ("took gt 5", 5, "write took > 5"),
        ("ok ? 1 : 2", 3, "write if(condition, value, otherwise)"),
        ("level ?? 'x'", 6, "write coalesce(level, 'x')"),
        ("[source][ip] == 'x'", 0, "write source.ip"),
        (".level == 'x'", 0, "write level"),
        ("%{level} == 'x'", 0, "write level"),
        ("{{ level }} = 'x'", 0, "write level"),
        ("$.level = 'x'", 0, "write level"),
        ("level in ['a', 'b']", 9, "write in (…, …)"),
        ("'x' in level", 4, "a part of a text: contains(level, 'x'); of a list: array_contains(level, 'x')"),
        ("level is 'x'", 6, "write level = 'x'"),
        ("level is not 'x'", 6, "write level <> 'x'"),
        ("ts > now() - 5m", 13, "a length of time is written: interval 5 minutes"),
        ("level = 'x';", 11, "leave it out"),
        ("level = “x”", 8, "a text stands between ' and '"),
        ("level.startswith('x')", 0, "write a function call: startswith(level, 'x')"),
        ("level.toLowerCase() = 'x'", 0, "write a function call: lower(level)"),
        ("level = 'a' or 'b'", 15, "write level in ('a', 'b')"),
        ("1 < took < 5", 0, "two comparisons: 1 < took and took < 5"),
        ("level = error", 8, "a text needs quotes: 'error'"),
        ("level in ('a', error)", 15, "a text needs quotes: 'error'"),
        ("level is None", 9, "write null: x is null, x is not null"),
        ("downcase(level) = 'x'", 0, "Spark's name is 'lower'"),
        ("cidr_match('10.0.0.0/8', source.ip)", 0, "that is 'ip_in' here: ip_in(address, '10.0.0.0/8')"),
    ],
)
def test_foreign_syntax_gets_a_hint_with_spark_s(text: str, at: int, hint: str) -> None:
    (finding,) = analyse(text, FIELDS).findings

    assert (finding.severity, finding.at, finding.hint) == ("error", at, hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("level = null", "write level is null, or is not null"),
        ("level != null", "write level is null, or is not null"),
        ("'level' = 'x'", "leave out the quotes"),
        ('"level" = "x"', "leave out the quotes"),
    ],
)
def test_useless_comparisons_are_warnings(text: str, hint: str) -> None:
    (finding,) = analyse(text, FIELDS).findings

    assert (finding.severity, finding.hint) == ("warning", hint)


@pytest.mark.parametrize(
    "text",
    [
        "level is not null and not ok", "took in (1, 2)", "tags[0] = 'x'", "~took > 1", "make_interval(days => 1) is not null",
        "contains(level, 'a && b')", "level = \"it's\"", "level rlike '=~ /x/'", "took / 2 > 1.5", "level /* ? && */ = 'x' -- ~",
        "file.path = 'x'", "`level` = 'x'", "took::string = '1'", "ok or 'true'", "concat(level, '{{x}}') = 'x'",
        "took > 5S", "ts > now() - interval 5 minutes", "case when ok then level end = 'x'", "level || 'x' = 'yx'",
    ],
)  # fmt: skip
def test_spark_s_own_syntax_has_no_findings(text: str) -> None:
    assert analyse(text, FIELDS).findings == ()


def test_two_conditions_joined_as_texts_are_no_condition() -> None:
    (finding,) = Filter(where="(took > 5) || (level == 'ERROR')").check(FIELDS)

    assert (finding.code, finding.hint) == ("not-boolean", "'||' joins texts; between conditions write or")


@pytest.mark.parametrize(
    ("query", "at", "reason"),
    [
        ("SELECT level FROM events JOIN t ON events.level = t.level", 25, "JOIN"),
        ("SELECT level FROM events, t", 24, "JOIN"),
        ("SELECT level FROM events ORDER BY level", 25, "ORDER BY"),
        ("SELECT DISTINCT level FROM events", 7, "DISTINCT"),
        ("SELECT level, count(*) AS n FROM events GROUP BY level", 40, "GROUP BY"),
        ("SELECT level FROM events LIMIT 5", 25, "LIMIT"),
        ("SELECT level FROM events UNION ALL SELECT level FROM events", 25, "UNION"),
        ("WITH x AS (SELECT * FROM events) SELECT * FROM x", 0, "WITH"),
        ("SELECT * FROM (SELECT * FROM events)", 22, "a query inside a query"),
        ("SELECT level FROM events WHERE level IN (SELECT level FROM events)", 48, "a query inside a query"),
        ("SELECT level FROM events WHERE level && ok", 37, "'&&'"),
        ("SELECT level FROM events WHERE level = error", 39, "'error'"),
        ("SELECT level FROM events WHERE took", 31, "a condition is needed"),
        ("SELECT level, FROM events", 12, "after this ','"),
        ("SELECT level", 0, "lacks FROM"),
    ],
)
def test_a_query_that_is_more_than_a_select_is_refused_by_name(query: str, at: int, reason: str) -> None:
    (finding,) = Sql(query=query).check(FIELDS)

    assert finding.at == at
    assert reason in finding.message


def test_messages_do_not_repeat_long_expressions() -> None:
    text = " or ".join(f"took = {number}" for number in range(5000)) + " or"

    (finding,) = analyse(text, FIELDS).findings

    assert len(finding.message) < 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" or ".join(f"took = {number}" for number in range(20_000)), "more than 50,000 tokens"),
        ("(" * 2000 + "ok" + ")" * 2000, "the expression is nested too deeply"),
        (" || ".join(["level"] * 3000), "the expression is nested too deeply"),
    ],
)
def test_huge_expressions_are_refused(text: str, message: str) -> None:
    (finding,) = analyse(text, FIELDS).findings

    assert finding.message == message
    assert finding.hint


def test_lint_reports_the_first_twenty_mistakes_of_an_expression() -> None:
    findings = analyse(" or ".join(f"f{number} = 1" for number in range(2000)), FIELDS).findings

    assert len(findings) < 30
