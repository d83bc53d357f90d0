"""Queries as values, in conditions and as members of lists: rows after all changes, one event in each micro-batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from query_runs import run_query

MEMBERS = (
    "(VALUES (1, 1, 'a'), (2, 2, 'a'), (3, CAST(NULL AS INT), 'a'), (4, 3, 'b'), (5, CAST(NULL AS INT), 'c')) AS l(id, x, g)"
)
LISTS = "(SELECT y, max(h) AS h FROM (VALUES (1, 'a'), (CAST(NULL AS INT), 'b'), (1, 'a')) AS q(y, h) GROUP BY y) AS r"
"""Results that change, of each text h: 1 of a, null of b, none of c."""
ROWS = "(VALUES (1, 'a', 5), (2, 'a', CAST(NULL AS INT)), (3, 'b', 7), (4, 'a', 5), (5, 'b', 1)) AS t(id, g, v)"
PAIRS = "(VALUES ('a', 5), ('z', 7)) AS u(g, w)"
TIMED = f"(SELECT *, PROCTIME() AS p FROM {ROWS})"
COUNTS = "(SELECT g, count(*) AS n FROM {rows} GROUP BY g) AS c"

CASES: dict[str, list[Any]] = {
    # a query as a value
    "SELECT id FROM {rows} WHERE v > (SELECT AVG(v) FROM {rows})": [(1,), (3,), (4,)],
    "SELECT * FROM {rows} WHERE v = (SELECT MIN(v) FROM {rows})": [(5, "b", 1)],
    "SELECT (SELECT MAX(v) FROM {rows}) - (SELECT MIN(v) FROM {rows}) AS d": [(6,)],
    "SELECT id FROM {rows} WHERE v BETWEEN (SELECT MIN(v) FROM {rows}) + 1 AND 9": [(1,), (3,), (4,)],
    "SELECT id FROM {rows} WHERE v = (SELECT v FROM {rows} ORDER BY v DESC LIMIT 1)": [(3,)],
    "SELECT id FROM {rows} WHERE v = (SELECT v FROM {rows} WHERE id = 1)": [(1,), (4,)],
    "SELECT id, (SELECT COUNT(*) FROM {rows} WHERE id > 9) AS n FROM {rows} WHERE id > 3": [(4, 0), (5, 0)],
    "WITH m AS (SELECT MAX(v) AS x FROM {rows}) SELECT id FROM {rows} WHERE v = (SELECT x FROM m)": [(3,)],
    "SELECT sum(v - (SELECT MIN(v) FROM {rows})) AS s FROM {rows}": [(14,)],
    # with columns of the query around it
    "SELECT id FROM {rows} WHERE v >= (SELECT MAX(w) FROM {pairs} WHERE u.g = t.g)": [(1,), (4,)],
    "SELECT id, (SELECT COUNT(*) + 1 FROM {pairs} WHERE u.g = t.g) AS n FROM {rows} WHERE v > 4": [(1, 2), (3, 1), (4, 2)],
    "SELECT id, (SELECT w FROM {pairs} WHERE u.g = t.g) AS n FROM {rows} WHERE v > 4": [(1, 5), (3, None), (4, 5)],
    "SELECT id, (SELECT COALESCE(MAX(w), 0) FROM {pairs} WHERE u.g = t.g) AS n FROM {rows} WHERE v > 4": [(1, 5), (3, 0), (4, 5)],
    "SELECT id, (SELECT SUM(CASE WHEN w > 1 THEN 1 END) FROM {pairs} WHERE u.g = t.g) AS n FROM {rows} WHERE v = 7": [(3, None)],
    "SELECT id FROM {rows} WHERE (SELECT MAX(w) IS NULL FROM {pairs} WHERE u.g = t.g)": [(3,), (5,)],
    # beside groups
    "SELECT g, count(*) AS n FROM {rows} GROUP BY g HAVING count(*) > (SELECT count(*) FROM {rows} WHERE g = 'b')": [("a", 3)],
    "SELECT g, sum(v) + (SELECT 1) AS s, (SELECT MAX(w) FROM {pairs} WHERE u.g = t.g) AS m FROM {rows} GROUP BY g": [
        ("a", 11, 5),
        ("b", 9, None),
    ],
    "SELECT g FROM {rows} GROUP BY g HAVING EXISTS (SELECT 1 FROM {pairs} WHERE u.g = t.g)": [("a",)],
    # IN and EXISTS over results that change
    "SELECT id FROM {rows} WHERE g IN (SELECT g FROM {rows} GROUP BY g HAVING count(*) > 2)": [(1,), (2,), (4,)],
    "SELECT id FROM {rows} WHERE g NOT IN (SELECT g FROM {rows} GROUP BY g HAVING count(*) > 2)": [(3,), (5,)],
    "SELECT id FROM {rows} WHERE EXISTS (SELECT 1 FROM {counts} WHERE c.g = t.g AND n < 3)": [(3,), (5,)],
    "SELECT id FROM {rows} WHERE NOT EXISTS (SELECT 1 FROM {counts} WHERE c.g = t.g AND n < 3)": [(1,), (2,), (4,)],
    "SELECT g, n FROM {counts} WHERE EXISTS (SELECT 1 FROM {rows} WHERE t.id = n)": [("a", 3), ("b", 2)],
    "SELECT id FROM {rows} WHERE EXISTS (SELECT 1 FROM {rows} WHERE id > 4) AND v > 5": [(3,)],
    "SELECT id FROM {rows} WHERE NOT EXISTS (SELECT 1 FROM {pairs} WHERE u.g = t.g ORDER BY w LIMIT 1)": [(3,), (5,)],
    "SELECT id FROM {rows} WHERE NOT EXISTS (SELECT 1 FROM {rows} WHERE id > 4)": [],
    "SELECT id FROM {rows} WHERE (id, g) IN (SELECT n, g FROM {counts})": [],
    "SELECT id FROM {rows} WHERE (id + 1, g) IN (SELECT n, g FROM {counts})": [(2,)],
    "SELECT id FROM {rows} WHERE (id, v) NOT IN (SELECT id, v FROM {rows} WHERE id > 3 AND id IS NOT NULL AND v IS NOT NULL)": [
        (1,),
        (2,),
        (3,),
    ],
    "SELECT id FROM {rows} WHERE g IN (SELECT a.g FROM {pairs} AS a JOIN {counts} ON a.g = c.g WHERE a.w = t.v)": [(1,), (4,)],
    "SELECT id FROM {rows} WHERE g = ANY (SELECT u.g FROM {pairs}) AND id <> ALL (SELECT n FROM {counts})": [(1,), (4,)],
    # beside joins, and in one another
    "SELECT id FROM {rows} JOIN {pairs} ON u.g = t.g WHERE id NOT IN (SELECT n FROM {counts}) AND w IN (SELECT v FROM {rows})": [
        (1,),
        (4,),
    ],
    "SELECT id FROM {rows} LEFT JOIN {pairs} ON u.g = t.g WHERE u.g NOT IN (SELECT g FROM {rows} WHERE id = 3)": [
        (1,),
        (2,),
        (4,),
    ],
    "SELECT id FROM {rows} JOIN {pairs} ON u.g = t.g WHERE EXISTS (SELECT 1 FROM {counts} WHERE c.g = u.g AND n < id)": [(4,)],
    "SELECT id FROM {rows} WHERE EXISTS (SELECT 1 FROM {pairs} WHERE u.g = t.g AND w IN (SELECT v FROM {rows} WHERE id > 3))": [
        (1,),
        (2,),
        (4,),
    ],
    # as values
    "SELECT id FROM {rows} WHERE v = 7 OR id IN (SELECT id FROM {rows} WHERE id > 4)": [(3,), (5,)],
    "SELECT id, v NOT IN (SELECT v FROM {rows} WHERE g = 'a') AS m FROM {rows} WHERE id < 4": [
        (1, False),
        (2, None),
        (3, None),
    ],
    "SELECT id, v IN (SELECT w FROM {pairs} WHERE u.g = t.g) AS m FROM {rows} WHERE id < 4": [(1, True), (2, None), (3, False)],
    "SELECT id, CASE WHEN EXISTS (SELECT g FROM {rows} GROUP BY g HAVING count(*) > 2) THEN 1 END AS m FROM {rows} WHERE v = 7": [
        (3, 1)
    ],
    # nulls on both sides, and empty lists
    "SELECT id FROM {members} WHERE x NOT IN (SELECT y FROM {lists})": [],
    "SELECT id FROM {members} WHERE x NOT IN (SELECT y FROM {lists} WHERE y IS NOT NULL)": [(2,), (4,)],
    "SELECT id FROM {members} WHERE x NOT IN (SELECT nullif(y, 1) AS y FROM {lists} WHERE y IS NOT NULL)": [],
    "SELECT id FROM {members} WHERE x NOT IN (SELECT y FROM {lists} WHERE y IS NOT NULL GROUP BY ROLLUP (y))": [],
    "SELECT id FROM {members} WHERE x NOT IN (SELECT y FROM {lists} WHERE y > 5)": [(1,), (2,), (3,), (4,), (5,)],
    "SELECT id FROM {members} WHERE x NOT IN (SELECT y FROM {lists} WHERE h = g)": [(2,), (5,)],
    "SELECT id FROM {members} WHERE x IS NOT NULL AND NOT (x = ANY (SELECT y FROM {lists} WHERE h = g))": [(2,)],
    "SELECT id FROM {members} WHERE (x, g) NOT IN (SELECT y, h FROM {lists})": [(2,), (5,)],
    "SELECT id FROM {members} WHERE x > ANY (SELECT y FROM {lists})": [(2,), (4,)],
    "SELECT id FROM {members} WHERE x >= ALL (SELECT y FROM {lists} WHERE h = g)": [(1,), (2,), (5,)],
    "SELECT id, x IN (SELECT y FROM {lists} WHERE h = g) AS i, x <> ALL (SELECT y FROM {lists} WHERE h = g) AS n, "
    "x <= ANY (SELECT y FROM {lists} WHERE h = g) AS a, x > ALL (SELECT y FROM {lists} WHERE h = g) AS m FROM {members}": [
        (1, True, False, True, False),
        (2, False, True, False, True),
        (3, None, None, None, None),
        (4, None, None, None, None),
        (5, False, True, False, True),
    ],
    # ranks over all time
    "SELECT id, r FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY v DESC) AS r FROM {rows}) WHERE r <= 2": [
        (1, 1),
        (3, 1),
        (4, 1),
        (5, 2),
    ],
    "SELECT r FROM (SELECT *, DENSE_RANK() OVER (ORDER BY v DESC, g) AS r FROM {rows}) WHERE r <= 2": [(1,), (2,), (2,)],
    "SELECT g, r FROM (SELECT *, RANK() OVER (ORDER BY n) AS r FROM {counts}) WHERE r <= 5": [("a", 2), ("b", 1)],
    # aggregates that differ in the case of a text
    "SELECT count(*) FILTER (WHERE g = 'a') AS x, count(*) FILTER (WHERE g = 'A') AS y FROM {rows}": [(3, 0)],
}  # fmt: skip


def _text(sql: str) -> str:
    pairs = PAIRS if " AS a " not in sql else PAIRS.partition(" AS u")[0]
    return sql.replace("{pairs} AS a", "{pairs} AS a(g, w)").format(
        rows=ROWS, pairs=pairs, counts=COUNTS.format(rows=ROWS), timed=TIMED, members=MEMBERS, lists=LISTS
    )


@pytest.mark.slow
@pytest.mark.parametrize("sql", CASES)
def test_queries_in_expressions_and_conditions(sql: str, tmp_path: Path) -> None:
    ran = run_query(_text(sql), tmp_path, max_events=1)

    assert not [*ran.problems, *ran.failed]
    assert sorted(ran.rows, key=str) == sorted(CASES[sql], key=str)


LAST = "SELECT g, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY"
BATCH = "SET 'execution.runtime-mode' = 'batch';"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "rows", "letters"),
    [
        ("SELECT g, MAX(6 / (n - 3)) AS s FROM {counts} GROUP BY g", [("b", -6)], 1),
        ("SELECT g, SUM(6 / (n - 3)) AS s FROM {counts} GROUP BY g", [("b", -6)], 1),
        ("SELECT SUM(8 / (v - 5)) OVER (PARTITION BY g ORDER BY p) AS s FROM {timed}", [(2,), (4,), (None,)], 2),
        (f"{LAST} 8 / (v - 5) DESC) AS r FROM {{rows}}) WHERE r = 1", [("a", 1), ("b", 1)], 2),
        (f"{LAST} 8 / (n - 3) DESC) AS r FROM {{counts}}) WHERE r = 1", [("b", 1)], 1),
        (f"{BATCH} SELECT id, SUM(8 / (v - 5)) OVER (ORDER BY id) AS s FROM {{rows}}", [(2, None), (3, 4), (5, 2)], 2),
    ],
)  # fmt: skip
def test_events_whose_values_cannot_be_computed_are_dead_letters(sql: str, rows: list[Any], letters: int, tmp_path: Path) -> None:
    ran = run_query(_text(sql), tmp_path, max_events=None if sql.startswith("SET") else 1)

    assert [reason.endswith("failed for an event: division by zero") for reason in ran.failed] == [True] * letters
    assert sorted(ran.rows, key=str) == sorted(rows, key=str)


def test_a_query_as_a_value_that_gives_several_rows_rejects_them(tmp_path: Path) -> None:
    ran = run_query(f"SELECT id FROM {ROWS} WHERE v = (SELECT v FROM {ROWS} WHERE g = 'b')", tmp_path)

    assert ran.failed == ["the array has more than one element"]


@pytest.mark.parametrize("bounds", ["", "WITHIN"])
@pytest.mark.parametrize(
    ("query", "rows", "letters"),
    [
        ("SELECT l.id, r.id AS o FROM lefts l JOIN lefts r ON l.g = r.g AND 4 / r.d > l.id", [(1, 2)], 2),
        ("SELECT l.id, r.id AS o FROM lefts l LEFT JOIN lefts r ON l.g = r.g AND 4 / r.d > l.id", [(1, 2), (2, None)], 2),
        ("SELECT l.id FROM lefts l WHERE EXISTS (SELECT 1 FROM lefts r WHERE l.g = r.g AND 4 / r.d > l.id{bound})", [(1,)], 2),
        ("SELECT id FROM lefts l WHERE NOT EXISTS (SELECT 1 FROM lefts r WHERE l.g = r.g AND 4 / r.d > l.id{bound})", [(2,)], 2),
    ],
)  # fmt: skip
def test_pairs_whose_condition_fails_are_dead_letters_once(
    query: str, rows: list[Any], letters: int, bounds: str, tmp_path: Path
) -> None:
    given = [{"id": 1, "g": "a", "d": 0, "t": "2026-01-01 10:00:00"}, {"id": 2, "g": "a", "d": 2, "t": "2026-01-01 10:00:01"}]
    script = "CREATE TABLE lefts (id INT, g STRING, d INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' MINUTE) "
    script += f"WITH ('type' = 'inline', 'rows' = '{json.dumps(given)}');"
    bound = " AND r.t BETWEEN l.t - INTERVAL '1' MINUTE AND l.t + INTERVAL '1' MINUTE" if bounds else ""
    query = query.replace("{bound}", bound)

    ran = run_query(script + query + (bound if "EXISTS" not in query else ""), tmp_path, max_events=1)

    assert not ran.problems
    assert sorted(ran.rows, key=str) == sorted(rows, key=str)
    assert ran.failed == ["where cannot be computed for a pair: division by zero"] * letters


def test_the_end_of_all_sources_makes_no_row_older_than_another(tmp_path: Path) -> None:
    given = [{"id": at, "g": "ab"[at % 2], "t": f"2026-01-01 10:0{at}:00"} for at in range(4)]
    script = "CREATE TABLE rows_read (id INT, g STRING, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' MINUTE) "
    script += f"WITH ('type' = 'inline', 'rows' = '{json.dumps(given)}'); SELECT l.id FROM rows_read AS l "
    script += "WHERE EXISTS (SELECT 1 FROM rows_read AS r WHERE r.g = l.g) AND NOT EXISTS (SELECT 1 FROM rows_read AS r "
    script += "WHERE r.id = l.id + 1 AND r.t BETWEEN l.t AND l.t + INTERVAL '1' MINUTE) "
    script += "AND EXISTS (SELECT 1 FROM rows_read AS r WHERE r.g = l.g AND r.id < l.id)"

    assert run_query(script, tmp_path, max_events=1).rows == [(3,)]


@pytest.mark.parametrize(
    ("letters", "pattern", "rows"),
    [
        ("abcbcd", "A ((B) C){2} D", [(1, 4, 5, 2)]),
        ("abcbcd", "((A B)) (C){1}", [(1, 2, 3, 1)]),
        ("abcbcd", "(A){2} B C", []),
        ("abcbcd", "A B{,2} C", [(1, 2, 3, 1)]),
        ("abcbcd", "A (B C)+ D", [(1, 4, 5, 2)]),
        ("abcbcbd", "A (B C){2,} D", []),
        ("abcbcbd", "A (B C){2,}?", [(1, 4, 5, 2)]),
        ("abdacd", "A (B | C) D", [(1, 2, None, 1), (4, None, 5, 0)]),
        ("abcdaccd", "A (B | C){2,3} D", [(1, 2, 3, 1), (5, None, 7, 0)]),
        ("abadabdd", "A (B A | B) D", [(1, 2, None, 1), (5, 6, None, 1)]),
        ("abcdab", "A B | C D", [(1, 2, None, 1), (None, None, 3, 0), (5, 6, None, 1)]),
    ],
)
def test_groups_and_alternatives_of_a_pattern(letters: str, pattern: str, rows: list[Any], tmp_path: Path) -> None:
    given = [{"id": at + 1, "s": sign, "t": f"2026-01-01 10:00:0{at}"} for at, sign in enumerate(letters)]
    measures = "FIRST(A.id) AS a, LAST(B.id) AS b, C.id AS c, COUNT(B.id) AS n"
    define = ", ".join(f"{name} AS s = '{name.lower()}'" for name in "ABCD" if name in pattern)
    measures = measures if "C" in pattern else measures.replace("C.id", "CAST(NULL AS INT)")

    ran = _matched(given, f"MEASURES {measures} PATTERN ({pattern}) WITHIN INTERVAL '1' MINUTE DEFINE {define}", tmp_path)

    assert ran == rows


@pytest.mark.parametrize(
    ("skip", "rows"),
    [
        ("PAST LAST ROW", [1]),
        ("TO NEXT ROW", [1, 2, 3]),
        ("TO FIRST B", [1, 2, 3]),
        ("TO LAST B", [1, 3]),
        ("TO B", [1, 3]),
    ],
)
def test_where_the_next_match_may_begin(skip: str, rows: list[int], tmp_path: Path) -> None:
    given = [{"id": at + 1, "s": sign, "t": f"2026-01-01 10:00:0{at}"} for at, sign in enumerate(["a", "ab", "ab", "ab", "b"])]
    match = f"MEASURES A.id AS a AFTER MATCH SKIP {skip} PATTERN (A B{{1,2}}? (B C | B)) WITHIN INTERVAL '1' MINUTE "

    ran = _matched(given, match + "DEFINE A AS s LIKE '%a%', B AS s LIKE '%b%', C AS s = 'c'", tmp_path)

    assert ran == [(row,) for row in rows]


@pytest.mark.parametrize(("quantifier", "rows"), [("B*", [16]), ("B*?", [13, 16]), ("(B | D)*", [16]), ("(B | D)*?", [13, 16])])
def test_greedy_and_reluctant_quantifiers_of_the_documentation(quantifier: str, rows: list[int], tmp_path: Path) -> None:
    given = [{"id": price, "t": f"2026-01-01 10:00:0{at}"} for at, price in enumerate((10, 11, 12, 13, 14, 16))]
    match = f"MEASURES C.id AS price PATTERN (A {quantifier} C) WITHIN INTERVAL '1' MINUTE "

    ran = _matched(
        given, match + "DEFINE A AS A.id > 10, B AS B.id < 15, C AS C.id > 12" + ", D AS D.id < 0" * ("D" in quantifier), tmp_path
    )

    assert ran == [(row,) for row in rows]


def _matched(given: list[dict[str, Any]], clause: str, folder: Path) -> list[Any]:
    """The rows of MATCH_RECOGNIZE over these rows."""
    columns = "id INT, s STRING, t TIMESTAMP(3), WATERMARK FOR t AS t"
    script = f"CREATE TABLE given ({columns}) WITH ('type' = 'inline', 'rows' = '{json.dumps(given)}'); "

    ran = run_query(f"{script} SELECT * FROM given MATCH_RECOGNIZE (ORDER BY t {clause}) AS m", folder)

    assert not [*ran.problems, *ran.failed]
    return ran.rows


@pytest.mark.parametrize("mode", ["", BATCH])
@pytest.mark.parametrize(("where", "rows"), [("v > 1000", []), ("v > -1000", [(4,)])])
def test_a_total_over_no_rows_gives_no_row(mode: str, where: str, rows: list[Any], tmp_path: Path) -> None:
    ran = run_query(f"{mode} SELECT count(*) AS n FROM {ROWS} WHERE {where}", tmp_path)

    assert (ran.problems, ran.failed) == ((), [])
    assert ran.rows == rows
