"""Random SELECTs over random rows give the rows that DuckDB gives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from in_process import sink_rows
from query_runs import run_query
from random_queries import COLUMNS, Maker, rows
from running import Engine

SELECTS = 150
STATEFUL = ("window", "grouping_sets", "join", "member", "top", "over", "distinct")


def tables(given: dict[str, list[dict[str, Any]]]) -> str:
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    return "".join(
        f"CREATE TABLE {name} ({columns}, WATERMARK FOR t AS t - INTERVAL '1' HOUR) "
        f"WITH ('type' = 'inline', 'rows' = '{json.dumps(some)}');\n"
        for name, some in given.items()
    )


def in_duckdb(given: dict[str, list[dict[str, Any]]], queries: Iterable[str]) -> list[Counter[str]]:
    connection = duckdb.connect()
    for name, some in given.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{one} {type_[:9]}' for one, type_ in COLUMNS.items())})")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", [list(row.values()) for row in some])
    return [counted(connection.execute(query).fetchall()) for query in queries]


def counted(found: Iterable[Sequence[Any]]) -> Counter[str]:
    return Counter(repr([_plain(value) for value in row]) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return float(value) + 0.0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def differences(queries: Sequence[str], found: Sequence[Counter[str]], expected: Sequence[Counter[str]]) -> list[str]:
    return [
        f"{query}\n  missing {list((right - left).items())[:3]}\n  more {list((left - right).items())[:3]}"
        for query, left, right in zip(queries, found, expected, strict=True)
        if left != right
    ]


@pytest.mark.slow
def test_expressions_and_conditions_are_those_of_duckdb(tmp_path: Path) -> None:
    chance = Random(20)
    given = {"events": rows(chance, 60)}
    queries = [Maker(chance).select() for _ in range(SELECTS)]
    sinks = "".join(f"CREATE TABLE o{at} WITH ('type' = 'discard'); INSERT INTO o{at} {one};\n" for at, one in enumerate(queries))

    found = sink_rows(tables(given) + sinks, tmp_path)

    rows_of = [
        counted([[row.get(f"c{at}") for at in range(one.count(" AS c"))] for row in found[f"o{n}"]])
        for n, one in enumerate(queries)
    ]
    wrong = differences(queries, rows_of, in_duckdb(given, queries))
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
@pytest.mark.slow
def test_windows_joins_and_ranks_are_those_of_duckdb(engine: Engine, tmp_path: Path) -> None:
    chance = Random(21)
    given = {"events": rows(chance, 80), "others": rows(chance, 40)}
    queries = [getattr(Maker(chance), form)() for form in STATEFUL for _ in range(2)]
    script = tables(given)
    for at, (query, _) in enumerate(queries):
        script += f"CREATE TABLE o{at} WITH ('type' = 'file', 'path' = '{tmp_path}/{at}.jsonl'); INSERT INTO o{at} {query};\n"
    (tmp_path / "job.sql").write_text(script, "utf-8")

    engine.service(tmp_path / "job.sql", once=True, drain=True).finished()

    found = [counted(list(json.loads(line).values()) for line in _lines(tmp_path / f"{at}.jsonl")) for at in range(len(queries))]
    wrong = differences([one for one, _ in queries], found, in_duckdb(given, [other for _, other in queries]))
    assert not wrong, "\n".join(wrong)


CHANGING = ("changing_join", "value_query", "condition_query", "set_operation", "totals", "best", "nested")


@pytest.mark.slow
@pytest.mark.parametrize("form", CHANGING)
def test_results_that_change_end_as_those_of_duckdb(form: str, tmp_path: Path) -> None:
    chance = Random(form)
    given = {"events": rows(chance, 40), "others": rows(chance, 25)}
    queries = [getattr(Maker(chance), form)() for _ in range(5)]

    ran = [run_query(tables(given) + query, tmp_path / str(at), max_events=9) for at, query in enumerate(queries)]

    assert [[*one.problems, *one.failed] for one in ran] == [[]] * len(ran)
    wrong = differences(queries, [counted(one.rows) for one in ran], in_duckdb(given, queries))
    assert not wrong, "\n".join(wrong)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.is_file() else []
