"""Types of columns that hold the values of two queries, and of values of several types in one expression."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from query_runs import run_query

from etl.api import TIMESTAMP, format_type, parse_type, widen, wider
from etl.sql.forms.common_types import common_type

ROWS = """
CREATE VIEW v AS SELECT 3 AS i, CAST(4 AS BIGINT) AS b, CAST(1.5 AS FLOAT) AS f, CAST(1.25 AS DECIMAL(5, 2)) AS m,
CAST(2.5 AS DOUBLE) AS d, DATE '2026-01-02' AS day, TIMESTAMP '2026-01-01 10:00:00' AS t, 's' AS s, true AS yes
FROM (VALUES (1)) AS one(n);
"""


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("tinyint", "smallint", "smallint"),
        ("int", "bigint", "bigint"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("decimal(5,2)", "decimal(10,4)", "decimal(10,4)"),
        ("bigint", "decimal(38,30)", "decimal(38,18)"),
        ("decimal(5,2)", "float", "double"),
        ("float", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("array<int>", "array<double>", "array<double>"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("struct<a:int>", "struct<a:decimal(3,1)>", "struct<a:decimal(11,1)>"),
        ("struct<a:int>", "struct<b:int>", None),
        ("int", "string", None),
        ("boolean", "int", None),
        ("array<int>", "int", None),
    ],
)
def test_the_wider_of_two_types(left: str, right: str, found: str | None) -> None:
    for one, other in ((left, right), (right, left)):
        type_ = wider(parse_type(one), parse_type(other))
        assert (None if type_ is None else format_type(type_)) == (None if found is None else format_type(parse_type(found)))
        assert common_type(one, other) == (None if found is None else format_type(parse_type(found)))


def test_whole_numbers_beside_float_are_float_in_scripts() -> None:
    assert [common_type("float", one) for one in ("tinyint", "bigint", "double")] == ["float", "float", "double"]


def test_widened_values() -> None:
    assert widen(pa.array([2**63 - 1, None]), pa.decimal128(38, 18)).to_pylist() == [Decimal(2**63 - 1), None]
    fine = pa.array([Decimal("1.255"), Decimal("-1.255")], pa.decimal128(38, 3))
    assert widen(fine, pa.decimal128(38, 2)).to_pylist() == [Decimal("1.26"), Decimal("-1.26")]
    assert widen(pa.array([date(2026, 1, 2)]), TIMESTAMP).to_pylist() == [datetime(2026, 1, 2, tzinfo=UTC)]


CASES = {
    "SELECT i AS x FROM v UNION ALL SELECT m FROM v": ("decimal(12,2)", [Decimal("1.25"), Decimal("3.00")]),
    "SELECT x / 2 AS x FROM (SELECT i AS x FROM v UNION ALL SELECT d FROM v)": ("double", [1.25, 1.5]),
    "SELECT i AS x FROM v UNION ALL SELECT f FROM v": ("float", [1.5, 3.0]),
    "SELECT ARRAY[i] AS x FROM v EXCEPT SELECT ARRAY[m] FROM v": ("array<decimal(12,2)>", [[Decimal("3.00")]]),
    "SELECT TIMESTAMP '2026-01-02 00:00:00' AS x FROM v INTERSECT SELECT day FROM v": (
        "timestamp", [datetime(2026, 1, 2, tzinfo=UTC)],
    ),
    "SELECT l.m AS x FROM v AS l JOIN v AS r ON l.i = r.m + 1.75": ("decimal(5,2)", [Decimal("1.25")]),
    "SELECT i AS x FROM v WHERE i NOT IN (SELECT m FROM v)": ("int", [3]),
    "SELECT COALESCE(f, IF(yes, i, 0)) AS x FROM v": ("float", [1.5]),
    "SELECT CASE WHEN yes THEN 1 ELSE f END AS x FROM v": ("float", [1.0]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sql", CASES)
def test_both_sides_are_cast(sql: str, tmp_path: Path) -> None:
    ran = run_query(ROWS + sql, tmp_path)

    assert not [*ran.problems, *ran.failed]
    assert ran.schema is not None
    assert (format_type(ran.schema.field("x").type), sorted(row[0] for row in ran.rows)) == CASES[sql]


def test_types_without_a_common_one(tmp_path: Path) -> None:
    texts = (
        "SELECT i FROM v UNION ALL SELECT s FROM v",
        "SELECT s FROM v INTERSECT SELECT i FROM v",
        "SELECT IFNULL(s, i) FROM v",
    )
    found = [run_query(ROWS + text, tmp_path / str(number)).problems for number, text in enumerate(texts)]

    assert found == [
        ["the column 'i' of UNION is INT in one query and STRING in the other"],
        ["the column 's' of INTERSECT is STRING in one query and INT in the other"],
        ["a text stands beside a number here"],
    ]


@pytest.mark.parametrize("table", ["v", "(VALUES (3)) AS t(i)"])
def test_a_union_of_a_table_with_itself_has_each_row_as_often(table: str, tmp_path: Path) -> None:
    ran = run_query(ROWS + " UNION ALL ".join([f"SELECT i FROM {table}"] * 3), tmp_path)

    assert not [*ran.problems, *ran.failed]
    assert ran.rows == [(3,), (3,), (3,)]
