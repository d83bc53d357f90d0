"""Forms of queries and their rows, two rows of each source in a micro-batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from query_runs import run_query

LOGS = [
    {"host": "a", "n": 10, "t": "2026-01-01 10:00:01"},
    {"host": "b", "n": 20, "t": "2026-01-01 10:00:02"},
    {"host": "a", "n": 5, "t": "2026-01-01 10:00:03"},
    {"host": "a", "n": 30, "t": "2026-01-01 10:00:09"},
]
RATES = [{"name": "a", "rate": 1, "since": "2026-01-01 10:00:00"}, {"name": "b", "rate": 9, "since": "2026-01-01 10:00:02"}]
TABLES = f"""
CREATE TABLE logs (host STRING, n INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
WITH ('type' = 'inline', 'rows' = '{json.dumps(LOGS)}');
CREATE TABLE rates (name STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since)
WITH ('type' = 'inline', 'rows' = '{json.dumps(RATES)}');
"""
HOP = "TABLE(HOP(TABLE logs, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
CUMULATE = "TABLE(CUMULATE(TABLE logs, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '5' SECOND))"
L, R = f"(SELECT * FROM {TUMBLE.format('logs', 't')}) l", f"(SELECT * FROM {TUMBLE.format('rates', 'since')}) r"
LAST = "PARTITION BY host ORDER BY PROCTIME()"
BOUNDS = "l.window_start = r.window_start AND l.window_end = r.window_end"
PAIRS, OTHERS = "(VALUES (1, 2), (0, 0)) AS t(a, b)", "(VALUES (3, 1), (4, 0), (5, 7)) AS u(c, d)"

CASES: dict[str, list[Any]] = {
    # bounds of windows without GROUP BY
    f"SELECT n, DATE_FORMAT(window_end, 'ss') AS e FROM {TUMBLE.format('logs', 't')} WHERE n > 10": [(20, "05"), (30, "10")],
    f"SELECT n, DATE_FORMAT(window_start, 'ss') AS s FROM {HOP} WHERE n > 10": [(20, "00"), (20, "55"), (30, "00"), (30, "05")],
    f"SELECT n, DATE_FORMAT(window_end, 'ss') AS e FROM {CUMULATE} WHERE n > 9": [
        (10, "05"), (10, "10"), (20, "05"), (20, "10"), (30, "10"),
    ],
    f"SELECT CAST(window_start AS STRING) AS s, sum(n) AS n FROM (SELECT * FROM {HOP}) GROUP BY window_start, window_end": [
        ("2026-01-01 09:59:55", 35), ("2026-01-01 10:00:00", 65), ("2026-01-01 10:00:05", 30),
    ],
    f"SELECT n, DATE_FORMAT(window_end, 'ss') AS e FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    f"ORDER BY n DESC) AS r FROM {CUMULATE}) WHERE r <= 1": [(20, "05"), (30, "10")],
    f"SELECT n, rate FROM {L} JOIN {R} ON l.host = r.name AND {BOUNDS}": [(5, 1), (10, 1), (20, 9)],
    f"SELECT n, rate FROM {L} LEFT JOIN {R} ON l.host = r.name AND {BOUNDS} WHERE n > 5": [(10, 1), (20, 9), (30, None)],
    # joins
    f"SELECT * FROM {PAIRS} CROSS JOIN (VALUES (3)) AS v(c)": [(0, 0, 3), (1, 2, 3)],
    f"SELECT a, d FROM {PAIRS} JOIN {OTHERS} ON t.a > u.d": [(1, 0)],
    f"SELECT a, d FROM {PAIRS} LEFT JOIN {OTHERS} ON t.a > u.d": [(0, None), (1, 0)],
    f"SELECT a, d FROM {PAIRS} LEFT JOIN {OTHERS} ON t.a + 1 = u.d + 1 AND b > 0": [(0, None), (1, 1)],
    f"SELECT * FROM {PAIRS} NATURAL JOIN (VALUES (9, 1)) AS v(z, a)": [(1, 2, 9)],
    f"SELECT * FROM {PAIRS} LEFT SEMI JOIN {OTHERS} ON t.a = u.d AND t.b > 1": [(1, 2)],
    f"SELECT * FROM {PAIRS} LEFT ANTI JOIN {OTHERS} ON t.b = u.d": [(1, 2)],
    "SELECT n, rate FROM logs l LEFT JOIN rates r ON l.host = r.name AND l.t = r.since WHERE n > 10": [(20, 9), (30, None)],
    "SELECT * FROM UNNEST(ARRAY[1, 2]) AS t(a)": [(1,), (2,)],
    # ranks and numbers
    "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM logs) WHERE r BETWEEN 2 AND 3": [(10,), (20,)],
    "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM logs) WHERE 3 >= r AND r > 1": [(10,), (20,)],
    "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM logs) WHERE r = 2": [(10,)],
    "SELECT host, n FROM logs QUALIFY ROW_NUMBER() OVER (PARTITION BY host ORDER BY n DESC) = 1": [("a", 30), ("b", 20)],
    f"SELECT n FROM (SELECT *, ROW_NUMBER() OVER ({LAST} DESC) AS r FROM logs) WHERE r = 1": [(20,), (30,)],
    f"SELECT n FROM (SELECT *, ROW_NUMBER() OVER ({LAST}) AS r FROM logs) WHERE r = 1": [(10,), (20,)],
    "SELECT sum(n) OVER (PARTITION BY host ORDER BY PROCTIME()) AS s FROM logs": [(10,), (15,), (20,), (45,)],
    # groups, lists of columns, hints
    f"SELECT count(*) AS c FROM {PAIRS} GROUP BY ()": [(2,)],
    f"SELECT a, count(*) AS c FROM {PAIRS} GROUP BY (a, b)": [(0, 1), (1, 1)],
    f"SELECT LISTAGG(CAST(a AS STRING)) FILTER (WHERE a > 0) AS l FROM {PAIRS}": [("1",)],
    f"SELECT SINGLE_VALUE(a) AS v FROM {PAIRS} WHERE a > 0": [(1,)],
    f"SELECT * EXCEPT (a) FROM {PAIRS}": [(0,), (2,)],
    "VALUES (1, 'a'), (2, 'b')": [(1, "a"), (2, "b")],
    # rows
    "SELECT n FROM logs WHERE (host, n) IN (('a', 5), ('b', 20), ('b', 5))": [(5,), (20,)],
    "SELECT n FROM logs WHERE (host, n) NOT IN (('a', 5), ('b', 20))": [(10,), (30,)],
    "SELECT n FROM logs WHERE (host, n) = ('a', 10) OR (host, n) <> ('a', 10) AND n > 20": [(10,), (30,)],
    'SELECT n FROM logs /*+ OPTIONS(\'rows\' = \'[{"n": 7}]\') */ UNION ALL SELECT n FROM logs WHERE n > 20': [(7,), (30,)],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sql", CASES)
def test_forms_of_queries(sql: str, tmp_path: Path) -> None:
    ran = run_query((TABLES if "logs" in sql else "") + sql, tmp_path, max_events=2)

    assert not [*ran.problems, *ran.failed]
    assert sorted(ran.rows, key=str) == sorted(CASES[sql], key=str)
