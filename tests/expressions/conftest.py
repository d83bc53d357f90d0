"""Events with every kind of value that has ever made two engines differ."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from etl.api import TIMESTAMP
from etl.expressions import analyse, compile_expression, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXTS = [
    "", " ", "a", "A", "abc", "ABC", "xabcx", "a,b,c", ",", "%", "_", "a%b", "\\", "a\\b", "é", "ÉCOLE", "ß", "İ", "ΑΣ", "日本語",
    "😀x", "e\u0301", "x\n", "a\nb", "\r\n", "\t5 ", "0", "-0", "+7", "007", "42", "-42", "2147483648", "9223372036854775808",
    "0x1F", "1e3", "1.5", ".5", "5.", "1d", "NaN", "nan", "-nan", "Infinity", "-inf", "true", "YES", "f", "2020-02-29", "2021-02-29",
    "2020-01-02 03:04:05.678", "2020-1-2T3:4:5Z", "2020-01-01T10:00:00+01:30", "10.1.2.3", "010.1.2.3", "::1", "2001:db8::5", None,
]  # fmt: skip
INTS = [0, 1, -1, 2, 7, -7, 42, 127, 128, -128, 32767, 2**31 - 1, -(2**31), None]
LONGS = [0, 1, -1, 3, -3, 10**6, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None]
DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 1e10, 1e300, -1e300, 5e-324, 2.0**63, math.inf, -math.inf, math.nan, None]
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
        "source.ip": cycle(["10.1.2.3", "11.0.0.1", "::1", "fe80::1", "no", None], 1, length),
    }
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


@pytest.fixture(scope="session")
def batch() -> pa.RecordBatch:
    return events()


@pytest.fixture(scope="session")
def frame(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """The same events for Spark, with their row number."""
    register(spark)
    numbered = pa.table(
        {"_row": pa.array(range(batch.num_rows), pa.int32())} | dict(zip(SCHEMA.names, batch.columns, strict=True))
    )
    return spark.createDataFrame(numbered)


Compare = Callable[[Sequence[str]], None]


@pytest.fixture(scope="session")
def agree(spark: SparkSession, frame: DataFrame, batch: pa.RecordBatch) -> Compare:
    """Assert that expressions with an Arrow form have Spark's type, values and failing rows."""

    def check(expressions: Sequence[str]) -> None:
        results = {}
        for text in expressions:
            analysis = analyse(text, SCHEMA)
            assert analysis.findings == (), (text, analysis.findings)
            assert analysis.spark_reason is None, (text, analysis.spark_reason)
            results[text] = compile_expression(text, SCHEMA)(batch)
        selected = ["_row"]
        for number, (text, result) in enumerate(results.items()):
            sql = analyse(text, SCHEMA).spark_sql
            bad = [] if result.failed is None else [n for n, failed in enumerate(result.failed.to_pylist()) if failed]
            guard = f"_row in ({', '.join(map(str, bad))})" if bad else "false"
            selected.append(f"case when {guard} then null else ({sql}\n) end as r{number}")
        table = frame.selectExpr(*selected).toArrow().sort_by("_row")
        for number, (text, result) in enumerate(results.items()):
            _same(text, result, table.column(f"r{number}").combine_chunks())
        for text, result in results.items():
            _fails(text, result, frame)

    return check


def _same(text: str, result: Any, theirs: pa.Array) -> None:
    assert theirs.type == result.values.type or pa.types.is_null(result.values.type), (text, theirs.type, result.values.type)
    mine = result.values.to_pylist()
    failed = [False] * len(mine) if result.failed is None else result.failed.to_pylist()
    for row, (a, b, bad) in enumerate(zip(mine, theirs.to_pylist(), failed, strict=True)):
        assert bad or _equal(a, b), f"{text!r}, row {row}: Arrow {a!r}, Spark {b!r}"


def _equal(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _fails(text: str, result: Any, frame: DataFrame) -> None:
    """One of the rows that fail here fails in Spark too."""
    if result.failed is None:
        return
    rows = [n for n, failed in enumerate(result.failed.to_pylist()) if failed]
    for row in {rows[0], rows[len(rows) // 2]}:
        with pytest.raises(Exception, match=r"SQLSTATE"):
            frame.where(f"_row = {row}").selectExpr(f"({analyse(text, SCHEMA).spark_sql}\n)").collect()
