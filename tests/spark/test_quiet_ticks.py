"""Micro-batches without events: intervals of results that are over on a quiet stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark.test_inline_route import Ranges, query

from etl.plan.segments import Watermark
from etl.spark import planner_clock
from etl.spark.planner_clock import ScriptedClock, next_due
from etl.spark.silence import due_intervals
from etl.spark.split_planner import SplitPlanner
from etl.spark.state.json_files import write_json

SECOND = 1_000_000


def test_an_interval_is_due_once_in_a_silence_and_with_each_longer_one() -> None:
    once, repeated = {10: False, 30: False}, {10: True, 25: False}

    assert [due_intervals(once, before, now) for before, now in ((0, 9), (0, 10), (10, 29), (10, 30), (30, 99))] == [
        [],
        [10],
        [],
        [10, 30],
        [],
    ]
    assert [due_intervals(repeated, before, now) for before, now in ((0, 10), (10, 19), (19, 20), (20, 25), (25, 61))] == [
        [10],
        [],
        [10],
        [25],
        [10, 25],
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The planner's clock, whose first value is the time."""
    now = [100.0]
    monkeypatch.setattr(planner_clock.time, "monotonic", lambda: now[0])
    return now


def test_a_quiet_stream_has_a_micro_batch_for_each_interval(tmp_path: Path, clock: list[float]) -> None:
    context = replace(query(tmp_path), once=False)
    planner = SplitPlanner(context, {"s": Ranges(end=30)}, Watermark("time", 0, intervals=((10 * SECOND, False),)), joins=True)
    start: dict[str, Any] = planner.latest_offset({"sources": {"s": {"at": 7}}, "parallelism": 4})
    clock[0] += 11
    assert planner.latest_offset(start) == start, "no event has had a time yet"
    write_json(context.state.query(context.query) / "clock.json", {"event_time": 5})

    end = planner.latest_offset(start)
    clock[0] += 100

    assert end == {**start, "found": end["found"], "quiet": {"number": 1, "intervals": [10 * SECOND]}}
    assert planner.latest_offset(end) == end
    [task] = planner.plan_tasks(start, end)
    assert (task.split, task.tick, task.quiet, task.joined) == (None, None, frozenset([10 * SECOND]), ())
    assert planner.plan_tasks(end, {**end, "tick": 9})[0].quiet == frozenset()


def test_events_end_a_silence(tmp_path: Path, clock: list[float]) -> None:
    context, source = replace(query(tmp_path), once=False), Ranges(end=30)
    write_json(context.state.query(context.query) / "clock.json", {"event_time": 5})
    planner = SplitPlanner(context, {"s": source}, Watermark("time", 0, intervals=((10 * SECOND, False),)))
    start: dict[str, Any] = planner.latest_offset({"sources": {"s": {"at": 7}}, "parallelism": 4})
    clock[0] += 11
    quiet = planner.latest_offset(start)
    planner._sources["s"] = Ranges(end=40)

    read = planner.latest_offset(quiet)
    clock[0] += 9
    assert planner.latest_offset(read) == read
    clock[0] += 1

    assert read["sources"] == {"s": {"at": 40}}
    assert "quiet" not in read
    assert planner.latest_offset(read)["quiet"] == {"number": 1, "intervals": [10 * SECOND]}


def test_a_run_that_drains_closes_what_an_idle_time_has_left_open(tmp_path: Path, clock: list[float]) -> None:
    context = query(tmp_path)
    write_json(context.state.query(context.query) / "clock.json", {"event_time": 5 * SECOND})
    watermark = Watermark("time", 0, idle_seconds=10, max_delay_seconds=1)
    following = SplitPlanner(replace(context, once=False), {"s": Ranges(end=30)}, watermark)
    start: dict[str, Any] = following.latest_offset({"sources": {"s": {"at": 7}}, "parallelism": 4})
    clock[0] += 10
    idle = following.latest_offset(start)

    draining = SplitPlanner(replace(context, drain=True), {"s": Ranges(end=30)}, watermark)
    end = draining.latest_offset(idle)

    assert (idle["tick"], idle["ends"]) == (end["tick"], False)
    assert end == {**idle, "ends": True, "found": None}
    assert [(task.tick, task.ends) for task in draining.plan_tasks(idle, end)] == [(7 * SECOND, True)]
    assert draining.latest_offset(end) == end


def test_a_scripted_clock_stops_where_something_is_due_before_the_events_of_a_pause() -> None:
    clock = ScriptedClock(1000.0, (0.0, 30.0, 30.0), {"a": frozenset([0, 2]), "b": frozenset([1])})
    ends = {"a": {"step": 3}, "b": {"step": 3}}

    moves = [(clock.advance(ends, due), clock.now()) for due in (10.0, 30.0, 31.0, 40.0)]

    assert moves == [(True, 1010.0), (True, 1030.0), (False, 1030.0), (False, 1030.0)]
    assert [clock.has_events(name, {"step": 1}, {"step": 3}) for name in ("a", "b")] == [False, True]
    assert not clock.has_events("b", {"step": 3}, {"step": 5})


def test_the_next_interval_is_the_end_of_one_that_is_not_over_or_the_next_multiple_of_one_that_repeats() -> None:
    intervals = {10 * SECOND: False, 7 * SECOND: True}

    assert [next_due(intervals, silence) for silence in (0, 7.0, 9.5, 10, 14)] == [7, 10, 10, 14, 21]
    assert next_due({10 * SECOND: False}, 10) is None
