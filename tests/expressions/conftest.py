"""Events with values for which Arrow and Spark have differed."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from java_errors import error_of

from etl.api import TIMESTAMP
from etl.expressions import Evaluation, analyse, compile_expression, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXTS = [
    "", " ", "a", "A", "abc", "ABC", "xabcx", "a,b,c", ",", "%", "_", "a%b", "\\", "a\\b", "é", "ÉCOLE", "ß", "İ", "ΑΣ", "日本語",
    "😀x", "e\u0301", "x\n", "a\nb", "\r\n", "\t5 ", "0", "-0", "+7", "007", "42", "-42", "2147483648", "9223372036854775808",
    "0x1F", "1e3", "1.5", ".5", "5.", "1d", "NaN", "nan", "-nan", "Infinity", "-inf", "true", "YES", "f", "2020-02-29",
    "2021-02-29",
    "2020-01-02 03:04:05.678", "2020-1-2T3:4:5Z", "2020-01-01T10:00:00+01:30", "10.1.2.3", "010.1.2.3", "::1", "2001:db8::5",
    None,
]  # fmt: skip
INTS = [0, 1, -1, 2, 7, -7, 42, 127, 128, -128, 32767, 2**31 - 1, -(2**31), None]
LONGS = [0, 1, -1, 3, -3, 10**6, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None]
DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 1e10, 1e300, -1e300, 5e-324, 2.0**63, math.inf, -math.inf, math.nan, None]
DECIMALS = [Decimal(text) for text in ("0", "1", "-1", "1.5", "-7.25", "99999999.99", "-0.01", "42")] + [None]
UTC = dt.timezone.utc  # noqa: UP017
TIMES = [
    dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(2020, 2, 29, 12, 30, 45, 120000, tzinfo=UTC), dt.datetime(2024, 12, 30, 0, 0, 1, tzinfo=UTC),
    dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), None,
]  # fmt: skip

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("t", pa.string()),
        ("i", pa.int32()),
        ("j", pa.int32()),
        ("l", pa.int64()),
        ("m", pa.int64()),
        ("y", pa.int8()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("f", pa.float32()),
        ("b", pa.bool_()),
        ("c", pa.bool_()),
        ("ts", TIMESTAMP),
        ("day", pa.date32()),
        ("source.ip", pa.string()),
        ("p", pa.decimal128(10, 2)),
        ("q", pa.decimal128(20, 6)),
        ("bits", pa.int16()),
    ]
)


def cycle(values: Sequence[Any], step: int, length: int) -> list[Any]:
    return [values[(n * step) % len(values)] for n in range(length)]


def events() -> pa.RecordBatch:
    """Each value of each list at least once, in combinations that the steps (primes) mix."""
    length = 2 * len(TEXTS)
    columns = {
        "s": cycle(TEXTS, 1, length),
        "t": cycle(TEXTS, 5, length),
        "i": cycle(INTS, 3, length),
        "j": cycle(INTS, 5, length),
        "l": cycle(LONGS, 3, length),
        "m": cycle(LONGS, 7, length),
        "y": cycle([0, 1, -1, 127, -128, 5, None], 1, length),
        "d": cycle(DOUBLES, 1, length),
        "e": cycle(DOUBLES, 7, length),
        "f": cycle([0.0, 1.5, -2.25, 3e38, math.nan, math.inf, None], 1, length),
        "b": cycle([True, False, None], 1, length),
        "c": cycle([True, True, False, False, None], 1, length),
        "ts": cycle(TIMES, 1, length),
        "day": cycle([None if t is None else t.date() for t in TIMES], 3, length),
        "p": cycle(DECIMALS, 1, length),
        "q": cycle(DECIMALS, 5, length),
        "bits": cycle([0, 1, -1, 3, 31, 32, 33, 63, 64, -64, None], 1, length),
        "source.ip": cycle(["10.1.2.3", "11.0.0.1", "::1", "fe80::1", "no", None], 1, length),
    }
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


Agree = Callable[..., None]


@pytest.fixture(scope="session")
def agree(spark: SparkSession) -> Agree:
    """Assert that expressions with an Arrow form have Spark's type, values (up to ``ulps``) and failing rows."""
    register(spark)
    _silence(spark)
    standard = events()
    frames = {id(standard): _frame(spark, standard)}

    def check(expressions: Sequence[str], batch: pa.RecordBatch = standard, tried: int = 1, ulps: int = 0) -> None:
        results, problems = {}, []
        for text in expressions:
            analysis = analyse(text, SCHEMA)
            if analysis.errors or analysis.spark_reason is not None:
                problems.append(f"{text!r} has no Arrow form: {analysis.findings or analysis.spark_reason}")
            else:
                results[text] = compile_expression(text, SCHEMA)(batch)
        frame = frames.get(id(batch)) or _frame(spark, batch)
        for text, column in _computed(frame, results, problems).items():
            problems.extend(_differences(text, results[text], column, ulps))
        for text, result in results.items():
            problems.extend(_not_failing(text, result, frame, tried))
        assert not problems, "\n".join(problems)

    return check


def _silence(spark: SparkSession) -> None:
    """Silence Spark, which logs each error with its stack trace; these tests cause hundreds."""
    from pyspark.logger import PySparkLogger

    spark.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def _frame(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """The events for Spark, with their row number; local to the driver, so that a query of them needs no job."""
    from pyspark.sql import DataFrame

    rows = pa.array(range(batch.num_rows), pa.int32())
    table = pa.table({"_row": rows} | dict(zip(SCHEMA.names, batch.columns, strict=True)))
    frame = spark.createDataFrame(table)._jdf
    return DataFrame(spark._jsparkSession.createDataFrame(frame.collectAsList(), frame.schema()), spark)


def _computed(frame: DataFrame, results: dict[str, Evaluation], problems: list[str]) -> dict[str, pa.Array]:
    """Spark's values, from one query; if that fails, from one query for each expression."""
    columns = [_guarded(text, result) for text, result in results.items()]
    try:
        table = frame.selectExpr("_row", *columns).toArrow().sort_by("_row")
    except Exception as error:
        if len(results) == 1:
            problems.append(f"{next(iter(results))!r}: Spark stops at a row that Arrow computes: {str(error)[:200]}")
            return {}
        parts = (_computed(frame, {text: result}, problems) for text, result in results.items())
        return {text: column for part in parts for text, column in part.items()}
    return {text: column.combine_chunks() for text, column in zip(results, table.columns[1:], strict=True)}


def _guarded(text: str, result: Evaluation) -> str:
    """The expression, for rows that do not fail: Spark stops at the first error, even in a constant that it folds."""
    bad = ["-1"] if result.failed is None else [str(n) for n, failed in enumerate(result.failed.to_pylist()) if failed]
    return f"case when _row in ({', '.join(bad)}) then null else ({analyse(text, SCHEMA).spark_sql}\n) end"


def _differences(text: str, result: Evaluation, theirs: pa.Array, ulps: int) -> Iterator[str]:
    if pa.types.is_list(theirs.type):  # whether elements may be null is not in our types
        theirs = theirs.cast(pa.list_(theirs.type.value_type))
    if theirs.type != result.values.type and not pa.types.is_null(result.values.type):
        yield f"{text!r}: Arrow {result.values.type}, Spark {theirs.type}"
    failed = [False] * len(theirs) if result.failed is None else result.failed.to_pylist()
    rows = enumerate(zip(_values(result.values), _values(theirs), failed, strict=True))
    wrong = [f"{text!r}, row {row}: Arrow {a!r}, Spark {b!r}" for row, (a, b, bad) in rows if not bad and not _equal(a, b, ulps)]
    yield from wrong[:2]


def _values(array: pa.Array) -> list[Any]:
    """Python values; times as numbers, because Python's years end at 9999."""
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()
    return array.cast(pa.int32()).to_pylist() if pa.types.is_date32(array.type) else array.to_pylist()


def _equal(a: Any, b: Any, ulps: int) -> bool:
    """Whether two values are the same, or numbers at most so many units in the last place apart."""
    if a == b or not (isinstance(a, float) and isinstance(b, float)):
        return bool(a == b)
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= ulps * math.ulp(b)


def _not_failing(text: str, result: Evaluation, frame: DataFrame, tried: int) -> Iterator[str]:
    """Rows that fail on Arrow must fail in Spark; a sample is checked."""
    if result.failed is None:
        return
    rows = [n for n, failed in enumerate(result.failed.to_pylist()) if failed]
    frame.createOrReplaceTempView("events_that_fail")
    for row in rows[len(text) % len(rows) :][:tried] if tried < len(rows) else rows:
        query = f"select ({analyse(text, SCHEMA).spark_sql}\n) from events_that_fail where _row = {row}"
        error = error_of(frame.sparkSession, query, computed=True)
        if error is None:
            given = frame.sparkSession.sql(query).collect()
            yield f"{text!r}, row {row}: Arrow fails ({result.reasons[row]}), Spark gives {given}"
        elif "SQLSTATE" not in error:
            yield f"{text!r}, row {row}: {error[:200]}"


@pytest.fixture(scope="session")
def schema() -> pa.Schema:
    return SCHEMA
