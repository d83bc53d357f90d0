"""The analysis of an expression, and how its Arrow form treats events for which it fails. Without Spark."""

from __future__ import annotations

import pickle
import sys
from subprocess import run

import pyarrow as pa
import pytest

from etl.api import TIMESTAMP, PlanError, format_type
from etl.expressions import analyse, compile_expression
from etl.steps.filter import Filter
from etl.steps.set import Set

FIELDS = pa.schema(
    [
        ("level", pa.string()),
        ("message", pa.string()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("ts", TIMESTAMP),
        ("day", pa.date32()),
        ("source.ip", pa.string()),
        ("source.port", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("late", pa.null()),
    ]
)


def values(text: str, **columns: pa.Array | list[object]) -> list[object]:
    batch = pa.record_batch(columns)
    return compile_expression(text, batch.schema)(batch).values.to_pylist()


@pytest.mark.parametrize(
    ("text", "code", "at", "hint"),
    [
        ("lvel = 'x'", "unknown-field", 0, "did you mean 'level'?"),
        ("n = 1 and\n  lvel = 'x'", "unknown-field", 12, "did you mean 'level'?"),
        ("/* 'n' */ level || '😀' || lvel", "unknown-field", 26, "did you mean 'level'?"),
        ("source.prt > 1", "unknown-field", 0, "did you mean 'source.port'?"),
        ("source = 'x'", "unknown-field", 0, "its members are fields: source.ip, source.port"),
        ("tags[0] = nme", "unknown-field", 10, None),
        ("reverse(lvel)", "unknown-field", 8, "did you mean 'level'?"),
        ("uper(level) = 'X'", "unknown-function", 0, "did you mean 'upper'?"),
        ("n = 1 or sha22(level, 1) = 'X'", "unknown-function", 9, "did you mean 'sha2'?"),
        ("not n", "wrong-type", 4, None),
        ("ok and n", "wrong-type", 7, None),
        ("n + ok", "wrong-type", 0, None),
        ("ok > 1", "wrong-type", 0, None),
        ("level = 'x' or -ok = 1", "wrong-type", 16, None),
        ("cast(day as int)", "wrong-type", 5, None),
        ("coalesce(n, ok)", "wrong-type", 0, None),
        ("n in (1, ok)", "wrong-type", 0, None),
        ("case when level then 1 end", "wrong-type", 10, None),
        ("case when null then 1 end", "wrong-type", 0, None),
        ("if(level, 1, 2)", "wrong-type", 3, None),
        ("upper()", "wrong-type", 0, None),
        ("upper(level, n)", "wrong-type", 0, None),
        ("split_part(level, ',', 0)", "wrong-type", 0, None),
        ("level = ", "bad-expression", 6, None),
        ("level = 'x", "bad-expression", 10, None),
        ("(level", "bad-expression", 1, None),
        ("level, n", "bad-expression", 5, None),
        ("  ", "bad-expression", 0, None),
        ("concat(level, , message)", "bad-expression", 12, "write it, or remove the comma"),
        ("concat(, level)", "bad-expression", 7, "write it, or remove the comma"),
        ("concat(level,)", "bad-expression", 12, "write it, or remove the comma"),
        ("n in ('1',,'2')", "bad-expression", 9, "write it, or remove the comma"),
        ("array(1, 2,)[0] = 1", "bad-expression", 10, "write it, or remove the comma"),
        ("n in ()", "bad-expression", 2, "write what is in it"),
        ("level not null", "bad-expression", 6, "write IS NOT NULL"),
        ("substring(level from 1 for) = 'x'", "bad-expression", 23, "write it, or remove the word"),
        ("if(ok, 1)", "wrong-type", 3, "the third is the value where the condition is false"),
        ("ts - interval 5", "bad-expression", 5, "interval 5 minutes"),
        ("level -> 'a'", "bad-expression", 0, None),
        ("level -> level", "bad-expression", 0, None),
        ("()", "bad-expression", 0, None),
        ("select 1", "bad-expression", 7, None),
        ("n = (select 1)", "bad-expression", 12, None),
        ("drop table x", "bad-expression", 11, None),
        ("n > 1 and count(*) > 1", "bad-expression", 10, None),
        ("(" * 5000 + "n", "bad-expression", 0, None),
        ("level rlike '('", "bad-regex", 12, None),
        ("n = 1 or level rlike '[a'", "bad-regex", 21, None),
        ("regexp_extract(level, '(a)', 2)", "bad-regex", 0, None),
        ("regexp_replace(level, '(a)', '$2')", "bad-regex", 29, None),
        ("level like 'a\\\\'", "bad-pattern", 11, None),
        ("ip_in(source.ip, '10.0.0.0/8', '10.0.0.0/33')", "bad-network", 31, None),
    ],
)
def test_findings_stand_where_the_text_is_wrong(text: str, code: str, at: int, hint: str | None) -> None:
    (finding,) = analyse(text, FIELDS).findings

    assert (finding.code, finding.at, finding.severity) == (code, at, "error")
    assert hint is None or finding.hint == hint


def test_all_findings_of_an_expression_come_in_its_order() -> None:
    found = analyse("uper(lvel) = 'x' and not n and level rlike '['", FIELDS).findings

    assert [(finding.code, finding.at) for finding in found] == [
        ("unknown-function", 0),
        ("unknown-field", 5),
        ("wrong-type", 25),
        ("bad-regex", 43),
    ]


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("n + 1", "int"), ("n + 3000000000", "bigint"), ("n / 2", "double"), ("n div 2", "bigint"), ("level + 1", "bigint"),
        ("x * n", "double"), ("n = 1.5", "boolean"), ("ok and null", "boolean"), ("length(level)", "int"),
        ("concat(level, n)", "string"),
        ("case when ok then n else big end", "bigint"), ("coalesce(ts, day)", "timestamp"), ("year(ts)", "int"),
        ("to_date(level)", "date"),
        ("to_timestamp(level, 'dd/MM/yyyy HH:mm')", "timestamp"), ("ip_in(source.ip, '::1')", "boolean"), ("floor(x)", "bigint"),
        ("try_cast(level as smallint)", "smallint"), ("null", "void"), ("late", "void"), ("late > 1", "boolean"),
        ("reverse(level)", "string"),
        ("cast(level as decimal(5,2))", "decimal(5,2)"), ("tags", "array<string>"),
    ],
)  # fmt: skip
def test_types_are_spark_s(text: str, type_: str) -> None:
    analysis = analyse(text, FIELDS)

    assert analysis.findings == ()
    assert format_type(analysis.type) == type_


@pytest.mark.parametrize(
    ("text", "sql", "fields"),
    [
        ("source.ip = 'source.ip'", "`source.ip` = 'source.ip'", {"source.ip"}),
        ("Source.IP = LEVEL", "`source.ip` = `level`", {"source.ip", "level"}),
        ("`source.port` + n > n", "`source.port` + `n` > `n`", {"source.port", "n"}),
        ("n /* n */ > 1 -- n", "`n` /* n */ > 1 -- n", {"n"}),
        ("transform(tags, n1 -> upper(n1))[0]", "transform(`tags`, n1 -> upper(n1))[0]", {"tags"}),
        ("1 = 1", "1 = 1", set()),
    ],
)
def test_spark_reads_flat_fields_in_backticks(text: str, sql: str, fields: set[str]) -> None:
    analysis = analyse(text, FIELDS)

    assert analysis.spark_sql == sql
    assert analysis.fields == fields


@pytest.mark.parametrize("member", ["from", "for", "on", "using", "distinct", "true", "False", "null", "null.x", "group", "as"])
def test_members_may_have_the_names_of_keywords_and_constants(member: str) -> None:
    fields = pa.schema([(f"mail.{member}", pa.string())])
    text = f"concat(mail.{member}, '', mail. {member}) in ('a', mail.{member})"

    analysis = analyse(text, fields)

    assert analysis.findings == ()
    quoted = f"`mail.{member}`"
    assert analysis.spark_sql == f"concat({quoted}, '', {quoted}) in ('a', {quoted})"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n * 1.5", "decimals are computed by Spark"),
        ("tags[0] = 'x'", "reading an element has no Arrow form"),
        ("reverse(level) = 'x'", "reverse() has no Arrow form"),
        ("ts > now()", "only Spark records it"),
        ("level rlike '(?=ab)c'", "a look-ahead of more than one character in '(?=ab)c' has no Arrow form"),
        ("level rlike message", "a computed regular expression has no Arrow form"),
        ("level like message", "LIKE with a computed pattern or a list has no Arrow form"),
        ("to_timestamp(level, 'MMM d')", "to_timestamp() with the pattern 'MMM d'"),
        ("to_timestamp(level, 'yyyyMMdd')", "to_timestamp() with the pattern 'yyyyMMdd'"),
        ("ip_in(level, message)", "ip_in() with a computed network"),
        ("x % 2", "'%' of fractions has no Arrow form"),
        ("cast(x as string)", "cast(double as string) has no Arrow form"),
        ("ts + interval 1 month", "an interval has no Arrow form"),
    ],
)
def test_expressions_without_an_arrow_form_have_a_reason(text: str, reason: str) -> None:
    analysis = analyse(text, FIELDS)

    assert analysis.findings == ()
    assert reason in (analysis.spark_reason or "")
    with pytest.raises(PlanError, match="cannot run on Arrow"):
        compile_expression(text, FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        "n = 1", "n <> 1", "n < big", "n <=> null", "ok and not ok or ok", "level is not null", "n in (1, 2)",
        "x between 1 and n",
        "level like 'a%_'", "level rlike '^a+$'", "level ilike 'A_%'", "level rlike '(?<!a)b++(?=c|$)'",
        "case n when 1 then 2 else 3 end", "if(ok, 1, 2)", "coalesce(level, 'x')",
        "n + 1 - big * 2", "x / n", "n % 2", "cast(level as int)", "try_cast(level as double)", "lower(level)", "upper(level)",
        "trim(level)", "length(level)", "substring(level, 2, 3)", "concat(level, '-', n)", "concat_ws('-', level, n)",
        "replace(level, 'a', 'b')", "split_part(level, ',', 1)", "startswith(level, 'a')", "endswith(level, 'a')",
        "contains(level, 'a')", "regexp_extract(level, '(a)(b)', 2)", "regexp_replace(level, 'a', 'b')", "year(ts)", "month(day)",
        "day(ts)", "hour(ts)", "minute(ts)", "second(ts)", "date_trunc('hour', ts)", "extract(year from ts)",
        "to_timestamp(level)",
        "to_timestamp(level, 'yyyy-MM-dd HH:mm:ss')", "to_timestamp(level, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXX')",
        "to_date(level, 'dd/MM/yyyy')", "ip_in(source.ip, '10.0.0.0/8')",
    ],
)  # fmt: skip
def test_everyday_expressions_stay_on_arrow(text: str) -> None:
    analysis = analyse(text, FIELDS)

    assert (analysis.findings, analysis.spark_reason) == ((), None)


@pytest.mark.slow
def test_lint_reads_expressions_without_pandas_and_spark() -> None:
    texts = [
        "n > 1 and level in ('a', null)",
        "level rlike 'x+'",
        "ip_in(level, '10.0.0.0/8')",
        "to_timestamp(level, 'yyyy-MM-dd')",
    ]
    script = f"""
import sys, pyarrow as pa
import etl.expressions
assert "sqlglot" not in sys.modules
fields = pa.schema([("n", pa.int32()), ("level", pa.string())])
for text in {texts!r}:
    assert not etl.expressions.analyse(text, fields).findings, text
print([name for name in ("pandas", "pyspark", "polars") if name in sys.modules])
"""

    ran = run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (ran.stderr, ran.stdout.strip()) == ("", "[]")


@pytest.mark.parametrize(
    "text",
    [
        "case when n <> 0 then 10 / n else 0 end",
        "if(n = 0, 0, 10 / n)",
        "coalesce(if(n = 0, 0, null), 10 / n)",
        "n = 0 or 10 / n > 1",
        "n <> 0 and 10 / n > 1",
    ],
)
def test_branches_that_are_not_taken_cannot_fail(text: str) -> None:
    batch = pa.record_batch({"n": pa.array([0, 5, None], pa.int32())})

    assert compile_expression(text, batch.schema)(batch).failed is None


def test_a_failed_row_does_not_affect_the_others() -> None:
    batch = pa.record_batch({"s": ["7", "x", None, "é", "9"]})

    found = compile_expression("cast(s as int) + 1", batch.schema)(batch)

    assert found.failed is not None
    assert found.failed.to_pylist() == [False, True, False, True, False]
    assert [found.values[row].as_py() for row in (0, 2, 4)] == [8, None, 10]
    assert found.reasons.to_pylist() == [None, "cannot cast 'x' to int", None, "cannot cast 'é' to int", None]


@pytest.mark.parametrize("text", ["year(ts)", "date_trunc('year', ts)", "cast(ts as string)", "weekofyear(cast(ts as date))"])
def test_years_past_arrow_s_calendar_fail(text: str) -> None:
    batch = pa.record_batch({"ts": pa.array([9089348860800000000, 0, None, -9213683299200000000], TIMESTAMP)})

    found = compile_expression(text, batch.schema)(batch)

    assert found.failed.to_pylist() == [True, False, False, True]


def test_a_text_compared_with_a_whole_number_is_cast_or_fails() -> None:
    batch = pa.record_batch({"s": ["3", "1.5", "9223372036854775808"]})

    found = compile_expression("s / 2", batch.schema)(batch)

    assert found.values[0].as_py() == 1.5
    assert found.failed.to_pylist() == [False, True, True]


def test_concat_ws_skips_nulls_and_keeps_rows_of_nulls() -> None:
    assert values("concat_ws('-', a, b)", a=["x", None, None], b=["y", "z", None]) == ["x-y", "z", ""]
    assert values("concat_ws(s, a, a)", s=["-", None, "+"], a=["x", "y", None]) == ["x-x", None, ""]


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.0.0.0", True), ("10.255.255.255", True), ("11.0.0.0", False), ("010.1.1.1", False), ("10.1.1.256", False),
        ("10.1.1", False),
        ("10.1.1.1 ", False), ("2001:db8::1", True), ("2001:DB8:0::ffff", True), ("2001:db9::1", False),
        ("::ffff:10.0.0.1", True), ("::ffff:11.0.0.1", False),
        ("", False), ("x", False), (":", False), (None, None),
    ],
)  # fmt: skip
def test_ip_in_takes_ipv4_and_ipv6(address: str | None, inside: bool | None) -> None:
    text = "ip_in(a, '10.0.0.0/8', '2001:db8::/32')"

    assert values(text, a=pa.array([address], pa.string())) == [inside]
    assert values(text, a=pa.array([address, "10.0.0.1", "::"], pa.string())) == [inside, True, False]


def test_a_field_of_unknown_type_takes_its_type_from_each_batch() -> None:
    evaluate = compile_expression("late + 1", FIELDS)

    assert evaluate(pa.record_batch({"late": pa.array([1], pa.int64())})).values.to_pylist() == [2]
    assert evaluate(pa.record_batch({"late": pa.array(["5"])})).values.to_pylist() == [6]
    assert evaluate(pa.record_batch({"late": pa.nulls(1)})).values.to_pylist() == [None]


def test_an_empty_batch_gives_an_empty_column() -> None:
    batch = FIELDS.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=FIELDS)]

    found = compile_expression("concat_ws('-', level, cast(n as string))", FIELDS)(batch[0])

    assert (len(found.values), found.values.type, found.failed) == (0, pa.string(), None)


EVENTS = pa.record_batch(
    {"level": ["1", "x", "3"], "n": pa.array([0, 1, 2], pa.int32()), "_offset": pa.array([0, 10, 20], pa.int64())}
)


def test_filter_rejects_only_events_whose_condition_fails() -> None:
    step = pickle.loads(pickle.dumps(Filter(where="n = 1 or cast(level as int) = 3")))

    outcome = step.open(EVENTS.schema)(EVENTS)

    assert outcome.events.column("_offset").to_pylist() == [10, 20]
    assert outcome.rejects == ()


def test_filter_passes_a_rejected_event_unchanged() -> None:
    outcome = Filter(where="10 / n > cast(level as int)").open(EVENTS.schema)(EVENTS)

    (rejects,) = outcome.rejects
    assert outcome.events.column("_offset").to_pylist() == [20]
    assert rejects.events.to_pylist() == EVENTS.slice(0, 2).to_pylist()
    assert rejects.reasons.to_pylist() == ["division by zero", "cannot cast 'x' to int"]


def test_filter_refuses_a_condition_that_is_not_boolean() -> None:
    assert [finding.code for finding in Filter(where="level").check(EVENTS.schema)] == ["not-boolean"]
    assert [finding.code for finding in Filter(where="n = 1").check(EVENTS.schema)] == []


def test_set_rejects_an_event_once_with_its_first_reason() -> None:
    step = Set(fields={"a": "10 / n", "n": "cast(level as int) * 10 / n", "level": "upper(level)"})

    outcome = step.open(EVENTS.schema)(EVENTS)

    (rejects,) = outcome.rejects
    assert outcome.events.to_pylist() == [{"level": "3", "n": 15.0, "_offset": 20, "a": 5.0}]
    assert rejects.events.to_pylist() == EVENTS.slice(0, 2).to_pylist()
    assert rejects.reasons.to_pylist() == ["division by zero", "cannot cast 'x' to int"]


def test_a_constant_array_keeps_its_type_over_no_events() -> None:
    evaluate = compile_expression("array('a', 'b')", pa.schema([("s", pa.string())]))

    values = evaluate(pa.RecordBatch.from_pydict({"s": pa.array([], pa.string())})).values

    assert values.type == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("named_struct('a', 1, 'b', s)", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("struct(s, 1)", pa.struct([("s", pa.string()), ("col2", pa.int32())])),
        ("from_json(s, 'a int, b array<string>')", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("struct(s as x, n + 1)", pa.struct([("x", pa.string()), ("col2", pa.int64())])),
        ("from_csv(s, 'a int')", pa.struct([("a", pa.int32())])),
        ("greatest(variant_get(parse_json(s), '$'), 1) + 1", pa.null()),
        ("(0.5 / n) / 3", pa.decimal128(24, 24)),
        ("round(0.5)", pa.decimal128(1, 0)),
        ("floor(cast(s as decimal(10,2)))", pa.decimal128(9, 0)),
    ],
)
def test_types_of_structs_and_of_unknown_parts(expression: str, type_: pa.DataType) -> None:
    assert analyse(expression, pa.schema([("s", pa.string()), ("n", pa.int64())])).type == type_


STRUCTS = pa.schema([("r", pa.struct([("x", pa.int32()), ("Inner", pa.struct([("z", pa.string())]))]))])


def test_members_of_a_struct_are_read_on_arrow_and_in_any_case() -> None:
    rows = [{"r": {"x": 1, "Inner": {"z": "a"}}}, {"r": {"x": None, "Inner": None}}, {"r": None}]
    batch = pa.RecordBatch.from_pylist(rows, STRUCTS)

    assert compile_expression("r.x + 1", STRUCTS)(batch).values.to_pylist() == [2, None, None]
    assert compile_expression("upper(R.inner.Z)", STRUCTS)(batch).values.to_pylist() == ["A", None, None]
    assert compile_expression("r.inner", STRUCTS)(batch).values.to_pylist() == [{"z": "a"}, None, None]


def test_a_member_that_a_struct_lacks_is_a_finding() -> None:
    (finding,) = analyse("r.inner.y = 'a'", STRUCTS).findings

    assert (finding.code, finding.at) == ("unknown-field", 8)
    assert "r.Inner.y" in finding.message
    assert "z" in str(finding.hint)


def test_a_function_that_makes_rows_is_not_for_expressions() -> None:
    (finding,) = analyse("upper(explode_outer(array('a')))", STRUCTS).findings

    assert "makes several rows" in finding.message
    assert "unnest" in str(finding.hint)
