"""The Spark session that all tests of a call share, started when the first test needs it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from etl.plan.query_plan import Plan
from etl.testing.given_source import GivenSource
from etl.testing.trial import OnSpark

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession
    from etl.spark.planner_clock import ScriptedClock

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
    from etl.spark.run import POOL, PipelineRun, RunMode
    from etl.spark.state.folder import StateFolder

    queries = tuple(query for query in plan.queries if query.frame is not None)
    mode = RunMode(once=True, drain=drain, clock=scripted_clock(plan))
    context = shared.started().sparkContext
    before = context.getLocalProperty(POOL)
    shared.run(PipelineRun(replace(plan, queries=queries), StateFolder(state), mode))
    context.setLocalProperty(POOL, before)  # type: ignore[arg-type]  # this thread is the caller's, who may have jobs of his own


def scripted_clock(plan: Plan) -> ScriptedClock:
    """The clock of a test, which moves on by the pauses of its sources; of two in one place the longer one counts."""
    from etl.spark.planner_clock import ScriptedClock

    given = {name: source for name, source in plan.sources().items() if isinstance(source, GivenSource)}
    begins = [one.begin for one in given.values() if one.begin is not None]
    count = max((len(one.batches) for one in given.values()), default=0)
    pauses = [max(one.pauses.get(number, 0.0) for one in given.values()) for number in range(count)]
    batches = {name: frozenset(number for number, one in enumerate(source.batches) if one) for name, source in given.items()}
    return ScriptedClock(begins[0] if begins else time.time(), tuple(accumulate(pauses)), batches)
