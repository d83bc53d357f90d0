"""When the clock of a query starts a micro-batch, and what is due in one: by the offsets that Spark has logged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark.test_inline_route import query

from etl.plan.frames import StageInput
from etl.plan.segments import Watermark
from etl.receipts import Receipt
from etl.spark import planner_clock
from etl.spark.clock_planner import ClockPlanner, QueryReads
from etl.spark.lane.query_clock import clock_receipt
from etl.spark.query_context import QueryContext
from etl.spark.state.json_files import write_json

SECOND = 1_000_000
READS = QueryReads({1: ("ours",)}, ("a", "b"))
INPUTS = [StageInput(0, 0, frozenset({"a", "ours"})), StageInput(0, 1, frozenset({"b"}))]


class Spark:
    """Logs offsets as Spark does, and plans with the clock in between."""

    def __init__(self, context: QueryContext, watermark: Watermark) -> None:
        self.context, self.watermark = context, watermark
        self.number = -1
        self.offsets: dict[str, Any] = {"a": "-", "b": "-", "ours": 0}
        self.restart(context)
        self.clock: dict[str, Any] = self.planner.initial_offset()
        write_json(context.clock_file, {"event_time": 5 * SECOND})

    def restart(self, context: QueryContext) -> None:
        self.context, self.planner = context, ClockPlanner(context, self.watermark, READS)

    @property
    def waits(self) -> bool:
        """Whether no micro-batch starts without events."""
        return self.planner.latest_offset(self.clock) == self.clock

    def batch(self, **moved: Any) -> Receipt:
        """What the clock says about the next micro-batch, in which these sources have moved."""
        clock = self.planner.latest_offset(self.clock)
        assert moved or clock != self.clock
        self.number, self.clock = self.number + 1, clock
        self.offsets |= moved
        ours = json.dumps({"sources": {"ours": self.offsets["ours"]}, "parallelism": 1})
        head = ["v1", json.dumps({"batchTimestampMs": self.number})]
        lines = [*head, self.offsets["a"], ours, self.offsets["b"], json.dumps(clock)]
        path = self.context.state.checkpoint(self.context.query) / "offsets" / str(self.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))
        return clock_receipt(self.context, INPUTS, READS, self.number)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The planner's clock, whose first value is the time."""
    found = [100.0]
    monkeypatch.setattr(planner_clock.time, "monotonic", lambda: found[0])
    return found


def test_a_drained_run_ends_with_one_micro_batch_that_closes_all(tmp_path: Path, now: list[float]) -> None:
    spark = Spark(replace(query(tmp_path), drain=True), Watermark("at", 2, max_delay_seconds=1))

    first, second, last = spark.batch(a="1"), spark.batch(b="7"), spark.batch()

    assert [one.silence for one in (first, second, last)] == [None, None, "ended"]
    assert (last.event_times, last.read_at) == ({0: 9 * SECOND, 1: 9 * SECOND}, 2000)
    assert clock_receipt(spark.context, INPUTS, READS, 2) == last, "a micro-batch that is repeated is the same"
    assert spark.waits
    spark.restart(spark.context)
    assert spark.waits, "nothing has come since"
    spark.restart(replace(spark.context, once=False))
    assert spark.batch(ours=3).silence is None
    spark.restart(replace(spark.context, once=True))
    assert spark.batch().silence == "ended", "event time stands still, but events have come"


def test_sources_that_are_silent_for_the_idle_time_hold_nothing(tmp_path: Path, now: list[float]) -> None:
    spark = Spark(replace(query(tmp_path), once=False), Watermark("at", 0, idle_seconds=10))
    spark.batch(a="1", b="7")
    assert spark.waits
    now[0] += 9
    one = spark.batch(a="2")
    assert (one.idle, one.silence) == (frozenset(), None)
    now[0] += 1

    two = spark.batch(a="3")
    now[0] += 0.1
    three = spark.batch(b="8")

    assert (two.idle, two.silence) == ({"b", "ours"}, None)
    assert three.idle == {"ours"}, "it counts again with its first events"
    assert spark.batch().idle == {"ours"}
    now[0] += 10
    assert spark.batch().silence == "idle"
    assert spark.waits


def test_a_source_of_ours_that_has_ended_is_idle_at_once(tmp_path: Path, now: list[float]) -> None:
    spark = Spark(replace(query(tmp_path), once=False), Watermark("at", 0))
    spark.batch(a="1")
    write_json(spark.context.state.ended(spark.context.query, 1), True)

    assert spark.batch(a="2").idle == {"ours"}


def test_an_interval_is_over_without_events_only(tmp_path: Path, now: list[float]) -> None:
    spark = Spark(replace(query(tmp_path), once=False), Watermark("at", 0, intervals=((10 * SECOND, True),)))
    spark.batch(a="1")
    spark.batch(a="2")
    now[0] += 10
    crossed = spark.batch(a="3")
    now[0] += 11
    assert spark.waits, "its silence begins when the log shows its events"
    now[0] += 10

    quiet = spark.batch()

    assert crossed.quiet == frozenset()
    assert quiet.quiet == {10 * SECOND}
    assert spark.waits


def test_reads_that_cannot_be_told_apart_stand_for_all(tmp_path: Path, now: list[float]) -> None:
    reads = QueryReads({1: ("ours",)}, ("a",))  # one is read twice by a step of Spark: two lines
    spark = Spark(replace(query(tmp_path), drain=True), Watermark("at", 0))
    spark.batch(a="1")
    spark.batch(b="2")

    assert clock_receipt(spark.context, INPUTS, reads, 1).silence is None
