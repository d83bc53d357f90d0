"""What a run does again after a failure, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from etl.delivery.driver_calls import HungCallError
from etl.spark.commit.batch_commit import SinkCommitters
from etl.spark.reports.errors import RunError
from etl.spark.run import PipelineRun, RunMode
from etl.spark.state.folder import StateFolder


class FakeQueries:
    """Bounded queries, of which ``second`` fails once."""

    def __init__(self) -> None:
        self.session = SimpleNamespace(sparkContext=SimpleNamespace(addJobTag=lambda tag: None))
        self.ran: list[str] = []

    def run_bounded(self, plan: Any) -> None:
        self.ran.append(plan.name)
        if self.ran == ["first", "second"]:
            raise OSError("the disk is full")


def test_a_bounded_query_that_has_completed_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded: Any = [SimpleNamespace(name=name, streaming=False) for name in ("first", "second")]
    plan: Any = SimpleNamespace(queries=bounded)
    run = PipelineRun(plan, StateFolder(tmp_path), RunMode())
    monkeypatch.setattr(run, "_fail", lambda query, error: run._failed.append(RunError(str(error))))
    queries: Any = FakeQueries()

    run._run_bounded_queries(queries, run._bounded_left())
    run.renew()
    run._run_bounded_queries(queries, run._bounded_left())

    assert queries.ran == ["first", "second", "second"]


class FakeStream:
    """A query that ends when it is stopped."""

    status: Mapping[str, bool] = MappingProxyType({"isTriggerActive": False})

    def __init__(self) -> None:
        self.isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class FakeStreams(list[tuple[Any, FakeStream]]):
    """One query."""

    @property
    def are_active(self) -> bool:
        return any(query.isActive for _, query in self)


def test_periodic_work_that_fails_ends_the_queries_before_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tick() -> None:
        raise HungCallError("periodic work of sink 'main' (lake) hung for 1800 s and was interrupted")

    query = SimpleNamespace(name="a", streaming=True, spark_reads=[], split_reads=[0])
    plan: Any = SimpleNamespace(queries=[query])
    run, stream = PipelineRun(plan, StateFolder(tmp_path), RunMode()), FakeStream()
    monkeypatch.setattr(run, "_start_queries", lambda _: FakeStreams([(query, stream)]))
    monkeypatch.setattr(run._reports, "gather", lambda *_: None)
    context = SimpleNamespace(cancelJobsWithTag=lambda tag: None, addJobTag=lambda tag: None)
    queries: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=context), commits=SimpleNamespace(tick=tick))

    run._run(queries, [])

    assert not stream.isActive
    assert [str(one) for one in run._failed] == ["periodic work of sink 'main' (lake) hung for 1800 s and was interrupted"]


def test_the_end_of_a_run_closes_all_sinks_also_after_one_that_hangs(tmp_path: Path) -> None:
    closed: list[str] = []

    def close(name: str) -> None:
        closed.append(name)
        if name == "a":
            raise HungCallError("the end of sink 'a' hung")

    commits = SinkCommitters.__new__(SinkCommitters)
    commits._ends = {name: SimpleNamespace(close=partial(close, name)) for name in ("a", "b")}  # type: ignore[misc]

    with pytest.raises(HungCallError):
        commits.close()

    assert closed == ["a", "b"]
