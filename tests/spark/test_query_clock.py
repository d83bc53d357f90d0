"""The clock of a query that Spark reads events for: what waits for further events closes when these do not come."""

from __future__ import annotations

import json
import time
from itertools import count

import pytest
from running import Engine, Etl, wait_for

pytestmark = pytest.mark.spark

MINUTE = "2026-11-20T06:{:02}:00Z"

WINDOW = """
    source: {type: spark, format: json, path: "{here}/a", streaming: true, fields: {at: timestamp, key: string, n: bigint}}
    steps: [{type: window, time: at, size: 10m, late: 1m, IDLE group_by: [key], aggregates: {m: sum(n)}}]
    sink: {type: file, path: "{here}/out.json"}
"""

PAIRS = """
    sources:
      a: {type: spark, format: json, path: "{here}/a", streaming: true, fields: {at: timestamp, key: string, n: bigint}}
      b: {type: spark, format: json, path: "{here}/b", streaming: true, fields: {at: timestamp, key: string, m: bigint}}
    streams:
      pairs: {from: [a, b], steps: [{type: join, on: key, time: at, right_time: at, kind: full, within: 1m, late: 0s IDLE}]}
    sinks: {o: {from: pairs, type: file, path: "{here}/out.json"}}
"""


def write(etl: Etl, name: str, *events: tuple[int, str, int], value: str = "n") -> None:
    (etl.folder / name).parent.mkdir(exist_ok=True)
    rows = [{"at": MINUTE.format(minute), "key": key, value: n} for minute, key, n in events]
    (etl.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(etl: Etl, *fields: str) -> list[tuple[object, ...]]:
    path = etl.folder / "out.json"
    found = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return sorted((tuple(row.get(field) for field in fields) for row in found), key=str)


def test_a_drained_run_closes_the_windows_of_events_that_spark_reads(engine: Engine, etl: Etl) -> None:
    pipeline = WINDOW.replace("IDLE", "")
    write(etl, "a/1.json", (0, "a", 1), (1, "b", 2), (12, "a", 4))
    engine(pipeline, drain=False)
    assert rows(etl, "key", "m") == [("a", 1), ("b", 2)]

    engine(pipeline, drain=True)
    engine(pipeline, drain=True)

    assert rows(etl, "key", "m") == [("a", 1), ("a", 4), ("b", 2)]


def test_an_idle_time_closes_them_and_what_comes_then_is_late(engine: Engine, etl: Etl) -> None:
    write(etl, "a/1.json", (0, "a", 1), (12, "a", 4))

    with engine.following(WINDOW.replace("IDLE", "idle: 2s,")) as running:
        wait_for(lambda: len(rows(etl)) == 2)
        write(etl, "a/2.json", (13, "a", 8), (40, "a", 16))
        wait_for(lambda: len(rows(etl)) == 3)

    assert rows(etl, "key", "m") == [("a", 1), ("a", 16), ("a", 4)]
    assert running.totals.late == {"steps-window": 1}


def test_a_silent_input_of_a_join_does_not_hold_the_results_of_the_other(engine: Engine, etl: Etl) -> None:
    write(etl, "a/1.json", (0, "a", 1), (1, "b", 2))
    write(etl, "b/1.json", (0, "a", 10), value="m")

    with engine.following(PAIRS.replace("IDLE", ", idle: 3s")):
        wait_for(lambda: rows(etl, "key") == [("a",)])
        numbers = count()

        def is_given_while_events_come() -> bool:
            write(etl, f"a/c{next(numbers)}.json", (30, "c", 3))
            return ("b", 2, None) in rows(etl, "key", "n", "m")

        wait_for(is_given_while_events_come)

    assert {row[0] for row in rows(etl, "key")} <= {"a", "b", "c"}


def test_windows_by_the_time_of_reading_close_with_the_next_events(engine: Engine, etl: Etl) -> None:
    pipeline = WINDOW.replace("time: at, size: 10m, late: 1m, IDLE", "size: 1s,")
    write(etl, "a/1.json", (0, "a", 1), (1, "b", 2))
    engine(pipeline)
    assert rows(etl) == []
    time.sleep(1.0)  # the size of the window
    write(etl, "a/2.json", (0, "c", 4))

    engine(pipeline)

    assert rows(etl, "key", "m") == [("a", 1), ("b", 2)]


def test_by_the_time_of_reading_no_event_is_late_after_a_drained_run(engine: Engine, etl: Etl) -> None:
    pipeline = WINDOW.replace("time: at, size: 10m, late: 1m, IDLE", "size: 10m,")
    write(etl, "a/1.json", (0, "a", 1), (1, "b", 2))
    engine(pipeline, drain=True)
    write(etl, "a/2.json", (0, "c", 4))

    totals = engine(pipeline, drain=True)

    assert rows(etl, "key", "m") == [("a", 1), ("b", 2), ("c", 4)]
    assert sum(totals.late.values()) == 0


def test_events_are_joined_by_the_time_of_reading(engine: Engine, etl: Etl) -> None:
    write(etl, "a/1.json", (0, "a", 1), (0, "b", 2))
    write(etl, "b/1.json", (30, "a", 10), value="m")

    engine(PAIRS.replace("time: at, right_time: at, kind: full, within: 1m, late: 0s IDLE", "kind: full, within: 1m"), drain=True)

    assert rows(etl, "key", "n", "m") == [("a", 1, 10), ("b", 2, None)]


def test_sources_of_ours_that_have_ended_do_not_end_those_of_spark(engine: Engine, etl: Etl) -> None:
    pipeline = """
        sources:
          ours: {type: inline, fields: {key: string, n: bigint}, rows: [{key: a, n: 1}]}
          sparks: {type: spark, format: json, path: "{here}/a", streaming: true, fields: {at: timestamp, key: string, n: bigint}}
        streams: {all: {from: [ours, sparks], steps: [{type: dedupe, keys: [key], within: 1d}, {type: keep, fields: [key]}]}}
        sinks: {o: {from: all, type: file, path: "{here}/out.json"}}
    """
    write(etl, "a/1.json", (0, "b", 1))

    with engine.following(pipeline) as running:
        wait_for(lambda: rows(etl, "key") == [("a",), ("b",)])
        write(etl, "a/2.json", (0, "c", 1), (0, "a", 1))
        wait_for(lambda: rows(etl, "key") == [("a",), ("b",), ("c",)] or running.ended)
        assert not running.ended


def test_a_checkpoint_of_a_release_without_the_clock_is_continued(engine: Engine, etl: Etl) -> None:
    pipeline = WINDOW.replace("IDLE", "")
    write(etl, "a/1.json", (0, "a", 1), (1, "b", 2), (12, "a", 4))
    engine(pipeline)
    [offsets] = (etl.folder / "state").glob("queries/*/checkpoint/offsets")
    for path in [one for one in offsets.iterdir() if one.name.isdigit()]:
        path.write_text("\n".join(path.read_text().splitlines()[:-1]))
        (offsets / f".{path.name}.crc").unlink(missing_ok=True)

    engine(pipeline, drain=True)

    assert rows(etl, "key", "m") == [("a", 1), ("a", 4), ("b", 2)]
