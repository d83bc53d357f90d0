"""Expressions made by operators: their text, and that the engine reads it as Python means it."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.aggregates.signatures import FUNCTIONS as AGGREGATES
from etl.expressions.analysis import analyse, compile_expression
from etl.expressions.library import catalogue
from etl.sdk import Column, col, expr, fn, lit, when

A, B, NAME = col("a"), col("b"), col("name")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
ROWS = [{"a": 7, "b": -2, "name": "it's", "at": datetime(2026, 1, 2, tzinfo=UTC)}, {"a": 0, "b": 3, "name": "x", "at": None}]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (A > 1, "a > 1"),
        ((A == 1) & (B != 2) | ~(NAME == "x"), "a = 1 AND b <> 2 OR NOT name = 'x'"),
        ((A == 1) & ((B < 2) | (B > 3)), "a = 1 AND (b < 2 OR b > 3)"),
        (~((A == 1) | (B == 2)), "NOT (a = 1 OR b = 2)"),
        (A - (B - 1), "a - (b - 1)"),
        ((A - B) - 1, "a - b - 1"),
        (2 * (A + 1) % 3, "2 * (a + 1) % 3"),
        (-(A + 1), "-(a + 1)"),
        (1 - lit(-1), "1 - -1"),
        (-lit(-1), "-(-1)"),
        ((A == 1) == (B == 1), "(a = 1) = (b = 1)"),
        (A.isin(1, 2), "a IN (1, 2)"),
        (A.isin([3]), "a IN (3)"),
        (NAME.is_null() & A.is_not_null(), "name IS NULL AND a IS NOT NULL"),
        (A.between(1, B + 1), "a BETWEEN 1 AND b + 1"),
        (NAME.like("a%") & NAME.ilike("B%") & NAME.rlike("^c"), "name LIKE 'a%' AND name ILIKE 'B%' AND name RLIKE '^c'"),
        (A.equals_null_safe(None), "a <=> NULL"),
        (A.cast("int") + NAME.try_cast("int"), "CAST(a AS int) + TRY_CAST(name AS int)"),
        (col("source.ip"), "source.ip"),
        (col("end.user-name"), "`end`.`user-name`"),
        (col("tags")[0], "tags[0]"),
        (col("labels")["env"], "labels['env']"),
        (fn.lower(NAME), "lower(name)"),
        (fn.count(col("*")), "count(*)"),
        (fn.count(), "count(*)"),
        (fn.count(NAME, distinct=True), "count(DISTINCT name)"),
        (fn.coalesce(A, B, 0) > 0, "coalesce(a, b, 0) > 0"),
        (fn.ip_in(NAME, "10.0.0.0/8") | fn.entropy(NAME).is_null(), "ip_in(name, '10.0.0.0/8') OR entropy(name) IS NULL"),
        (fn.histogram(A, [0.1, 1]), "histogram(a, array(0.1, 1))"),
        (fn.sum(lit("x")), "sum('x')"),
        (expr("a + b") * 2, "(a + b) * 2"),
        (
            when(A > 1, "big").when("a = 1", "one").otherwise(None),
            "CASE WHEN a > 1 THEN 'big' WHEN a = 1 THEN 'one' ELSE NULL END",
        ),
        (when(A > 1, 2).end(), "CASE WHEN a > 1 THEN 2 END"),
        (lit("it's \\ "), "'it\\'s \\\\ '"),
        (lit(date(2026, 1, 2)), "DATE '2026-01-02'"),
        (lit(datetime(2026, 1, 2, tzinfo=UTC)), "TIMESTAMP '2026-01-02 00:00:00+00:00'"),
        (lit(datetime(2026, 1, 2)), "TIMESTAMP_NTZ '2026-01-02 00:00:00'"),
        (lit(timedelta(minutes=1)), "INTERVAL 60 SECONDS"),
        (lit(timedelta(milliseconds=1)), "INTERVAL 1000 MICROSECONDS"),
        (lit(Decimal("1.50")), "1.50"),
        (lit(True), "TRUE"),
    ],
    ids=str,
)
def test_operators_write_sql(column: Column, text: str) -> None:
    assert str(column) == text
    assert f"{column}" == text


def test_what_python_evaluates_by_itself_is_an_error_with_the_cure() -> None:
    with pytest.raises(TypeError, match="write & for and"):
        bool(A > 1)
    with pytest.raises(TypeError, match="between"):
        1 < A < 2  # noqa: B015
    with pytest.raises(TypeError, match="array_contains"):
        "x" in NAME  # noqa: B015
    with pytest.raises(TypeError, match="unnest"):
        list(NAME)
    with pytest.raises(TypeError, match="are parentheses missing"):
        A & 1
    with pytest.raises(TypeError, match="is not a value of an expression"):
        A + object()
    with pytest.raises(ValueError, match="at least one value"):
        A.isin([])
    with pytest.raises(TypeError, match=r"write fn.sum\(col\('score'\)\) for the field"):
        fn.sum("score")


def test_names_that_do_not_exist_are_errors_with_a_hint() -> None:
    for wrong, hint in {"isNull": "did you mean 'is_null'", "lower": "functions stand in fn"}.items():
        with pytest.raises(AttributeError, match=hint):
            getattr(A, wrong)
    for wrong, hint in {"lowr": "did you mean 'lower'", "zzz": "one of your own is made by @function"}.items():
        with pytest.raises(AttributeError, match=hint):
            getattr(fn, wrong)
    assert not hasattr(A, "_repr_html_")
    assert str(copy.deepcopy(A > 1)) == "a > 1"


def test_every_function_of_ours_and_every_aggregate_is_a_method() -> None:
    names = {*catalogue.functions("own"), *(name for name in AGGREGATES if name.isidentifier())}

    assert {name for name in names if not hasattr(fn, name)} == set()
    assert "ip_in(address, network, more …)" in str(fn.ip_in.__doc__)


numbers = st.integers(-9, 9)
sums = st.recursive(
    st.one_of(st.sampled_from("ab"), numbers),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "neg"]), inner, inner),
    max_leaves=8,
)
conditions = st.recursive(
    st.tuples(st.sampled_from(["==", "<", ">="]), sums, sums),
    lambda inner: st.tuples(st.sampled_from(["&", "|", "~"]), inner, inner),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(conditions)
def test_the_engine_computes_what_python_would(tree: object) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
    text = str(_column(tree))

    analysis = analyse(text, SCHEMA)
    assert analysis.spark_reason is None

    assert compile_expression(text, SCHEMA)(batch).values.to_pylist() == [_result(tree, row) for row in ROWS]


def _column(tree: object) -> Column:
    if not isinstance(tree, tuple):
        return col(tree) if isinstance(tree, str) else lit(tree)
    operator, left, right = tree[0], _column(tree[1]), _column(tree[2])
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "neg": lambda: -left,
        "==": lambda: left == right,
        "<": lambda: left < right,
        ">=": lambda: left >= right,
        "&": lambda: left & right,
        "|": lambda: left | right,
        "~": lambda: ~left,
    }[operator]()


def _result(tree: object, row: dict[str, object]) -> object:
    if not isinstance(tree, tuple):
        return row[tree] if isinstance(tree, str) else tree
    left, right = _result(tree[1], row), _result(tree[2], row)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "neg": lambda: -left,
        "==": lambda: left == right,
        "<": lambda: left < right,
        ">=": lambda: left >= right,
        "&": lambda: left and right,
        "|": lambda: left or right,
        "~": lambda: not left,
    }[tree[0]]()


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_texts_are_read_back_as_they_are(text: str) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS[:1], schema=SCHEMA)

    assert compile_expression(str(lit(text)), SCHEMA)(batch).values.to_pylist() == [text]
