"""Statements of scripts give Flink's rows and types: all of the acceptance data, each run to the end of its sources."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flink_values import arrow_type, flink_type, same, written
from query_runs import Ran, run_query

OTHERWISE = {
    "SELECT APPROX_COUNT_DISTINCT(i) FROM": "Flink has it in batch mode only",
    "SELECT SUM(CAST(9223372036854775807 AS BIGINT) + 0 * i) FROM": "a sum beyond BIGINT is null instead of another number",
    "SELECT * FROM (VALUES (1), (3)) AS t(a) WHERE EXISTS": "an error of Flink's planner: over tables it answers",
    "SELECT id, LEAD(v, 1, 0) OVER (ORDER BY id) FROM": "Flink shows a placeholder for null, because the default has no null",
}
"""Beginnings of statements with another result, and why."""


def statement(case: dict[str, Any]) -> str:
    """The script of a case."""
    return f"SET 'execution.runtime-mode' = 'batch';\n{case['sql']}" if case["mode"] == "batch" else str(case["sql"])


def outcome(case: dict[str, Any], ran: Ran) -> str:
    """ok, or what is wrong with a statement's rows, types or error."""
    if ran.problems or ran.failed:
        stage = "plan" if ran.problems else "run"
        return "ok" if "error" in case else f"{stage}: {(*ran.problems, *ran.failed)[0]}"
    if "error" in case:
        return "ok" if "No match found for function signature" in case["error"] else f"{ran.rows} is not an error"
    assert ran.schema is not None
    types = [field.type for field in ran.schema]
    names = [_type(arrow_type(type_)) for type_ in types], [_type(flink_type(type_)) for type_ in case["type"]]
    rows = [_cells(row, types, case["type"]) for row in ran.rows]
    if not _same_rows(rows, case["value"]):
        return f"{rows} is not {case['value']}"
    return "ok" if names[0] == names[1] else f"{names[0]} is not {names[1]}"


def _type(name: str) -> str:
    """A MULTISET is a map from values to their counts here."""
    return f"map<{name[9:-1]},int>" if name.startswith("multiset<") else name


def _cells(row: tuple[Any, ...], types: list[pa.DataType], names: list[str]) -> list[Any]:
    cells = [sorted(one, key=str) if pa.types.is_map(type_) and one else one for one, type_ in zip(row, types, strict=True)]
    return [written(one, name) for one, name in zip(cells, [*names, *[""] * len(cells)], strict=False)]


def _same_rows(found: list[list[Any]], expected: list[list[Any]]) -> bool:
    """Whether the rows are equal; their order has no meaning."""
    left = sorted(found, key=str)
    right = sorted(expected, key=str)
    return len(left) == len(right) and all(
        len(one) == len(other) and all(map(same, one, other)) for one, other in zip(left, right, strict=True)
    )


@pytest.mark.slow
def test_statements_are_as_in_flink(acceptance: Path, tmp_path: Path) -> None:
    if not (acceptance / "flink_functions").is_dir():
        pytest.skip(f"there is no {acceptance / 'flink_functions'}")
    lines = (acceptance / "flink_functions" / "statements.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    found = [outcome(case, run_query(statement(case), tmp_path / str(at))) for at, case in enumerate(cases)]

    wrong = {case["sql"]: result for case, result in zip(cases, found, strict=True) if result != "ok"}
    assert {sql: result for sql, result in wrong.items() if not sql.startswith(tuple(OTHERWISE))} == {}
    assert [known for known in OTHERWISE if not any(sql.startswith(known) for sql in wrong)] == [], "these are right now"
    assert found.count("ok") >= 0.97 * len(cases)


ROWS = "(VALUES (1, 'a', 5), (2, 'a', CAST(NULL AS INT)), (3, 'b', 7), (4, 'a', 5), (5, 'b', 1)) AS t(id, g, v)"
BATCH = "SET 'execution.runtime-mode' = 'batch';\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM {rows} ORDER BY v DESC, id LIMIT 2 OFFSET 1", [(1,), (4,)]),
        ("SELECT id FROM {rows} ORDER BY v NULLS FIRST, 1 FETCH FIRST 2 ROWS ONLY", [(2,), (5,)]),
        ("SELECT id FROM {rows} LIMIT 2", [(1,), (2,)]),
        ("SELECT DISTINCT g FROM {rows} ORDER BY g DESC LIMIT 1", [("b",)]),
        ("SELECT v FROM {rows} WHERE v = 5 UNION ALL SELECT 9 ORDER BY v LIMIT 2", [(5,), (5,)]),
        ("SELECT v FROM {rows} INTERSECT ALL SELECT * FROM (VALUES (5), (5), (5), (NULL))", [(5,), (5,), (None,)]),
        ("SELECT v FROM {rows} EXCEPT SELECT x FROM (VALUES (5), (CAST(NULL AS INT))) AS u(x)", [(7,), (1,)]),
        ("SELECT id FROM {rows} WHERE v NOT IN (SELECT x FROM (VALUES (5), (NULL)) AS u(x) WHERE x IS NOT NULL)", [(3,), (5,)]),
        ("SELECT JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE v ABSENT ON NULL) FROM {rows} WHERE g = 'a'", [('{"1":5,"4":5}',)]),
        ("SELECT g, ARRAY_AGG(v) FILTER (WHERE id > 1) FROM {rows} GROUP BY g", [("a", [None, 5]), ("b", [7, 1])]),
        ("SELECT id FROM {rows} WHERE v > ALL (VALUES 4, 5)", [(3,)]),
        ("SELECT u.k, u.n FROM (SELECT COLLECT(g) AS m FROM {rows}) AS c CROSS JOIN UNNEST(m) AS u(k, n)", [("a", 3), ("b", 2)]),
        ("SELECT x FROM (SELECT COLLECT(g) AS m FROM {rows} WHERE id < 3) AS c CROSS JOIN UNNEST(m) AS u(x)", [("a",), ("a",)]),
        ("SELECT * FROM {rows} NATURAL JOIN (SELECT 'b' AS g, 2 AS n)", [("b", 3, 7, 2), ("b", 5, 1, 2)]),
        ("SELECT * FROM (VALUES (1, 'b')) AS t(n, g) JOIN (VALUES ('b', 2)) AS u(g, m) USING (g)", [("b", 1, 2)]),
        ("SELECT b FROM (VALUES (ARRAY[ROW(1, 'x'), ROW(2, 'y')])) AS t(l) CROSS JOIN UNNEST(l) AS u(a, b)", [("x",), ("y",)]),
    ],
)  # fmt: skip
def test_rows_of_statements_over_streams(sql: str, rows: list[Any], tmp_path: Path) -> None:
    ran = run_query(sql.format(rows=ROWS), tmp_path)

    assert not [*ran.problems, *ran.failed]
    assert sorted(ran.rows, key=str) == sorted(rows, key=str)


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("SUM(v) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [5, 10, 8, 5, 8]),
        ("COUNT(v) OVER (PARTITION BY g ORDER BY v RANGE BETWEEN 4 PRECEDING AND 2 FOLLOWING)", [2, 0, 1, 2, 1]),
        ("MAX(v) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", [5, 5, 7, 7, 7]),
        ("FIRST_VALUE(v) OVER (ORDER BY id DESC ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)", [7, 5, 1, 1, None]),
        ("LISTAGG(CAST(v AS STRING)) OVER (PARTITION BY g ORDER BY id)", ["5", "5", "7", "5,5", "7,1"]),
        ("AVG(CAST(v AS DECIMAL(4, 1))) OVER (PARTITION BY g)", ["5.000000", "5.000000", "4.000000", "5.000000", "4.000000"]),
        ("LEAD(v, 2, 0) OVER (PARTITION BY g ORDER BY id)", [5, 0, 0, 0, 0]),
        ("RANK() OVER (ORDER BY v DESC NULLS FIRST)", [3, 1, 2, 3, 5]),
        ("SUM(v) FILTER (WHERE id > 1) OVER (PARTITION BY g || 'x' ORDER BY id)", [None, None, 7, 5, 8]),
    ],
)
def test_values_of_all_rows(call: str, values: list[Any], tmp_path: Path) -> None:
    ran = run_query(f"{BATCH}SELECT id, {call} FROM {ROWS}", tmp_path)

    assert not ran.problems, ran.problems
    found = [value for _, value in sorted(ran.rows)]
    assert [str(one) if isinstance(expected, str) else one for one, expected in zip(found, values, strict=True)] == values


@pytest.mark.parametrize(
    ("sql", "row", "types"),
    [
        ("SELECT AVG(a) FROM (VALUES (CAST(1 AS TINYINT)), (CAST(4 AS TINYINT))) AS t(a)", (2,), [pa.int8()]),
        ("SELECT SUM(a + 0.5) FROM (VALUES (1), (2)) AS t(a)", (Decimal("4.0"),), [pa.decimal128(38, 1)]),
        ("SELECT SUM(CASE WHEN id > 3 THEN v ELSE 0 END) FROM {rows}", (6,), [pa.int32()]),
        ("SELECT SUM(w) FROM (SELECT v * 2 AS w FROM {rows})", (36,), [pa.int32()]),
    ],
)
def test_aggregates_of_computed_numbers_have_their_type(sql: str, row: Any, types: list[pa.DataType], tmp_path: Path) -> None:
    ran = run_query(sql.format(rows=ROWS), tmp_path)

    assert list(ran.rows) == [row]
    assert ran.schema is not None
    assert ran.schema.types == types


def test_the_position_of_an_element_is_an_int(tmp_path: Path) -> None:
    ran = run_query("SELECT o FROM UNNEST(ARRAY['a', 'b']) WITH ORDINALITY AS t(e, o)", tmp_path)

    assert sorted(ran.rows) == [(1,), (2,)]
    assert ran.schema is not None
    assert ran.schema.types == [pa.int32()]


def test_results_in_batch_mode_do_not_change(tmp_path: Path) -> None:
    ran = run_query(f"{BATCH}SELECT g, COUNT(*) AS n FROM {ROWS} GROUP BY g ORDER BY n DESC", tmp_path)

    assert list(ran.rows) == [("a", 3), ("b", 2)]
    assert ran.changes == 0
