"""The Spark session that all tests of a call share, started when the first test needs it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from etl.plan.model import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[1]"
"""One task after the other: a test has few events, and their order is that of the file."""


class Session:
    """Runs plans on Spark."""

    def __init__(self, folder: Path, starting: Callable[[], None]) -> None:
        self._folder = folder
        self._starting = starting
        self._session: SparkSession | None = None

    def __call__(self, plan: Plan, state: Path, drain: bool) -> None:
        """Run the queries of a plan that need Spark to their end. Raises RunError."""
        from etl.spark.mode import Mode
        from etl.spark.run import PipelineRun
        from etl.spark.state import StateFolder

        queries = tuple(query for query in plan.queries if query.frame is not None)
        run = PipelineRun(replace(plan, queries=queries), StateFolder(state), Mode(once=True, drain=drain))
        session = self._started()
        with run.prepared() as commits:
            run.work(session, commits)

    def _started(self) -> SparkSession:
        if self._session is None:
            from etl.spark import session as spark

            self._starting()
            self._session = spark.start("sluice-test", MASTER, {}, self._folder / "spark.log")
            spark.warm(self._session, 1)
        return self._session

    def stop(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.stop()


@contextmanager
def session(starting: Callable[[], None]) -> Iterator[Session]:
    """A session for as long as the context lasts; ``starting`` is called when Spark really starts."""
    folder = Path(tempfile.mkdtemp(prefix="etl-test-spark-"))
    shared = Session(folder, starting)
    try:
        yield shared
    finally:
        shared.stop()
        shutil.rmtree(folder, ignore_errors=True)
