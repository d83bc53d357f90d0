"""VALUES and queries without FROM are rows of the source `inline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import sink_rows

from connectors.inline import InlineSource
from etl.api import Limit
from etl.catalogue import installed
from etl.sql.script import compile_script

OUT = "CREATE TABLE out (a BIGINT, b STRING) WITH ('connector' = 'print');"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("VALUES (1, 'x'), (2, NULL)", [{"a": 1, "b": "x"}, {"a": 2}]),
        ("SELECT 2 * 3, concat('a', 'b')", [{"a": 6, "b": "ab"}]),
        (
            "SELECT i, s FROM (VALUES (1, upper('a')), (2, 'b'), (-3, 'c')) AS t(i, s) WHERE t.i > 0",
            [{"a": 1, "b": "A"}, {"a": 2, "b": "b"}],
        ),
        ("SELECT x, y FROM (SELECT i, 'z' FROM (VALUES (7)) AS t(i)) AS u(x, y)", [{"a": 7, "b": "z"}]),
        ("SELECT EXPR_0, 'n' FROM (VALUES (5))", [{"a": 5, "b": "n"}]),
    ],
)
def test_values_are_rows(query: str, expected: list[dict[str, Any]], tmp_path: Path) -> None:
    assert sink_rows(f"{OUT} INSERT INTO out {query}", tmp_path)["out"] == expected


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ("(1), (3000000000)", "bigint"),
        ("(1.5), (10)", "decimal(11,1)"),
        ("(1e3), (2)", "double"),
        ("(CAST(NULL AS DOUBLE)), (1)", "double"),
        ("(TRUE), (NULL)", "boolean"),
        ("(TIMESTAMP '2026-01-01 10:00:00')", "timestamp"),
        ("(NULL)", "string"),
    ],
)
def test_a_column_has_the_type_of_its_values(values: str, type_: str) -> None:
    compiled = compile_script(f"SELECT x FROM (VALUES {values}) AS t(x)", installed())
    assert compiled.value["sources"]["values"]["fields"] == {"x": type_}


def test_equal_rows_are_one_source() -> None:
    compiled = compile_script("SELECT x FROM (VALUES (1)) AS t(x); SELECT x + 1 AS y FROM (VALUES (1)) AS t(x);", installed())
    assert list(compiled.value["sources"]) == ["values"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("INSERT INTO out VALUES (1, 'x'), (2)", "the rows of VALUES have different numbers of columns"),
        ("INSERT INTO out VALUES (1)", "the query gives 1 columns, and the table takes 2: a, b"),
        ("INSERT INTO out SELECT a, b FROM (VALUES (1, 'x')) AS t(a)", "'t' has 2 columns, and 1 are named"),
        ("INSERT INTO out SELECT c, b FROM (VALUES (1, 'x')) AS t(a, b)", "there is no column 'c'"),
    ],
)
def test_values_that_do_not_fit_are_refused(query: str, message: str) -> None:
    assert [str(error) for error in compile_script(OUT + query, installed()).errors] == [message]


def source(**options: Any) -> InlineSource:
    return InlineSource.model_validate({"type": "inline"} | options)


def test_the_source_reads_rows_after_the_last_offset() -> None:
    given = source(fields={"n": "int", "at": "timestamp"}, rows=[{"n": n, "at": "2026-01-01 10:00:00"} for n in range(25_000)])
    first = given.latest(given.start(), Limit(1 << 30, 10_001, bounded=True))
    last = given.latest(first, Limit(1 << 30, None, bounded=True))
    read = [batch for a, b in ((given.start(), first), (first, last)) for s in given.splits(a, b, 4) for batch in given.read(s)]
    table = pa.Table.from_batches(read)
    assert table["n"].to_pylist() == list(range(25_000))
    assert table["at"][0].as_py().isoformat() == "2026-01-01T10:00:00+00:00"
    assert not given.ended(first)
    assert given.ended(last)


def test_rows_of_other_fields_and_types_are_found() -> None:
    found = list(source(fields={"n": "int"}, rows=[{"n": 1}, {"m": 2}, {"n": "x"}]).check())
    assert [(one.code, one.path) for one in found] == [("unknown-field", ("rows", 1, "m")), ("wrong-type", ("rows", 2, "n"))]
