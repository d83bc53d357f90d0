"""Signatures of Spark's functions: lint has their result types, and refuses the calls that Spark's analyser refuses."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from java_errors import error_of, java_errors

from etl.api import format_type, parse_type
from etl.expressions import analyse
from etl.expressions.signatures import lookup
from etl.expressions.signatures.probe import probe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "b": "boolean", "ti": "tinyint", "si": "smallint", "i": "int", "l": "bigint", "f": "float", "d": "double",
    "dec": "decimal(12,3)", "s": "string", "t": "string", "bin": "binary",
    "day": "date", "ts": "timestamp", "ntz": "timestamp_ntz",
    "sa": "array<string>", "ia": "array<int>", "la": "array<bigint>", "da": "array<date>", "aa": "array<array<int>>",
    "m": "map<string,string>", "mi": "map<string,int>", "mm": "map<int,array<string>>",
}  # fmt: skip
FIELDS = pa.schema([(name, parse_type(type_)) for name, type_ in COLUMNS.items()])


@pytest.mark.parametrize(
    ("text", "at", "message", "hint"),
    [
        (
            "array_contains(s, 'x')",
            0,
            "takes an array as its first argument, and this is a text",
            "of a text: contains(text, part)",
        ),
        ("array_contains(sa, 5)", 0, "array<string> together with int", "the values of the array are string"),
        ("s[0] = 'x'", 0, "reading an element […] takes an array or a map, and here is a text", "a part of a text"),
        ("size(s) > 1", 0, "takes an array or a map", "of a text: length(text)"),
        ("sha2(s)", 0, "sha2() takes 2 arguments, and here is 1", None),
        ("upper(s, t)", 0, "upper() takes 1 argument, and here are 2", None),
        ("exists(s)", 0, "exists() takes 2 arguments", "a field that is there: x is not null"),
        ("upper(sa) = 'X'", 0, "upper() takes a single value as its first argument, and this is array<string>", None),
        ("filter(s, x -> x = 'a')", 0, "filter() takes an array", "an array of a text: split(text, ',')"),
        ("filter(sa, x -> length(x))", 0, "the lambda of filter() has to be true or false, and this is int", None),
        ("transform(ia, x -> upper(x, 1))", 19, "upper() takes 1 argument", None),
        ("sa = 's'", 0, "'=' does not take array<string> together with a text", "array_contains(array, value)"),
        ("s in (sa)", 0, "'in' does not take", "array_contains(array, value)"),
        ("sa = ia", 0, "'=' does not take array<string> together with array<int>", None),
        ("m = m", 0, "and here is map<string,string>", None),
        ("ts + 1 > ts", 0, "'+' does not take timestamp together with int", None),
        ("s + t", 0, "'+' does not take a text together with a text", "texts are joined by ||"),
        ("i + 'items'", 4, "'+' adds numbers, and 'items' is not a number", "to join texts: i || 'items'"),
        ("cast(sa as int)", 5, "Spark does not cast array<string> to int", None),
        ("cast(i as array<int>)", 5, "Spark does not cast int to array<int>", None),
        ("try_cast(b as date)", 9, "Spark does not cast boolean to date", None),
        ("month(i) = 5", 0, "month() takes a text, a timestamp or a date", None),
        ("round(d, i)", 0, "round() takes a constant whole number as its second argument", None),
        ("to_number(s, t)", 0, "to_number() takes a constant text as its second argument", None),
        ("try_to_number(s, lower(t))", 0, "try_to_number() takes a constant text as its second argument", None),
        ("bitmap_construct_agg(i)", 0, "aggregates many events", None),
        ("array<int>", 0, "array<int> is a type, and a value is needed", "to give a value this type: cast(value as array<int>)"),
        ("array_union(sa, array(struct(i)))", 0, "two arrays of values of one type are needed", None),
        ("make_date(2026, 1, current_timestamp())", 0, "make_date()", None),
        ("round(date'2026-01-02', 2)", 0, "round() takes", None),
    ],
)
def test_lint_refuses_calls_that_spark_refuses(text: str, at: int, message: str, hint: str | None) -> None:
    (finding,) = analyse(text, FIELDS).findings

    assert (finding.severity, finding.at) == ("error", at)
    assert message in finding.message
    assert (finding.hint or "").startswith(hint or "") or (hint or "") in (finding.hint or "")


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("reverse(s)", "string"), ("sha2(s, 256)", "string"), ("date_add(ts, 1)", "date"), ("date_format(ts, 'yyyy')", "string"),
        ("transform(sa, x -> length(x))", "array<int>"), ("filter(ia, (x, at) -> x > at)", "array<int>"),
        ("map_filter(mi, (k, v) -> v > 1)", "map<string,int>"), ("transform_values(m, (k, v) -> length(v))", "map<string,int>"),
        ("sa[0]", "string"), ("m['a']", "string"), ("m.a", "string"), ("element_at(mi, 'a') + 1", "int"),
        ("map_keys(mm)", "array<int>"), ("flatten(aa)", "array<int>"), ("array_distinct(sa)", "array<string>"),
        ("split(s, '[0-9]')[0]", "string"), ("json_array_length(s)", "int"), ("unix_timestamp(s)", "bigint"),
        ("if(b, sa, array('x'))", "array<string>"), ("if(b, ntz, ts)", "timestamp"), ("months_between(ts, day)", "double"),
        ("lpad(s, 5, '0')", "string"), ("lpad(bin, 5, bin)", "binary"), ("rpad(bin, 5, s)", "string"),
        ("sequence(1, 3)", "array<int>"), ("sequence(i, l)", "array<bigint>"), ("sequence(day, day)", "array<date>"),
        ("map('a', 1)", "map<string,int>"), ("map_keys(map('a', 1))", "array<string>"),
        ("map_concat(m, m)", "map<string,string>"), ("abs(dec)", "decimal(12,3)"),
        ("map_from_arrays(sa, ia)", "map<string,int>"), ("map_from_entries(array(struct(s, i)))", "map<string,int>"),
        ("array_union(ia, la)", "array<bigint>"), ("array_append(ia, l)", "array<bigint>"),
        ("array_remove(sa, 'a')", "array<string>"), ("try_divide(i, l)", "double"),
        ("try_divide(dec, null)", "decimal(28,16)"), ("try_add(dec, null)", "decimal(13,3)"), ("try_multiply(null, i)", "int"),
        ("mod(dec, i)", "decimal(12,3)"), ("pmod(dec, null)", "decimal(12,3)"), ("round(dec, 1)", "decimal(11,1)"),
        ("round(0.5)", "decimal(1,0)"), ("floor(0.5)", "decimal(1,0)"), ("floor(dec)", "decimal(10,0)"),
        ("round(null)", "double"), ("floor(null)", "bigint"), ("reverse(null)", "string"), ("-null", "double"),
        ("null + null", "double"), ("dec + null", "decimal(13,3)"), ("dec / null", "decimal(28,16)"), ("null / dec", "double"),
        ("ts + null", "timestamp"), ("dec || null", "string"), ("concat(dec, i)", "string"), ("elt(1, s, t)", "string"),
        ("nanvl(f, d)", "double"), ("array(dec, i)", "array<decimal(13,3)>"), ("s + interval 1 hour", "string"),
    ],
)  # fmt: skip
def test_later_steps_have_spark_s_result_types(text: str, type_: str) -> None:
    analysis = analyse(text, FIELDS)

    assert analysis.findings == ()
    assert format_type(analysis.type) == type_


@pytest.mark.parametrize(
    "text",
    [
        "datediff(hour, ts, ts) > 1", "make_interval(days => 1) is not null", "ts - interval 1 day < ts",
        "ts - ts > interval 1 hour",
        "sequence(ts, ts, interval 1 hour)", "from_json(s, 'a int').a = 1", "array_contains(da, day)",
        "array_insert(da, 1, day)", "ia = la", "day = ntz", "array(1, 2) = ia", "nvl2(m, m, m)",
        "position('a' in s) > 1",
        "position(lower(t) in s) > 1",
        "unix_timestamp() > 0", "current_date = day", "null[0] is null",
        "try_to_number(s, '999')", "struct(i, s).i", "aggregate(ia, 0L, (acc, x) -> acc + x)", "named_struct('a', i).a = 1",
        "overlay(s placing 'x' from 1) = 'x'",
    ],
)  # fmt: skip
def test_lint_reports_nothing_if_types_do_not_decide(text: str) -> None:
    assert analyse(text, FIELDS).findings == ()


# ── Against Spark ─────────────────────────────────────────────────────────────────────────────────

SIGNATURES: dict[str, Any] = json.loads(Path(lookup.__file__).with_name("signatures.json").read_text("utf-8"))["signatures"]
FUNCTIONS = sorted(name for name in SIGNATURES if " " not in name)

LEAF = st.sampled_from([*COLUMNS, "1", "0", "-1", "1.5D", "true", "'1'", "'year'", "date'2020-01-01'", "3000000000L"])
OPERATOR = st.sampled_from(["=", "<>", "<", "<=>", "+", "-", "*", "/", "%", "div", "||", "&", "rlike"])
TYPE = st.sampled_from(sorted(set(COLUMNS.values())))


def _call(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counted = st.sampled_from(FUNCTIONS).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from([int(count) for count in SIGNATURES[name]] or [1]))
    )
    return counted.flatmap(
        lambda pair: st.lists(part, min_size=pair[1], max_size=pair[1]).map(lambda args: f"{pair[0]}({', '.join(args)})")
    )


def _larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _call(part),
        _call(part),
        st.builds("({} {} {})".format, part, OPERATOR, part),
        st.builds("{}({} as {})".format, st.sampled_from(["cast", "try_cast"]), part, TYPE),
        st.builds("{}[{}]".format, st.sampled_from(list(COLUMNS)), part),
        st.builds("({} in ({}, {}))".format, part, part, part),
        st.builds("if({}, {}, {})".format, part, part, part),
        st.builds("({} between {} and {})".format, part, part, part),
    )


EXPRESSION = _larger(LEAF) | _larger(LEAF | _larger(LEAF))


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[SparkSession]:
    columns = ", ".join(f"cast(null as {type_}) as {name}" for name, type_ in COLUMNS.items())
    spark.sql(f"select {columns}").createOrReplaceTempView("typed_events")
    logging.disable()  # each refusal is a stack trace of Python's and Java's otherwise
    yield spark
    logging.disable(logging.NOTSET)
    spark.catalog.dropTempView("typed_events")


def _is_refused(session: SparkSession, sql: str) -> bool:
    """Whether Spark's analyser refuses an expression, also with an assertion of its own."""
    return error_of(session, f"select {sql} as x from typed_events") is not None


@pytest.mark.spark
@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(text=EXPRESSION)
def test_lint_refuses_nothing_that_spark_takes(events: SparkSession, text: str) -> None:
    analysis = analyse(text, FIELDS)

    fails_later = ("'+' adds numbers", "which it is compared with")  # Spark takes it, and then fails at each event
    if analysis.errors and not any(words in finding.message for finding in analysis.findings for words in fails_later):
        assert _is_refused(events, analysis.spark_sql), [finding.message for finding in analysis.findings]


@pytest.mark.spark
def test_lint_finds_most_calls_that_spark_refuses(events: SparkSession) -> None:
    """Of generated calls of one or two typed fields: lint finds 95 of 100 that Spark's analyser refuses."""
    draw = random.Random(17)
    refused = missed = 0
    for _ in range(400):
        name = draw.choice(FUNCTIONS)
        counts = [count for count in SIGNATURES[name] if 0 < int(count) <= 2 and SIGNATURES[name][count]]
        if not counts:
            continue
        args = draw.choices(list(COLUMNS), k=int(draw.choice(counts)))
        text = f"{name}({', '.join(args)})"
        if _is_refused(events, text):
            refused += 1
            missed += not analyse(text, FIELDS).errors

    assert refused > 50
    assert missed <= refused * 0.05


@pytest.mark.spark
def test_the_committed_signatures_are_spark_s(spark: SparkSession) -> None:
    names = [
        "upper",
        "array_contains",
        "size",
        "date_add",
        "element_at",
        "operator =",
        "operator []",
        "cast int",
        "try_cast date",
    ]

    with java_errors():
        found = probe(spark, names)["signatures"]

    assert found == {name: SIGNATURES[name] for name in names}, "refresh: python -m etl.expressions.signatures.probe FILE"


@pytest.mark.spark
def test_flink_s_expressions_that_spark_takes_are_clean(events: SparkSession, acceptance: Path) -> None:
    lines = (acceptance / "flink_functions" / "expressions.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["expr"] for line in lines]
    found = {text: analyse(text, FIELDS) for text in texts}

    typed = {
        text: analysis for text, analysis in found.items() if analysis.errors and analysis.findings[0].code not in ("bad-regex",)
    }
    # the type TIME is refused, too: no event has it, and Spark takes literals of it only, which sqlglot writes as TIMESTAMP
    wrong = [text for text, analysis in typed.items() if "TIME '" not in text and not _is_refused(events, analysis.spark_sql)]

    assert wrong == []
