"""Runs queries with stateful steps in this process, without Spark, as one micro-batch that holds all events."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from etl.api import Limit
from etl.plan.frames import Read, StateGraph
from etl.plan.query_plan import Plan, QueryPlan
from etl.receipts import decode_all
from etl.spark.lane.lane_batch import Lane
from etl.spark.lane.lane_stages import stages_of
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.splits import SplitReader
from etl.spark.state.folder import StateFolder

_ALL_EVENTS = Limit(1 << 62, None, bounded=True)


def runs_on_lane(query: QueryPlan) -> bool:
    """Whether tasks of ours do all of a query's work: it reads splits, and Spark computes none of its steps."""
    graph = query.frame
    return isinstance(graph, StateGraph) and isinstance(graph.child, Read) and all(one.between is None for one in graph.inputs)


def run_on_lane(plan: Plan, query: QueryPlan, folder: Path, now: float | None = None) -> None:
    """Run a query for which `runs_on_lane`; all windows close. ``now``: the time of reading, seconds since the epoch."""
    graph = query.frame
    assert isinstance(graph, StateGraph)
    read = graph.child
    assert isinstance(read, Read)
    context = QueryContext(
        pipeline=plan.pipeline,
        query=query.name,
        run_id="lane",
        state=StateFolder(folder),
        dead_letters=plan.dead_letters,
        parallelism=1,
        max_batch_bytes=_ALL_EVENTS.max_bytes,
        durable=False,
        once=True,
        drain=True,
    )
    lane = Lane(tuple(stages_of(query)), graph.inputs, context, bounded=True)
    first, *others = _tasks(read, time.time() if now is None else now)
    reader = SplitReader(context, read.sources, read.segment, read, 0, lane)
    for row in reader.read(replace(first, joined=tuple(others))):
        assert all(one.outcome is not None for one in decode_all(row.column("receipt")[0].as_py()))


def _tasks(read: Read, now: float) -> list[SplitTask]:
    """A task for each split of each source; without any events one that reads nothing."""
    tasks: list[SplitTask] = []
    for name, source in read.sources.items():
        start = source.start()
        for split in source.splits(start, source.latest(start, _ALL_EVENTS), 1):
            tasks.append(SplitTask(len(tasks), name, split, found=now))
    return tasks or [SplitTask(0, "", None, found=now)]
