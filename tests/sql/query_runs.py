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
from etl.receipts import Receipt
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


def run_query(text: str, folder: Path) -> Ran:
    """Lint a query, and run it if there is no error."""
    folder.mkdir(parents=True, exist_ok=True)
    checked = inspect_document("job.sql", read_script(text.encode(), installed(), folder))
    if checked.pipeline is None:
        return Ran(problems=[one.message for one in checked.problems if one.severity == "error"])
    plan = build_capture_plan(checked.pipeline, [RESULT], folder)
    try:
        for query in plan.queries:
            _run(plan, query, folder)
    except EtlError as error:
        return Ran(failed=[str(error)])
    letters = [row["reason"] for batch in read_captured(folder / LETTERS) for row in batch.to_pylist()]
    if letters:
        return Ran(failed=[str(one) for one in letters])
    (output,) = [one for query in plan.queries for one in query.segment.outputs.values()][:1]
    rows, removed = _final_rows(folder / RESULT)
    return Ran(rows, visible(output.schema), changes=removed)


def _run(plan: Plan, query: QueryPlan, folder: Path) -> None:
    if query.frame is None:
        for order, (name, source) in enumerate(query.sources.items()):
            context = SplitContext(
                pipeline=plan.pipeline, source=name, partition="0", split=f"{order}-{name}", order=order, staging_folder=str
            )
            assert not [*SegmentRun(query.segment, name, context, plan.dead_letters).process(_events(source))]
        return
    if not isinstance(query.frame, StateGraph) or not isinstance(query.frame.child, Read):
        raise EtlError("it needs Spark")
    _run_with_state(plan, query, query.frame, query.frame.child, folder)


def _run_with_state(plan: Plan, query: QueryPlan, graph: StateGraph, read: Read, folder: Path) -> None:
    """A micro-batch with all events of all sources, and one that says that they have ended."""
    number = plan.queries.index(query)
    for batch, task in enumerate(_tasks(read)):
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
        outcome = Receipt.decode(row.column("receipt")[0].as_py()).outcome
        assert outcome is not None, "the micro-batch needs further tasks"
        lane.manifests.write(batch, outcome.state)


def _tasks(read: Read) -> Iterator[SplitTask]:
    found = [
        SplitTask(order, name, split, found=1_700_000_000.0)
        for order, (name, source) in enumerate(read.sources.items())
        for split in source.splits(source.start(), source.latest(source.start(), Limit(1 << 62, None, bounded=True)), 1)
    ]
    latest = 1 << 61
    first, *others = found
    yield SplitTask(first.order, first.source, first.split, found=first.found, joined=tuple(others))
    yield SplitTask(0, first.source, None, tick=latest, ends=True, joined=())


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
