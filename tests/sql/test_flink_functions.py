"""Flink's functions and operators give Flink's values and types, on Arrow."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flink_values import arrow_type, flink_type, same, written

from etl.expressions import analyse, compile_expression
from etl.sql.columns import Scope
from etl.sql.expressions import spark_text
from etl.sql.reading import read_script
from etl.sql.statements import ScriptError

ONE_ROW = pa.record_batch({"": [0]})

OTHERWISE = {
    "CAST('NaN' AS DOUBLE) > CAST('Infinity' AS DOUBLE)": "NaN is the greatest number, as in Spark and in ORDER BY",
    "LOWER('İ')": "Flink cuts to the CHAR(1) of the literal",
    "TIMESTAMP '2024-01-01 12:34:56.123456789'": "times have microseconds",
    "CAST('-Infinity' AS FLOAT)": "an error of Flink's planner: over a column it answers",
    "99999999999999999999": "a number with 20 digits is a DECIMAL(20, 0)",
}
"""Expressions with another value, and why."""


def outcome(case: dict[str, Any]) -> str:
    """ok, or what is wrong with an expression's value, type or error."""
    refused = case.get("stage") == "plan"
    script = read_script(f"SELECT {case['expr']}")
    if script.errors:
        return "ok" if refused else f"syntax: {script.errors[0]}"
    try:
        text = spark_text(script.statements[0].query.expressions[0], Scope(()))  # type: ignore[union-attr]
    except ScriptError as error:
        return "ok" if refused else f"script: {error}"
    analysis = analyse(text, pa.schema([]))
    if analysis.errors:  # lint finds bad constants, which fail in Flink's run
        return "ok" if "error" in case else f"{text}: {analysis.findings[0].message}"
    if refused and "No match found for function signature" in case["error"]:
        return "ok"  # a function that Flink lacks
    if analysis.spark_reason:
        return f"{text}: {analysis.spark_reason}"
    found = compile_expression(text, pa.schema([]))(ONE_ROW)
    failed = found.failed is not None and found.failed[0].as_py()
    if failed or "error" in case:
        return "ok" if failed and case.get("stage") == "run" else f"{text}: {found}"
    value, expected = found.values[0].as_py(), case["value"]
    if pa.types.is_map(found.values.type) and value is not None:
        value = sorted(value, key=str)
    shown = written(value, case["type"])
    if not same(shown, expected):
        return f"{text}: {shown!r} is not {expected!r}"
    if arrow_type(found.values.type) != flink_type(case["type"]):
        return f"{text}: {arrow_type(found.values.type)} is not {flink_type(case['type'])}"
    return "ok"


@pytest.mark.slow
def test_expressions_are_as_in_flink(acceptance: Path) -> None:
    if not (acceptance / "flink_functions").is_dir():
        pytest.skip(f"there is no {acceptance / 'flink_functions'}")
    lines = (acceptance / "flink_functions" / "expressions.jsonl").read_text("utf-8").splitlines()
    cases = [case for line in lines if "note" not in (case := json.loads(line))]
    found = {case["expr"]: outcome(case) for case in cases}

    wrong = {expr: result for expr, result in found.items() if result != "ok" and expr not in OTHERWISE}
    assert wrong == {}
    assert [expr for expr in OTHERWISE if found.get(expr, "other") == "ok"] == [], "these are right now"
    assert list(found.values()).count("ok") >= 0.98 * len(cases)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("RPAD('hi', 2, '')", None),
        ("LPAD('hi', 0, '')", None),
        ("SPLIT_INDEX('a\u00a0b\u2003c', '', 1)", "c"),
        ("SPLIT_INDEX('a b', 256, 0)", None),
        ("SPLIT_INDEX('a b', 32, 1)", "b"),
        ("IS_DECIMAL('NaN')", True),
        ("IS_DECIMAL(' -Infinity')", True),
        ("IS_DECIMAL('1 2')", False),
    ],
)
def test_odd_arguments_give_what_flinks_code_gives(expression: str, value: Any) -> None:
    (statement,) = read_script(f"SELECT {expression}").statements
    text = spark_text(statement.query.expressions[0], Scope(()))  # type: ignore[union-attr]

    assert compile_expression(text, pa.schema([]))(ONE_ROW).values[0].as_py() == value


def test_counts_in_the_data_do_not_take_all_memory() -> None:
    batch = pa.record_batch({"s": ["ab", "ab", None], "n": [3, 2_000_000_000, 1]})
    for text, first in (("flink_repeat(s, n)", "ababab"), ("flink_lpad(s, n, 'x')", "xab"), ("flink_rpad(s, n, 'x')", "abx")):
        found = compile_expression(text, batch.schema)(batch)

        assert found.values[0].as_py() == first
        assert found.failed is not None
        assert found.failed.to_pylist() == [False, True, False]
    wide = compile_expression("flink_printf('%1999999999d', n)", batch.schema)(batch)
    assert wide.values.to_pylist() == [None, None, None]


def test_a_pattern_that_takes_for_ever_rejects_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.expressions.library.flink.java_patterns.SECONDS", 0.05)
    batch = pa.record_batch({"s": ["a" * 60 + "!", "b"], "p": [r"(?:a|aa)+$(?<=b)", "b"]})

    found = compile_expression("flink_regexp_count(s, p)", batch.schema)(batch)

    assert found.values[1].as_py() == 1
    assert found.reasons is not None
    assert found.reasons[0].as_py().endswith("took more than 0.05 seconds for a text")


HOSTILE = [
    "",
    "\0",
    "(",
    "[a-",
    "\\",
    "(a+)+$",
    "😀",
    "9" * 400,
    "%",
    "{",
    "$.a[",
    "2024-13-99",
    "-0001-01-01 00:00:00",
    "a" * 40,
    None,
]


def test_texts_of_any_kind_are_answered() -> None:
    """Every function of texts answers every combination of odd texts with a value, null or a rejected event."""
    from itertools import product

    from etl.expressions.library.catalogue import functions

    for function in functions("flink").values():
        kinds = [one.partition(":")[2].strip() for one in function.arguments.split(",")]
        count = len(kinds)
        if count > 2 or any("string" not in kind or "..." in kind for kind in kinds):
            continue
        rows = list(product(HOSTILE, repeat=count))
        columns = {f"x{number}": [row[number] for row in rows] for number in range(count)}
        batch = pa.record_batch({name: pa.array(values, pa.string()) for name, values in columns.items()})
        text = f"{function.name}({', '.join(columns)})"

        found = compile_expression(text, batch.schema)(batch)

        assert len(found.values) == len(rows), text


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("a + b * 2", "flink_add(a, flink_multiply(b, 2))"),
        ("x * 2", "x * 2"),
        ("CAST(a AS BIGINT)", "CAST(a AS BIGINT)"),
        ("CAST(a AS TINYINT)", "flink_cast(a, 'tinyint')"),
        ("CAST(s AS INT)", "flink_cast(s, 'int')"),
        ("TRY_CAST(s AS INT)", "flink_try_cast(s, 'int')"),
        ("t + INTERVAL '5' SECOND", "t + INTERVAL '5' SECOND"),
        ("t - INTERVAL '1' MONTH", "flink_timestampadd('month', -1, t)"),
        ("s LIKE 'a\\%'", "s LIKE 'a\\\\\\\\%'"),
        ("SPLIT_INDEX(s, '/', 2)", "flink_split_index(s, '/', 2)"),
        ("DATE_FORMAT(t, 'yyyy-MM-dd')", "flink_date_format(t, 'yyyy-MM-dd')"),
        ("EXTRACT(DOW FROM t)", "flink_extract('dow', t)"),
    ],
)
def test_what_spark_says_as_flink_does_stays_as_it_is(sql: str, text: str) -> None:
    from etl.sql.columns import SqlColumn

    types = {"a": "int", "b": "int", "x": "double", "s": "string", "t": "timestamp"}
    scope = Scope(tuple(SqlColumn(name, name, type_) for name, type_ in types.items()))
    (statement,) = read_script(f"SELECT {sql}").statements

    assert spark_text(statement.query.expressions[0], scope) == text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hmac_hex('x', 'k', 'sha999')", "there is no hash 'sha999'"),
        ("flink_date_format(timestamp'2024-01-01 00:00:00', 'bb')", "pattern of flink_date_format()"),
        ("flink_from_unixtime(0, 'bb')", "pattern of flink_from_unixtime()"),
    ],
)
def test_constants_that_no_event_could_use_are_found_before_the_run(text: str, message: str) -> None:
    (finding,) = analyse(text, pa.schema([])).findings

    assert message in finding.message


def test_all_clocks_of_an_expression_show_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(1_700_000_000, 100_000)
    monkeypatch.setattr("time.time", lambda: float(next(ticks)))
    same = (
        "flink_current_timestamp() = flink_current_timestamp() and flink_current_date() = flink_current_date()"
        " and flink_unix_time() = unix_seconds(flink_current_timestamp())"
    )

    assert compile_expression(same, pa.schema([]))(ONE_ROW).values.to_pylist() == [True]
