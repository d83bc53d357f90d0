"""Starting streaming queries: in turns, and again where a process came too late for Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from etl.plan.model import QueryPlan, Segment
from etl.spark.streams import CAME_LATE, STARTS, Streams, Turns

LATE = RuntimeError(f"org.apache.spark.SparkException: Python worker {CAME_LATE}.")


class Query:
    """A streaming query that needs some looks to get ready."""

    def __init__(self, looks: int = 0) -> None:
        self.isActive, self.looks = True, looks

    @property
    def status(self) -> dict[str, object]:
        self.looks -= 1
        return {"message": "Initializing sources" if self.looks >= 0 else "Waiting for data", "isTriggerActive": False}


def plan(name: str) -> QueryPlan:
    return QueryPlan(name, {}, Segment({}, {}))


def begin(begun: list[str], looks: int = 0) -> Callable[[QueryPlan], Any]:
    def start(plan: QueryPlan) -> Query:
        begun.append(plan.name)
        return Query(looks)

    return start


def test_queries_start_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("etl.spark.streams.time.sleep", pauses.append)
    begun: list[str] = []
    running = Streams(begin(begun, looks=3), Turns(1))

    running.start(plan("a"))
    running.start(plan("b"))

    assert begun == ["a", "b"]
    assert len(pauses) == 3


def test_as_many_start_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.spark.streams.time.sleep", lambda _: pytest.fail("waited"))
    running = Streams(begin([], looks=100), Turns(2))

    running.start(plan("a"))
    running.start(plan("b"))

    assert running.active


def test_a_query_that_never_gets_ready_does_not_hold_the_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr("etl.spark.streams.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("etl.spark.streams.time.sleep", lambda _: None)
    begun: list[str] = []
    running = Streams(begin(begun, looks=10_000), Turns(1))

    running.start(plan("a"))
    running.start(plan("b"))

    assert begun == ["a", "b"]


def test_a_query_whose_process_came_late_starts_again_a_few_times() -> None:
    begun: list[str] = []
    running = Streams(begin(begun), Turns(2))
    running.start(plan("a"))

    again = [running.started_again(plan("a"), LATE) for _ in range(STARTS)]

    assert again == [True] * (STARTS - 1) + [False]
    assert begun == ["a"] * STARTS


def test_another_failure_stays_one() -> None:
    begun: list[str] = []
    running = Streams(begin(begun), Turns(2))
    running.start(plan("a"))

    assert not running.started_again(plan("a"), RuntimeError("no such topic"))
    assert begun == ["a"]
