"""Events that Spark reads reach any stateful step of a query: beside results of others, beside our own splits, and twice."""

from __future__ import annotations

import json

import pytest
from running import Engine, Etl

pytestmark = pytest.mark.spark

MINUTE = "2026-11-20T06:{:02}:00Z"

PIPELINE = """
    sources:
      ours: {type: file, path: "{here}/ours.json"}
      sparks:
        {type: spark, format: json, path: "{here}/in", streaming: STREAMING, fields: {at: timestamp, key: string, n: bigint}}
    streams:
      visits: {from: ours, steps: [{type: json, fields: {at: timestamp, key: string, n: bigint}}]}
      counted: {from: sparks, steps: [{type: window, time: at, size: 10m, late: 0s, group_by: [key], aggregates: {m: sum(n)}}]}
      pairs: {from: [visits, counted], steps: [{type: join, on: key, time: at, right_time: window_start, within: 10m}]}
      members: {from: [sparks, counted], steps: [{type: join, on: key, time: at, right_time: window_start, before: 10m}]}
      firsts: {from: [sparks, counted], steps: [{type: set, fields: {t: "coalesce(at, window_start)"}},
        {type: dedupe, keys: [key], time: t, within: 1d, late: 1d}]}
    sinks:
      pairs: {from: pairs, type: file, path: "{here}/pairs.json"}
      members: {from: members, type: file, path: "{here}/members.json"}
      firsts: {from: firsts, type: file, path: "{here}/firsts.json"}
"""


def write(etl: Etl, name: str, *events: tuple[int, str, int]) -> None:
    rows = [{"at": MINUTE.format(minute), "key": key, "n": n} for minute, key, n in events]
    (etl.folder / name).parent.mkdir(exist_ok=True)
    with (etl.folder / name).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def rows(etl: Etl, name: str, *fields: str) -> list[tuple[object, ...]]:
    found = map(json.loads, (etl.folder / f"{name}.json").read_text().splitlines())
    return sorted(tuple(row.get(field) for field in fields) for row in found)


def test_results_are_those_of_all_events_across_a_restart(engine: Engine, etl: Etl) -> None:
    pipeline = PIPELINE.replace("STREAMING", "true")
    write(etl, "in/a.json", (0, "a", 1), (1, "b", 2), (2, "a", 4))
    write(etl, "ours.json", (5, "a", 10))
    engine(pipeline)
    write(etl, "in/b.json", (9, "b", 8), (11, "a", 16), (30, "c", 32))
    write(etl, "ours.json", (8, "b", 20), (40, "c", 40))

    engine(pipeline, drain=True)

    assert rows(etl, "pairs", "key", "n", "m") == [("a", 10, 5), ("a", 10, 16), ("b", 20, 10), ("c", 40, 32)]
    found = [("a", 1, 5), ("a", 4, 5), ("a", 16, 16), ("b", 2, 10), ("b", 8, 10), ("c", 32, 32)]
    assert rows(etl, "members", "key", "n", "m") == found
    assert rows(etl, "firsts", "key", "n") == [("a", 1), ("b", 2), ("c", 32)]


FILTERED = """
    sources:
      ours: {type: file, path: "{here}/ours.json"}
      sparks:
        {type: spark, format: json, path: "{here}/in", streaming: true, fields: {at: timestamp, key: string, n: bigint}}
    streams:
      visits: {from: ours, steps: [{type: json, fields: {at: timestamp, key: string, n: bigint}}, {type: filter, where: n > 0}]}
      alone: {from: [visits, sparks], steps: [{type: join, on: key, time: at, within: 10m, late: 0s, kind: left}]}
    sinks: {o: {from: alone, type: file, path: "{here}/alone.json"}}
"""


def test_filtered_events_of_our_own_source_move_the_clock_of_a_join(engine: Engine, etl: Etl) -> None:
    write(etl, "ours.json", (5, "a", 1), (59, "z", 0))
    write(etl, "in/a.json", (6, "b", 1), (59, "b", 1))

    engine(FILTERED)

    assert rows(etl, "alone", "key", "n", "right.n") == [("a", 1, None)]


ONCE = """
    sources: {sparks: {type: spark, format: json, path: "{here}/in", fields: {at: timestamp, key: string, n: bigint}}}
    streams:
      counted: {from: sparks, steps: [{type: window, time: at, size: 10m, late: 0s, group_by: [key], aggregates: {m: sum(n)}}]}
      members: {from: [sparks, counted], steps: [{type: join, on: key, time: at, right_time: window_start, before: 10m}]}
    sinks: {o: {from: members, type: file, path: "{here}/members.json"}}
"""


def test_a_source_that_is_read_once_reaches_two_steps(engine: Engine, etl: Etl) -> None:
    write(etl, "in/a.json", (0, "a", 1), (1, "b", 2), (2, "a", 4), (30, "c", 32))

    engine(ONCE)

    assert rows(etl, "members", "key", "n", "m") == [("a", 1, 5), ("a", 4, 5), ("b", 2, 2), ("c", 32, 32)]
