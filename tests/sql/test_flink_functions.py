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


FLINK_GIVES = [
    ("CAST(INTERVAL '5' DAY AS BIGINT)", 5),
    ("CAST(INTERVAL '1:30' HOUR TO MINUTE AS INT)", 90),
    ("CAST(INTERVAL '1-2' YEAR TO MONTH AS INT)", 14),
    ("CAST(-INTERVAL '3' HOUR AS SMALLINT)", -3),
    ("CAST(INTERVAL '1' DAY + INTERVAL '1' HOUR AS INT)", 25),
    ("CAST(CAST(2 AS INTERVAL DAY) * 3 AS INT)", 6),
    ("CAST(CAST(90 AS INTERVAL MINUTE) AS STRING)", "+0 01:30:00.000"),
    ("CAST(CAST(NULL AS INTERVAL DAY) AS INT)", None),
    ("IF(TRUE, 1, CAST(0.5 AS FLOAT))", 1.0),
    ("COALESCE(CAST(NULL AS INT), CAST(0.5 AS FLOAT))", 0.5),
    ("2 > '1.9'", True),
    ("3 <= '2'", False),
    ("CAST(0.7 AS FLOAT) = 0.7", True),
    ("TIME '08:00:00' < '09:30:00'", True),
    ("ARRAY[4, 5] = ARRAY[4, 5]", True),
    ("ARRAY[4, 5] <> ARRAY[4, 6]", True),
    ("MAP['p', 1, 'q', 2] = MAP['q', 2, 'p', 1]", True),
    ("ROW(7, 'x') IN (ROW(6, 'x'), ROW(7, 'x'))", True),
    ("ARRAY[3] IN (ARRAY[2], ARRAY[3])", True),
    ("ABS(-2147483648)", -2147483648),
    ("-(-2147483648)", 2147483648),
    ("CAST(-0.9 AS INT)", 0),
    ("SIGN(-0.2)", "-1.0"),
    ("LEAST(TIMESTAMP '2021-03-04 05:06:07', TIMESTAMP '2020-03-04 05:06:07')", "2020-03-04 05:06:07+00:00"),
    ("GREATEST(FALSE, TRUE)", True),
    ("INTERVAL -'4' HOUR", "-1 day, 20:00:00"),
    ("INTERVAL '150' DAY(3)", "150 days, 0:00:00"),
    ("DATE '2024-03-01' + INTERVAL '47' HOUR", "2024-03-02"),
    ("TIMESTAMP '2024-03-01 00:00:00' - INTERVAL '0.25' SECOND", "2024-02-29 23:59:59.750000+00:00"),
    ("(TIMESTAMP '2024-01-01 00:00:00' - TIMESTAMP '1924-01-01 00:00:00') DAY", "36525 days, 0:00:00"),
    ("POSITION('a' IN 'banana' FROM 3)", 4),
    ("OVERLAY('telegram' PLACING 'x' FROM 5 FOR 0)", "telex"),
    ("STARTSWITH(x'c0ffee', x'c0')", True),
    ("ENDSWITH(x'c0ffee', x'c0')", False),
    ("JSON_QUOTE('a/b')", '"a\\/b"'),
    ("JSON_VALUE('{\"a\": 1}', '$.z' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)", "error"),
    ("JSON_VALUE('{\"a\": 1}', 'lax $.z' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)", "empty"),
    ("JSON_VALUE('{\"a\": [1]}', 'lax $.a' DEFAULT 'empty' ON EMPTY)", "empty"),
    ("JSON_VALUE('no json', 'lax $.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)", "empty"),
    ("JSON_VALUE('{}', '$.n' RETURNING INT DEFAULT 8 ON ERROR)", 8),
    ("JSON_VALUE('{\"v\": \"abcdef\"}', '$.v' RETURNING VARCHAR(4))", "abcd"),
    ("JSON_VALUE('{\"v\": [4, 9, 2]}', '$.v.length()')", "3"),
    ("JSON_VALUE('{\"v\": [4, 9, 2]}', '$.v.max()')", "9.0"),
    ("JSON_QUERY('{\"v\": [4, 9, 2, 7]}', '$.v[1:3]')", "[9,2]"),
    ("JSON_QUERY('{\"v\": [4, 9, 2, 7]}', '$.v[-1,0]')", "[7,4]"),
    ("JSON_QUERY('{\"x\": 1, \"y\": 2, \"z\": 3}', '$[''z'',''x'']')", '{"z":3,"x":1}'),
    ('JSON_QUERY(\'[{"n": "ann", "q": 5}, {"n": "bob"}]\', \'$[?(@.q)].n\')', '["ann"]'),
    ("JSON_QUERY('[{\"q\": 5}, {\"q\": 9}]', '$[?(@.q > 5 && @.q < 20 || @.q == 1)]')", '[{"q":9}]'),
    ('JSON_QUERY(\'[{"n": "Ann"}, {"n": "bob"}]\', \'$[?(!(@.n =~ /a.*/i))].n\')', '["bob"]'),
    ("JSON_QUERY('[3, 4, 5]', '$[?(@ in [3, 5])]')", "[3,5]"),
    ("JSON_EXISTS('{\"v\": []}', '$.v')", True),
    ('PARSE_JSON(\'{"a":1,"a":2}\', TRUE)', '{"a":2}'),
    ("PRINTF('%s|%d', CAST(NULL AS STRING), CAST(NULL AS INT))", "null|null"),
    ("PRINTF('%.1f %.0f', CAST(0.25 AS DOUBLE), CAST(0.5 AS DOUBLE))", "0.3 1"),
    ("PRINTF('%x %(d %+06d', -2, -9, 42)", "fffffffe (9) +00042"),
    ("PRINTF('%.3e %g', CAST(99999.5 AS DOUBLE), CAST(0.0012 AS DOUBLE))", "1.000e+05 0.00120000"),
    ("CAST('abc' AS BINARY(2))", b"ab"),
    ("CAST('a' AS BINARY(3))", b"a\0\0"),
    ("CAST(x'010203' AS VARBINARY(2))", b"\1\2"),
    ("TRY_CAST(ARRAY['1', 'no'] AS ARRAY<INT>)", None),
    ("TRY_CAST(MAP['k', 'no'] AS MAP<STRING, INT>)", None),
    ("CAST(ARRAY[ROW(1, 2)] AS ARRAY<ROW<p STRING, q BIGINT>>)", [{"p": "1", "q": 2}]),
    ("TO_DATE('2023-02-31', 'yyyy-MM-dd')", "2023-03-03"),
    ("TO_DATE('17.06.2023 and more', 'dd.MM.yyyy')", "2023-06-17"),
    ("TO_TIMESTAMP('2023-6-7 8:9:5')", "2023-06-07 08:09:05+00:00"),
    ("TO_TIMESTAMP('2023-06-07', 'yyyy/MM/dd HH')", "2023-06-07 00:00:00+00:00"),
    ("TO_TIMESTAMP('2023-060', 'yyyy-DDD')", "2023-03-01 00:00:00+00:00"),
    ("TO_TIMESTAMP('2023-06-07 08:00:00 -0300', 'yyyy-MM-dd HH:mm:ss Z')", "2023-06-07 08:00:00+00:00"),
    ("TO_TIMESTAMP_LTZ(CAST(2.25 AS DOUBLE), 0)", "1970-01-01 00:00:02.250000+00:00"),
    ("CONVERT_TZ('2023-06-07 08:00:00.75', 'UTC', 'Asia/Tokyo')", "2023-06-07 17:00:00"),
    ("DATE_FORMAT('2023-6-7 8:9:5', 'yyyyMMdd HHmmss')", "20230607 080905"),
    ("DATE_FORMAT(TIMESTAMP '2023-01-07 23:00:00', 'YYYY ww e c')", "2023 01 7 7"),
    ("DATE_FORMAT(TIMESTAMP '2023-01-08 23:00:00', 'ww W F eeee')", "02 2 1 Sunday"),
    ("DATE_FORMAT(TIMESTAMP '2023-08-09 10:11:12.5', 'G GGGG QQQQ LLL MMMMM EEEEE')", "AD Anno Domini 3rd quarter Aug A W"),
    ("DATE_FORMAT(TIMESTAMP '2023-08-09 00:00:01.5', 'n N A [uuuu]')", "500000000 1500000000 1500 2023"),
    ("FROM_UNIXTIME(0, 'G w W F u')", "AD 1 1 1 4"),
]
"""Expressions and what Flink 2.1 gives; values that have no JSON are compared as Python writes them."""


@pytest.mark.parametrize(("expression", "value"), FLINK_GIVES)
def test_values_are_those_of_flink(expression: str, value: Any) -> None:
    found = evaluate(expression)

    assert found.failed is None or not found.failed[0].as_py(), found.reasons
    given = found.values[0].as_py()
    assert (given if isinstance(given, type(value)) else str(given)) == value


@pytest.mark.parametrize(
    "expression",
    [
        "CAST('ab' AS DECIMAL(6, 2))",
        "CAST('12345' AS DECIMAL(4, 2))",
        "CAST(ARRAY['1', 'no'] AS ARRAY<INT>)",
        "CAST(MAP['k', 'no'] AS MAP<STRING, INT>)",
        "CAST(ROW('no') AS ROW<n INT>)",
        "TO_DATE('2023-06-07', 'plain')",
        "UNIX_TIMESTAMP('2023-06-07', 'b')",
    ],
)
def test_values_that_flink_refuses_reject_the_event(expression: str) -> None:
    found = evaluate(expression)

    assert found.failed is not None
    assert found.failed.to_pylist() == [True]


def evaluate(expression: str) -> Any:
    """The evaluation of an expression of a script."""
    (statement,) = read_script(f"SELECT {expression}").statements
    text = spark_text(statement.query.expressions[0], Scope(()))  # type: ignore[union-attr]
    return compile_expression(text, pa.schema([]))(ONE_ROW)


@pytest.mark.parametrize("text", ["@.a ==", "5", "(@.a", "@.a =~ /(/", "@.a == wrong", "@.a ~ 1", "(" * 60 + "@.a" + ")" * 60])
def test_a_filter_of_a_json_path_that_is_none_finds_nothing(text: str) -> None:
    batch = pa.record_batch({"path": [f"$[?({text})]"]})

    found = compile_expression("flink_json_query('[{\"a\": 1}]', path)", batch.schema)(batch)

    assert found.values.to_pylist() == [None]


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
