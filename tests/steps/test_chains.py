"""Stateful steps one after another by any times: of reading, of results, of a field that the upstream step computes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from running import Engine, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    source: {{type: file, path: "{{here}}/in.jsonl"}}
    steps:
      - {{type: json, fields: {{host: string, at: timestamp, n: bigint}}}}
      {steps}
    sink: {{type: file, path: "{{here}}/out.jsonl"}}
    """


def _pipeline(*steps: str) -> str:
    return PIPELINE.format(steps="\n      ".join(f"- {{{step}}}" for step in steps))


def _add(folder: Path, *events: tuple[str, int, int]) -> None:
    """Add events: host, minute, number."""
    with (folder / "in.jsonl").open("a") as file:
        for host, minute, n in events:
            file.write(json.dumps({"host": host, "at": f"2026-01-01T00:{minute:02}:00Z", "n": n}) + "\n")


def _results(folder: Path, *fields: str) -> Sequence[Any]:
    path = folder / "out.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    assert not any("_read_at" in row for row in rows)
    return sorted(tuple(row[field] for field in fields) for row in rows)


FIRST = "type: dedupe, keys: [n], within: 1h"
COUNT = "type: window, size: 1m, group_by: [host], aggregates: {events: count(*)}"
TOTAL = "type: window, size: 1h, aggregates: {total: sum(events)}"
ONCE = "type: suppress, keys: [host], within: 1h, count: more"
SPARK = "type: set, fields: {host: soundex(host)}"


@pytest.mark.parametrize("steps", [(FIRST, COUNT, TOTAL), (FIRST, SPARK, COUNT, TOTAL), (FIRST, COUNT, SPARK, TOTAL)])
def test_steps_by_the_time_of_reading_follow_one_another_and_end_with_a_drain(engine: Engine, steps: Sequence[str]) -> None:
    folder, pipeline = engine.etl.folder, _pipeline(*steps)
    _add(folder, ("a", 1, 1), ("a", 1, 1), ("b", 9, 2))
    engine(pipeline)
    _add(folder, ("a", 1, 3), ("b", 1, 2))

    totals = engine(pipeline, drain=True)

    assert sum(total for (total,) in _results(folder, "total")) == 3
    assert (totals.dead, sum(totals.late.values())) == (0, 0)


def test_a_chain_by_the_time_of_reading_goes_on_after_a_drain(engine: Engine) -> None:
    folder, pipeline = engine.etl.folder, _pipeline(COUNT, TOTAL)

    for number in range(3):
        _add(folder, ("a", 1, number), ("b", 1, number))
        totals = engine(pipeline, drain=True)
        assert sum(totals.late.values()) == 0

    assert _results(folder, "total") == [(2,), (2,), (2,)]


def test_windows_one_after_another_close_by_the_clock(engine: Engine) -> None:
    folder = engine.etl.folder
    _add(folder, ("a", 1, 1), ("a", 1, 2), ("b", 1, 3))

    with engine.following(_pipeline(COUNT.replace("1m", "1s"), TOTAL.replace("1h", "2s"))):
        wait_for(lambda: sum(total for (total,) in _results(folder, "total")) == 3, what="the results")


def test_alerts_by_the_time_of_reading_after_a_window_by_event_time(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = _pipeline(COUNT.replace("size", "time: at, late: 0s, size"), ONCE)
    _add(folder, ("a", 1, 1), ("b", 2, 1), ("a", 2, 1), ("b", 3, 1))
    engine(pipeline)
    _add(folder, ("a", 9, 1))

    engine(pipeline)

    assert _results(folder, "host", "events") == [("a", 1), ("b", 1)]


def test_event_time_after_a_step_by_the_time_of_reading_is_as_late_as_its_field_says(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = _pipeline(FIRST, COUNT.replace("size", "time: at, late: 0s, size"))
    _add(folder, ("a", 1, 1), ("a", 2, 2))
    engine(pipeline)
    _add(folder, ("a", 5, 3), ("a", 5, 3))
    engine(pipeline)
    _add(folder, ("a", 1, 4), ("a", 6, 5))

    totals = engine(pipeline, drain=True)

    assert _results(folder, "events") == [(1,), (1,), (1,), (1,)]
    assert sum(totals.late.values()) == 1


@pytest.mark.parametrize("time", ["window_end", "latest"])
def test_a_window_goes_by_another_time_of_a_window(engine: Engine, time: str) -> None:
    folder = engine.etl.folder
    first = "type: window, time: at, late: 0s, size: 1m, aggregates: {events: count(*), latest: max(at)}"
    _add(folder, *(("a", minute, minute) for minute in (1, 2, 8, 11, 18)))

    engine(_pipeline(first, f"type: window, time: {time}, late: 0s, size: 10m, aggregates: {{total: sum(events)}}"), drain=True)

    assert _results(folder, "total") == [(2,), (3,)]


def test_a_window_with_results_on_change_may_follow_a_window(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = _pipeline(
        COUNT.replace("size", "time: at, late: 0s, size"), TOTAL.replace("size", "time: window_start, emit: on_change, size")
    )
    _add(folder, ("a", 1, 1), ("a", 2, 2))
    engine(pipeline)
    _add(folder, ("a", 3, 3))
    engine(pipeline)

    assert _results(folder, "total") == [(1,), (2,)]
