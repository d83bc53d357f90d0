"""Running segments over the partitions of Spark DataFrames, inside Spark's tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, Schema, visible
from etl.config.stream_schemas import merge
from etl.delivery.backoff import Backoff, RunStopping, StopFile
from etl.delivery.replay_buffer import ReplayBuffer
from etl.expressions import quote_name, schema_of
from etl.plan.frames import Exchange
from etl.plan.segments import Branch, Segment, check_actual_types
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark.driver_rows import receipts_row
from etl.spark.query_context import QueryContext, current_batch, ensure_folder, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.steps.heartbeats import DELAY

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame


def run_segment(events: DataFrame, segment: Segment, query: QueryContext, number: int) -> DataFrame:
    """Run a query's last segment over the partitions of a micro-batch; the result's rows are receipts.

    ``number`` follows the segment numbers of `build_frame`.
    """
    run = partial(_run_last_segment, with_actual_types(segment, arrow_schema(events)), query, list(events.columns), number)
    return map_in_arrow(events, run, "receipt binary")


def run_branch(events: DataFrame, branch: Branch, query: QueryContext, number: int) -> DataFrame:
    """Run a branch between two Spark steps over the partitions of a frame; the result's rows are events."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if OFFSET in events.columns:  # heartbeat rows have advanced the watermark, and are not events for a step
        events = events.where(f"{quote_name(OFFSET)} is not null")
    segment = with_actual_types(Segment({"": branch}, {}), arrow_schema(events))
    root = segment.roots[""]
    outgoing = root.outgoing.append(pa.field(OFFSET, pa.int64()))
    run = partial(_run_inner_segment, segment, query, list(events.columns), root.steps[0].id, number)
    anonymous = pa.schema([(f"c{i}", field.type) for i, field in enumerate(outgoing)])
    passed = map_in_arrow(events, run, from_arrow_schema(anonymous)).toDF(*outgoing.names)
    delays = watermark_delays(events, outgoing.names)  # Spark loses this metadata in Python
    return passed.select(*(_column(name, delays.get(name)) for name in outgoing.names)) if delays else passed


def _column(name: str, delay: int | None) -> Column:
    from pyspark.sql.functions import col

    return col(quote_name(name)).alias(name, metadata={DELAY: delay}) if delay is not None else col(quote_name(name))


def map_in_arrow(events: DataFrame, run: object, schema: object) -> DataFrame:
    """Call ``mapInArrow`` with numbered columns, because it does not accept names with dots."""
    return events.toDF(*(f"c{i}" for i in range(len(events.columns)))).mapInArrow(run, schema)  # type: ignore[arg-type]


def _run_last_segment(
    segment: Segment, query: QueryContext, names: list[str], number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = split_context(query, "result", number)
    with _restartable_segment(segment, query, context, None, with_row_numbers(batches, names)) as restartable:
        receipt = restartable.run_to_end()
    yield receipts_row([receipt])


def _run_inner_segment(
    segment: Segment, query: QueryContext, names: list[str], step: str, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = split_context(query, step, number)
    with _restartable_segment(segment, query, context, segment.roots[""].outgoing, with_names(batches, names)) as restartable:
        for _, batch in restartable:
            yield batch.rename_columns([f"c{i}" for i in range(batch.num_columns)])
    (ensure_folder(_staging_folder(query) / "receipts") / context.split).write_bytes(restartable.receipt.encode())


@contextmanager
def _restartable_segment(
    segment: Segment, query: QueryContext, context: SplitContext, emits: Schema | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[RestartableSegment]:
    """A segment over a partition. Spark yields a partition once, so it is buffered for sinks that lose accepted events."""
    relay_worker_logs(query.pipeline)
    buffer = ReplayBuffer(batches, ensure_folder(_staging_folder(query) / "replay") / context.split)
    start_run = lambda: SegmentRun(segment, "", context, query.dead_letters, {0: Exchange(emits)} if emits else {})  # noqa: E731
    try:
        yield RestartableSegment(start_run, lambda: buffer, Backoff(f"query {query.query!r}", context.stop_file))
    except RunStopping:
        raise
    except Exception as error:
        store_error(_staging_folder(query), error)
        raise
    finally:
        buffer.close()


def split_context(query: QueryContext, what: str, number: int) -> SplitContext:
    """The context of the running task for a segment with this number over its partition; ``what`` tells its splits apart."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    partition, staging = task.partitionId(), _staging_folder(query)
    return SplitContext(
        pipeline=query.pipeline,
        source=query.query,
        partition=str(partition),
        split=f"{re.sub(r'[^A-Za-z0-9_-]+', '-', what)}-{partition:06d}",
        order=partition,
        staging_folder=lambda sink: str(ensure_folder(staging / "sinks" / sink)),
        segment_number=number,
        batch=current_batch(query),
        stop_file=StopFile(query.state.stopping),
        taps=query.state.taps,
        spool_folder=query.state.spools,
        row_numbered=True,
    )


def _staging_folder(query: QueryContext) -> Path:
    return query.state.staging(query.run_id, query.query, current_batch(query).number)


def with_names(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(names)


def with_row_numbers(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Append row numbers in the partition as offsets, because results of Spark have none."""
    import numpy as np

    first = 0
    for batch in with_names(batches, names):
        if OFFSET in batch.schema.names:
            batch = batch.drop_columns([OFFSET])
        yield batch.append_column(OFFSET, pa.array(np.arange(first, first + batch.num_rows)))
        first += batch.num_rows


def with_actual_types(segment: Segment, incoming: Schema) -> Segment:
    """The segment with the actual types of Spark's columns, which the planner may not know. Raises StepPlanError for those that
    a step refuses."""
    roots = {name: _branch_with_actual_types(branch, incoming, {}) for name, branch in segment.roots.items()}
    arriving = {name: branch.outgoing for root in roots.values() for branch in root.walk() for name in branch.sinks}
    outputs = {name: replace(out, schema=arriving.get(name, out.schema)) for name, out in segment.outputs.items()}
    return replace(segment, roots=roots, outputs=outputs)


def _branch_with_actual_types(branch: Branch, incoming: Schema, entered: dict[str, list[Schema]]) -> Branch:
    """``entered`` collects the schemas of the branches of each union."""
    incoming = merge(entered[branch.gathers]) if branch.gathers else incoming
    steps = []
    for node in branch.steps:
        check_actual_types(node, incoming)
        outgoing = node.step.fields(incoming)
        steps.append(replace(node, incoming=incoming, outgoing=outgoing))
        incoming = outgoing
    if branch.into:
        entered.setdefault(branch.into, []).append(incoming)
    below = tuple([_branch_with_actual_types(one, incoming, entered) for one in branch.branches])
    return replace(branch, steps=tuple(steps), outgoing=incoming, branches=below)


def arrow_schema(events: DataFrame) -> Schema:
    """The visible columns with Spark's types, as an Arrow schema."""
    return visible(schema_of(events))


def watermark_delays(events: DataFrame, names: Iterable[str]) -> dict[str, int]:
    """Columns that Spark knows as event time → milliseconds by which their watermark lags."""
    known = {field.name: field.metadata.get(DELAY) for field in events.schema.fields}
    return {name: delay for name in names if (delay := known.get(name)) is not None}
