"""Generated expressions over generated events: the Arrow form gives Spark's results."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from etl.expressions import analyse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.UTC

SAMPLES = [
    "",
    " a ",
    "abc",
    "ABC-abc",
    "42",
    "-7",
    "é",
    "ß",
    "日本",
    "true",
    "1.5",
    "10.1.2.3",
    "2020-02-29",
    "-0044-03-15 1:2:3.5",
]
texts = st.none() | st.sampled_from(SAMPLES) | st.text(max_size=6)
ints = st.none() | st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
longs = st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
doubles = st.none() | st.floats()
times = st.none() | st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(UTC))
booleans = st.none() | st.booleans()

ROW = st.fixed_dictionaries(
    {
        "s": texts, "t": texts, "i": ints, "j": ints, "l": longs, "m": longs, "y": st.none() | st.integers(-128, 127),
        "d": doubles, "e": doubles, "f": st.none() | st.floats(width=32), "b": booleans, "c": booleans, "ts": times,
        "day": st.none() | st.dates(dt.date(1600, 1, 1), dt.date(9999, 12, 31)), "source.ip": texts,
    }
)  # fmt: skip

TEXT_LEAF = st.sampled_from(["s", "t", "'abc'", "'é'", "''", "null", "source.ip"])
WHOLE_LEAF = st.sampled_from(["i", "j", "l", "m", "y", "0", "1", "-1", "3000000000", "null", "year(ts)", "month(day)"])
NUMBER_LEAF = st.sampled_from(["d", "e", "f", "1.5D", "1e3", "i", "l"])
CONDITION_LEAF = st.sampled_from(
    ["b", "c", "true", "(s is null)", "(s like '%a%')", "(s rlike '^[a-c]+$')", "(i in (1, 0, null))", "(ts < day)"]
)
TIME_LEAF = st.sampled_from(
    ["ts", "day", "ts", "cast(s as timestamp)", "try_cast(s as date)", "to_timestamp(t)", "date'2020-02-29'"]
)

UNARY = ["lower", "upper", "trim", "ltrim", "rtrim"]
TEXT_FORMS = [
    "replace({}, 'a', 'é')", "split_part({}, '-', -1)", "regexp_extract({}, '([a-z]+)-?', 1)",
    "regexp_replace({}, '[0-9]+', '#')",
    "left({}, 2)", "right({}, 1)",
]  # fmt: skip
TIME_PARTS = ["year", "quarter", "month", "day", "dayofweek", "weekofyear", "dayofyear", "hour", "minute", "second"]
TEXT_TESTS = [
    "startswith({}, 'a')",
    "endswith({}, 'é')",
    "contains({}, 'b')",
    "({} like '_b%')",
    "({} rlike '\\\\d+')",
    "({} in ('', '42'))",
]


def text(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return TEXT_LEAF
    part = text(depth - 1)
    return TEXT_LEAF | st.one_of(
        st.builds("{}({})".format, st.sampled_from(UNARY), part),
        st.builds(str.format, st.sampled_from(TEXT_FORMS), part),
        st.builds("substring({}, {}, {})".format, part, st.integers(-3, 3), st.integers(-1, 4)),
        st.builds("{}({}, {})".format, st.sampled_from(["concat", "coalesce", "nullif"]), part, part),
        st.builds("concat_ws({}, {}, {})".format, part, part, part),
        st.builds("if({}, {}, {})".format, condition(depth - 1), part, part),
        st.builds("cast({} as string)".format, whole(depth - 1) | moment(depth - 1) | condition(depth - 1)),
    )


def whole(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return WHOLE_LEAF
    part = whole(depth - 1)
    return WHOLE_LEAF | st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(["+", "-", "*", "%", "div"]), part),
        st.builds("length({})".format, text(depth - 1)),
        st.builds("{}({})".format, st.sampled_from(TIME_PARTS), moment(depth - 1)),
        st.builds("{}({})".format, st.sampled_from(["abs", "-"]), part),
        st.builds("{}({} as int)".format, st.sampled_from(["cast", "try_cast"]), text(depth - 1) | number(depth - 1)),
        st.builds("case when {} then {} else {} end".format, condition(depth - 1), part, part),
    )


def number(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return NUMBER_LEAF
    part = number(depth - 1)
    return NUMBER_LEAF | st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(["+", "-", "*", "/"]), part),
        st.builds("{}({}, {})".format, st.sampled_from(["coalesce", "least", "greatest"]), part, whole(depth - 1)),
        st.builds("{}({})".format, st.sampled_from(["sqrt", "radians", "sign"]), part),
        st.builds("{}({} as double)".format, st.sampled_from(["cast", "try_cast"]), text(depth - 1)),
        st.builds("({} / {})".format, text(depth - 1), part),
    )


def condition(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return CONDITION_LEAF
    operator = st.sampled_from(["=", "<>", "<", ">=", "<=>"])
    both = number(depth - 1) | whole(depth - 1)
    return CONDITION_LEAF | st.one_of(
        st.builds("({} {} {})".format, text(depth - 1), operator, text(depth - 1)),
        st.builds("({} {} {})".format, both, operator, both),
        st.builds("({} {} {})".format, moment(depth - 1), operator, moment(depth - 1)),
        st.builds("({} {} {})".format, text(depth - 1), operator, both | moment(depth - 1) | condition(depth - 1)),
        st.builds("({} {} {})".format, condition(depth - 1), st.sampled_from(["and", "or"]), condition(depth - 1)),
        st.builds("(not {})".format, condition(depth - 1)),
        st.builds(str.format, st.sampled_from(TEXT_TESTS), text(depth - 1)),
        st.builds("({} is not null)".format, whole(depth - 1)),
        st.builds("({} between {} and {})".format, whole(depth - 1), whole(depth - 1), whole(depth - 1)),
    )


def moment(depth: int) -> st.SearchStrategy[str]:
    """Dates and timestamps."""
    if depth == 0:
        return TIME_LEAF
    part = moment(depth - 1)
    return TIME_LEAF | st.one_of(
        st.builds("date_trunc('{}', {})".format, st.sampled_from(["year", "week", "hour", "second"]), part),
        st.builds(
            "{}({} as {})".format,
            st.sampled_from(["cast", "try_cast"]),
            part | text(depth - 1),
            st.sampled_from(["date", "timestamp"]),
        ),
        st.builds("coalesce({}, {})".format, part, part),
        st.builds("if({}, {}, {})".format, condition(depth - 1), part, part),
    )


EXPRESSION = st.one_of(text(2), whole(2), number(2), condition(2), moment(2))


AS_WRITTEN = ("NullPropagation", "BooleanSimplification", "SimplifyConditionals", "ConstantFolding", "PushFoldableIntoBranches",
              "SimplifyBinaryComparison", "OptimizeIn", "ReplaceNullWithFalseInPredicate")  # fmt: skip
"""Optimiser rules by which Spark removes parts that cannot change the result, and with them their errors."""


@pytest.fixture(scope="module")
def evaluated_as_written(spark: SparkSession) -> Iterator[None]:
    key = "spark.sql.optimizer.excludedRules"
    spark.conf.set(key, ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in AS_WRITTEN))
    yield
    spark.conf.unset(key)


@pytest.mark.spark
@pytest.mark.usefixtures("evaluated_as_written")
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(rows=st.lists(ROW, min_size=4, max_size=8), expressions=st.lists(EXPRESSION, min_size=8, max_size=14, unique=True))
def test_arrow_and_spark_agree(
    agree: Callable[..., None], schema: pa.Schema, rows: list[dict[str, Any]], expressions: list[str]
) -> None:
    usable = [text for text in expressions if analyse(text, schema).spark_reason is None]

    agree(usable, pa.RecordBatch.from_pylist(rows, schema=schema), tried=2)
