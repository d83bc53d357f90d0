"""One of two joined streams is silent for hours, by a clock that the test moves: planner, watermark and operator together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.test_inline_route import Ranges, query
from state.lane import Lane, Row

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema
from etl.plan.frames import StageInput
from etl.plan.segments import Branch, Segment, Watermark
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark import planner_clock
from etl.spark.lane.clocks import BatchClocks
from etl.spark.lane.lane_stages import Stage
from etl.spark.split_planner import SplitPlanner
from etl.state.manifest import Manifest, StageState
from etl.steps.joining.join import Join

EVENTS: Schema = pa.schema({"user": pa.string(), "at": TIMESTAMP})
INPUTS = (StageInput(0, 0, sources=frozenset({"left"})), StageInput(0, 1, sources=frozenset({"right"})))
MINUTE, LATE, WITHIN, IDLE = 60, 10, 600, 300
"""Seconds."""
MINUTES = 120
"""With an event each: seven times as long as state grows before it stays as it is."""


def join(**options: Any) -> Join:
    given = {"on": ["user"], "time": "at", "within": f"{WITHIN}s", "late": f"{LATE}s", "kind": "full"}
    return Join.model_validate(given | options)


@dataclass
class TwoStreams:
    """A join and its two sources, of which an event each is read whenever the test says so."""

    step: Join
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    known: Manifest = field(default_factory=Manifest)
    second: float = 0
    events: int = 0

    def __post_init__(self) -> None:
        (self.folder / "rows").mkdir()
        self.monkeypatch.setattr(planner_clock.time, "monotonic", lambda: self.second)
        idle = self.step.idle_after()
        self.watermark = Watermark(
            SIDE_TIME, LATE, idle and idle.total_seconds(), max_delay_seconds=self.step.max_delay().total_seconds()
        )
        context = replace(query(self.folder), once=False)
        self.planner = SplitPlanner(context, {"left": Ranges(), "right": Ranges()}, self.watermark)
        self.offset: dict[str, Any] = {"sources": {"left": {"at": 0}, "right": {"at": 0}}, "parallelism": 1}
        self.lane = Lane(self.step, self.step.united({"left": EVENTS, "right": EVENTS}), self.folder / "rows", merges=True)
        self.stage = Stage(
            step=self.step,
            incoming=self.lane.incoming,
            watermark=self.watermark,
            segment=Segment({"": Branch((), self.lane.incoming)}, {}),
            segment_number=0,
        )

    def read(self, *sides: str, user: str = "a") -> list[Row]:
        """The results of a micro-batch with an event of each of these sides at the time of the clock."""
        for side in sides:
            self.planner._sources[side] = Ranges(end=self.offset["sources"][side]["at"] + 1)
        end = self.planner.latest_offset(self.offset)
        tasks = self.planner.plan_tasks(self.offset, end)
        time = round(self.second * 1e6)
        receipts = [
            Receipt(task.source, "0", 0, NO_SEGMENT, idle=task.idle, event_times={("left", "right").index(task.source): time})
            for task in tasks
        ]
        self.offset = end
        clocks = BatchClocks((self.stage,), INPUTS, self.known, receipts)
        now = clocks.of(0).now
        self.known = Manifest(stages=(StageState(now),), event_times=clocks.times)
        rows = [self._row(task.source, user) for task in tasks]
        return self.lane.run(rows, watermark=now)

    def _row(self, side: str, user: str) -> Row:
        self.events += 1
        at = datetime.fromtimestamp(self.second, UTC)
        number = ("left", "right").index(side)
        return {SIDE: number, SIDE_TIME: at, OFFSET: self.events, f"{side}.user": user, f"{side}.at": at}

    @property
    def rows(self) -> int:
        """Rows of state."""
        return sum(file.rows for file in self.lane.kept)


@pytest.mark.slow
def test_with_idle_the_other_side_goes_on_and_state_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams, waits, rows = TwoStreams(join(idle=f"{IDLE}s"), tmp_path, monkeypatch), [], []
    streams.read("left", "right", user="both")

    for minute in range(1, MINUTES):
        streams.second = minute * MINUTE
        given = streams.read("left", user=f"u{minute}")
        waits += [streams.second - one["at"].timestamp() for one in given if one["user"].startswith("u")]
        rows.append(streams.rows)

    max_age = WITHIN + LATE + MINUTE
    assert len(waits) == MINUTES - 1 - max_age // MINUTE
    assert max(waits) <= max_age
    assert max(rows) <= 2 * (max_age + IDLE) // MINUTE
    assert rows[-1] <= max(rows[: MINUTES // 4])


@pytest.mark.slow
def test_a_side_that_comes_back_after_idle_is_joined_with_what_is_still_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = TwoStreams(join(kind="inner", idle=f"{IDLE}s"), tmp_path, monkeypatch)
    streams.read("left", "right", user="both")
    for minute in range(1, 120):
        streams.second = minute * MINUTE
        assert streams.read("left", user="u") == []

    found = [one["at"].timestamp() // MINUTE for one in streams.read("right", user="u")]

    assert sorted(found) == [*range(119 - WITHIN // MINUTE, 120)]
    assert streams.lane.late == 0


@pytest.mark.slow
def test_without_idle_a_silent_side_holds_results_and_state_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, rows = TwoStreams(join(), tmp_path, monkeypatch), []
    streams.read("left", "right", user="both")
    for minute in range(1, MINUTES):
        streams.second = minute * MINUTE
        assert streams.read("left", user=f"u{minute}") == []
        rows.append(streams.rows)

    streams.second = MINUTES * MINUTE
    given = streams.read("left", "right", user="end")

    assert rows == [*range(3, MINUTES + 2)]
    assert len([one for one in given if one["user"] and one["user"].startswith("u")]) == MINUTES - 1 - (WITHIN + LATE) // MINUTE
    assert streams.lane.late == 0
    assert "a silent side holds results and state of the other one: there is no idle" in streams.step.notes(streams.lane.incoming)
