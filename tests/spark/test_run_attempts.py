"""What a run does again after a failure, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
