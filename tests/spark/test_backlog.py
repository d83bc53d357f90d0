"""How far sources are behind, as the planner measures it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_marks import Counted, at, planner

from etl.api import Backlog, Limit, Offset
from etl.plan.frames import Read
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Watermark
from etl.spark import backlog
from etl.spark.reports.totals import Totals
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import write_json


class Growing(Counted):
    """A source of which a micro-batch takes at most 10 events."""

    end: int = 0
    fails: bool = False
    asked: int = 0

    def latest(self, start: Offset, limit: Limit) -> Offset:
        return {"at": min(start["at"] + 10, self.end)}

    def backlog(self, after: Offset) -> Backlog | None:
        if self.fails:
            raise OSError("the broker is down")
        return Backlog(self.end - int(after["at"]))


def grown(end: int, fails: bool = False) -> Growing:
    return Growing(end=end, fails=fails)


def plan_of(name: str) -> QueryPlan:
    leaf = object.__new__(Read)
    object.__setattr__(leaf, "watermark", Watermark("time", late_seconds=60))
    plan = object.__new__(QueryPlan)
    for field, value in (("name", name), ("frame", leaf)):
        object.__setattr__(plan, field, value)
    return plan


def test_the_lag_is_what_is_not_delivered_and_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(backlog.time, "time", lambda: clock[0])
    monkeypatch.setattr(backlog, "EVERY_SECONDS", 0.0)
    totals, state = Totals(), StateFolder(tmp_path)

    def lag(source: Growing, begin: int, one: Any) -> tuple[int, float]:
        one._sources["numbers"] = source
        one.latest_offset(at(begin))
        backlog.read_lags(state, plan_of("q"), totals)
        found = totals.lags["numbers", "q"]
        return found.events, found.seconds(clock[0])

    one = planner(tmp_path, grown(25), "q")
    one._backlog.sources = one._sources
    assert lag(grown(25), 0, one) == (25, 0)
    clock[0] += 5
    assert lag(grown(25), 10, one) == (15, 5)
    clock[0] += 5
    assert lag(grown(25), 20, one) == (5, 10), "the next micro-batch has all that existed now"
    clock[0] += 5
    assert lag(grown(40), 25, one) == (15, 5), "what existed 5 seconds ago is delivered"
    clock[0] += 5
    assert lag(grown(25), 25, one) == (0, 0)


def test_a_source_that_cannot_be_asked_is_no_error(tmp_path: Path) -> None:
    assert planner(tmp_path, grown(25, fails=True), "q").latest_offset(at(0))["sources"] == {"numbers": {"at": 10}}
    assert not (tmp_path / "queries" / "q" / backlog.FILE).exists()


def test_the_watermark_is_behind_the_latest_event_time(tmp_path: Path) -> None:
    state, totals = StateFolder(tmp_path), Totals()
    backlog.read_lags(state, plan_of("q"), totals)
    assert totals.watermarks == {}

    write_json(state.query("q") / "clock.json", {"event_time": 100_000_000})
    backlog.read_lags(state, plan_of("q"), totals)

    assert totals.watermarks == {"q": 40_000_000}


class Measured(Growing):
    """A source that knows bytes and not events."""

    def backlog(self, after: Offset) -> Backlog | None:
        return Backlog(bytes=20 * (self.end - int(after["at"])))


def test_of_bytes_the_events_are_estimated(tmp_path: Path) -> None:
    totals, state = Totals(), StateFolder(tmp_path)

    def lag() -> tuple[int | None, int | None]:
        one = planner(tmp_path, Measured(end=25), "q")
        one.latest_offset(at(10))
        backlog.read_lags(state, plan_of("q"), totals)
        found = totals.lags["numbers", "q"]
        return found.events, found.bytes

    assert lag() == (None, 300), "no event was read yet"
    write_json(state.query("q") / "pace.json", {"event_bytes": 40.0})
    assert lag() == (8, 300)
