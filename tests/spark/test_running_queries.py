"""Starting streaming queries: a few at the same time, and again after a Python process that started too slowly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Segment
from etl.spark.running_queries import MAX_STARTS, SLOW_START, RunningQueries, StartLimiter

SLOW = RuntimeError(f"org.apache.spark.SparkException: Python worker {SLOW_START}.")


class Query:
    """A streaming query that is ready after ``polls`` readings of its status."""

    def __init__(self, polls: int = 0) -> None:
        self.isActive, self.polls = True, polls

    @property
    def status(self) -> dict[str, object]:
        self.polls -= 1
        return {"message": "Initializing sources" if self.polls >= 0 else "Waiting for data", "isTriggerActive": False}


def plan(name: str) -> QueryPlan:
    return QueryPlan(name, {}, Segment({}, {}))


def begin(begun: list[str], polls: int = 0) -> Callable[[QueryPlan], Any]:
    def start(plan: QueryPlan) -> Query:
        begun.append(plan.name)
        return Query(polls)

    return start


def test_a_query_waits_until_the_one_before_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("etl.spark.running_queries.time.sleep", pauses.append)
    begun: list[str] = []
    running = RunningQueries(begin(begun, polls=3), StartLimiter(1))

    running.start(plan("a"))
    running.start(plan("b"))

    assert begun == ["a", "b"]
    assert len(pauses) == 3


def test_as_many_queries_start_at_once_as_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.spark.running_queries.time.sleep", lambda _: pytest.fail("waited"))
    running = RunningQueries(begin([], polls=100), StartLimiter(2))

    running.start(plan("a"))
    running.start(plan("b"))

    assert running.are_active


def test_a_query_that_never_gets_ready_delays_the_others_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr("etl.spark.running_queries.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("etl.spark.running_queries.time.sleep", lambda _: None)
    begun: list[str] = []
    running = RunningQueries(begin(begun, polls=10_000), StartLimiter(1))

    running.start(plan("a"))
    running.start(plan("b"))

    assert begun == ["a", "b"]


def test_a_start_that_hangs_delays_the_others_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.spark.running_queries.WAIT_SECONDS", 0.2)
    limiter, goes_on = StartLimiter(1), threading.Event()
    hanging = threading.Thread(target=limiter.start, args=(lambda: goes_on.wait(120) and Query(),))
    hanging.start()

    running = RunningQueries(begin([]), limiter)
    running.start(plan("b"))

    assert (hanging.is_alive(), running.are_active) == (True, True)
    goes_on.set()
    hanging.join()


def test_a_start_that_fails_takes_no_turn() -> None:
    limiter = StartLimiter(1)
    for _ in range(3):
        with pytest.raises(OSError, match="no"):
            limiter.start(lambda: (_ for _ in ()).throw(OSError("no")))

    RunningQueries(begin([]), limiter).start(plan("a"))


def test_a_query_whose_process_starts_too_slowly_is_restarted_a_few_times() -> None:
    begun: list[str] = []
    running = RunningQueries(begin(begun), StartLimiter(2))
    running.start(plan("a"))

    restarted = [running.try_restart(plan("a"), SLOW) for _ in range(MAX_STARTS)]

    assert restarted == [True] * (MAX_STARTS - 1) + [False]
    assert begun == ["a"] * MAX_STARTS


def test_a_query_with_another_failure_is_not_restarted() -> None:
    begun: list[str] = []
    running = RunningQueries(begin(begun), StartLimiter(2))
    running.start(plan("a"))

    assert not running.try_restart(plan("a"), RuntimeError("no such topic"))
    assert begun == ["a"]
