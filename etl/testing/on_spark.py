"""The Spark session that all tests of a call share, started when the first test needs it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from etl.plan.query_plan import Plan
from etl.testing.trial import OnSpark

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

MASTER = "local[1]"
"""One task after the other: a test has few events, and their order is that of the file."""


@contextmanager
def session(starting: Callable[[], None]) -> Iterator[OnSpark]:
    """Runs plans on a session that lasts as long as the context; ``starting`` is called when Spark really starts."""
    from etl.running.shared_session import SharedSession

    folder = Path(tempfile.mkdtemp(prefix="etl-test-spark-"))
    shared = SharedSession("sluice-test", MASTER, folder / "spark.log", on_start=starting)
    try:
        yield partial(run_on, shared)
    finally:
        shared.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_on(shared: SharedSession, plan: Plan, state: Path, drain: bool) -> None:
    """Run the queries of a plan that need Spark to their end. Raises RunError."""
    from etl.spark.run import PipelineRun, RunMode
    from etl.spark.state.folder import StateFolder

    queries = tuple(query for query in plan.queries if query.frame is not None)
    shared.run(PipelineRun(replace(plan, queries=queries), StateFolder(state), RunMode(once=True, drain=drain)))
