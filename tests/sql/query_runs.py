"""Runs a script's query over rows that stand in it to the end of its sources: planned and computed as `etl run` does, here and
without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import CHANGE, OFFSET, BatchId, EtlError, Limit, Rejects, Schema, Source, visible
from etl.catalogue import installed
from etl.config.document.sql_script import read_script
from etl.config.loader import inspect_document
from etl.contract.changelogs import signs
from etl.plan.frames import Read, StateGraph
from etl.plan.query_plan import Plan, QueryPlan
from etl.receipts import decode_all
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark.lane.lane_batch import Lane
from etl.spark.lane.lane_stages import stages_of
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.splits import SplitReader
from etl.spark.state.folder import StateFolder
from etl.testing.capture import read_captured
from etl.testing.trial import LETTERS, build_capture_plan

RESULT = "result"
"""The sink of a query without INSERT."""


@dataclass(frozen=True)
class Ran:
    """What a query gives: the final rows after all changes, or what lint or the run says against it."""

    rows: Sequence[tuple[Any, ...]] = ()
    schema: Schema | None = None
    problems: Sequence[str] = ()
    """Errors of lint."""
    changes: int = 0
    """How many rows were removed or replaced."""
    failed: Sequence[str] = ()
    """Reasons of dead letters, and the error of the run."""


def run_query(text: str, folder: Path, max_events: int | None = None) -> Ran:
    """Lint a query, and run it if there is no error, in micro-batches of at most ``max_events`` rows of each source."""
    folder.mkdir(parents=True, exist_ok=True)
    checked = inspect_document("job.sql", read_script(text.encode(), installed(), folder))
    if checked.pipeline is None:
        return Ran(problems=[one.message for one in checked.problems if one.severity == "error"])
    plan = build_capture_plan(checked.pipeline, [RESULT], folder)
    try:
        for query in plan.queries:
            _run(plan, query, folder, max_events)
    except EtlError as error:
        return Ran(failed=[str(error)])
    letters = [row["reason"] for batch in read_captured(folder / LETTERS) for row in batch.to_pylist()]
    (output,) = [one for query in plan.queries for one in query.segment.outputs.values()][:1]
    rows, removed = _final_rows(folder / RESULT)
    return Ran(rows, visible(output.schema), changes=removed, failed=[str(one) for one in letters])


def _run(plan: Plan, query: QueryPlan, folder: Path, max_events: int | None) -> None:
    if query.frame is None:
        for order, (name, source) in enumerate(query.sources.items()):
            context = SplitContext(
                pipeline=plan.pipeline, source=name, partition="0", split=f"{order}-{name}", order=order, staging_folder=str
            )
            assert not [*SegmentRun(query.segment, name, context, plan.dead_letters).process(_events(source))]
        return
    if not isinstance(query.frame, StateGraph) or not isinstance(query.frame.child, Read):
        raise EtlError("it needs Spark")
    _run_with_state(plan, query, query.frame, folder, max_events)


def _run_with_state(plan: Plan, query: QueryPlan, graph: StateGraph, folder: Path, max_events: int | None) -> None:
    """Micro-batches with all events of all sources, and one that says that they have ended."""
    number, read = plan.queries.index(query), graph.child
    assert isinstance(read, Read)
    for batch, task in enumerate(_tasks(read, max_events)):
        context = QueryContext(
            pipeline=plan.pipeline,
            query=query.name,
            run_id="run",
            state=StateFolder(folder / "state"),
            dead_letters=plan.dead_letters,
            parallelism=1,
            max_batch_bytes=1 << 20,
            once=True,
            drain=True,
            durable=False,
            whole_batch=BatchId(f"q{number}", batch),
        )
        lane = Lane(tuple(stages_of(query)), graph.inputs, context)
        (row,) = SplitReader(context, read.sources, read.segment, read, 0, lane).read(task)
        outcome = decode_all(row.column("receipt")[0].as_py())[0].outcome
        assert outcome is not None, "the micro-batch needs further tasks"
        lane.manifests.write(batch, outcome.state)


def _tasks(read: Read, max_events: int | None) -> Iterator[SplitTask]:
    starts = {name: source.start() for name, source in read.sources.items()}
    limit, found = Limit(1 << 62, max_events, bounded=True), 1_700_000_000.0
    while True:
        ends = {name: source.latest(starts[name], limit) for name, source in read.sources.items()}
        read_by = [(name, split) for name, source in read.sources.items() for split in source.splits(starts[name], ends[name], 1)]
        splits = [SplitTask(order, name, split, found=found) for order, (name, split) in enumerate(read_by)]
        if not splits or ends == starts:
            break
        yield SplitTask(splits[0].order, splits[0].source, splits[0].split, found=found, joined=tuple(splits[1:]))
        starts, found = ends, found + 1
    yield SplitTask(0, next(iter(read.sources)), None, tick=1 << 61, ends=True, joined=())


def _events(source: Source) -> Iterator[pa.RecordBatch | Rejects]:
    start = source.start()
    for split in source.splits(start, source.latest(start, Limit(1 << 62, None, bounded=True)), 1):
        yield from source.read(split)


def _final_rows(folder: Path) -> tuple[list[tuple[Any, ...]], int]:
    """The rows that are left after all changes, and how many were removed."""
    rows: list[tuple[Any, ...]] = []
    removed = 0
    for batch in read_captured(folder) if folder.is_dir() else ():
        columns = [batch.column(name) for name in batch.schema.names if name not in (OFFSET, CHANGE)]
        added = signs(batch) if CHANGE in batch.schema.names else [1] * batch.num_rows
        for row, sign in zip(zip(*(column.to_pylist() for column in columns), strict=True), added, strict=True):
            if sign > 0:
                rows.append(row)
            else:
                rows.remove(row)
                removed += 1
    return rows, removed
