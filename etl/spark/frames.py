"""Building Spark DataFrames from a plan's frames, and running segments over their partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, EtlError, Schema, SparkStep, visible
from etl.config.schemas import merge
from etl.delivery.backoff import Backoff, RunStopping, StopFile
from etl.delivery.replay_buffer import ReplayBuffer
from etl.expressions import quoted
from etl.plan.model import Apply, Branch, Frame, Map, Native, Read, Segment, Union, Watermark
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark import relay
from etl.spark.errors import refused
from etl.spark.query_context import QueryContext, current_batch, ensure_folder, store_error
from etl.spark.splits import splits_source
from etl.steps.heartbeats import DELAY, fenced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession


def build_frame(frame: Frame, session: SparkSession, query: QueryContext, numbers: Iterator[int] | None = None) -> DataFrame:
    """Build the DataFrame of a frame without starting it. ``numbers`` gives segment numbers in the order of `segments`."""
    numbers = count() if numbers is None else numbers
    match frame:
        case Read():
            return _with_watermark(read(frame, session, query, next(numbers)), frame.watermark)
        case Native():
            return _with_watermark(_read_native(frame, session), frame.watermark)
        case Apply(node=node, child=child):
            assert isinstance(node.step, SparkStep)
            events = _with_late_watermark(build_frame(child, session, query, numbers), node.step)
            try:
                return node.step.apply(events)
            except EtlError:
                raise
            except Exception as error:  # any error of Spark's analyser
                raise refused(node, error) from error
        case Map(branch=branch, child=child):
            events = build_frame(child, session, query, numbers)
            return _run_branch(events, branch, query, next(numbers))
        case Union(children=children):
            frames = [build_frame(child, session, query, numbers) for child in children]
            return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def read(frame: Read, session: SparkSession, query: QueryContext, number: int) -> DataFrame:
    """The events of splits as Spark's stream."""
    source = splits_source(query, frame.sources, frame.segment, frame, number)
    session.dataSource.register(source)
    return session.readStream.format(source.name()).load()


READ_METRIC = "read of "
"""Prefix of the observed metric that counts the events that Spark reads of a source; the source's name follows."""


def _read_native(frame: Native, session: SparkSession) -> DataFrame:
    from pyspark.sql.functions import count, current_timestamp, lit

    events = flatten(frame.source.load(session)).withColumn(OFFSET, lit(0).cast("bigint"))
    if frame.watermark is not None and frame.watermark.arrival:
        events = events.withColumn(frame.watermark.field, current_timestamp())
    return events.observe(READ_METRIC + frame.name, count(lit(1)).alias("events")) if frame.reports else events


def flatten(events: DataFrame) -> DataFrame:
    """Turn struct members into columns with dotted names."""
    from pyspark.sql.functions import col

    return events.select(*(col(path).alias(name) for name, path in _leaf_columns(events.schema, "", "")))


def _leaf_columns(schema: object, name: str, path: str) -> Iterator[tuple[str, str]]:
    from pyspark.sql.types import StructType

    assert isinstance(schema, StructType)
    for field in schema.fields:
        inner_name, inner_path = f"{name}{field.name}", f"{path}{quoted(field.name)}"
        if isinstance(field.dataType, StructType):
            yield from _leaf_columns(field.dataType, f"{inner_name}.", f"{inner_path}.")
        else:
            yield inner_name, inner_path


def arrow_schema(events: DataFrame) -> Schema:
    """The visible columns with Spark's types, as an Arrow schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return visible(to_arrow_schema(events.schema, timezone="UTC", prefers_large_types=False))


def _with_watermark(events: DataFrame, clock: Watermark | None) -> DataFrame:
    return fenced(events.withWatermark(quoted(clock.field), f"{clock.late_seconds} seconds")) if clock else events


def _with_late_watermark(events: DataFrame, step: SparkStep) -> DataFrame:
    """Set the watermark before a step if no read has set it, because a Spark step makes its field or makes it again."""
    wanted = step.event_time()
    if wanted is None or _delays(events, [wanted[0]]):
        return events
    return _with_watermark(events, Watermark(wanted[0], wanted[1].total_seconds()))


def _delays(events: DataFrame, names: Iterable[str]) -> dict[str, int]:
    """Columns that Spark knows as event time → milliseconds that their watermark lags behind."""
    known = {field.name: field.metadata.get(DELAY) for field in events.schema.fields}
    return {name: delay for name in names if (delay := known.get(name)) is not None}


def read_observed(events: DataFrame) -> dict[str, int]:
    """Metric → number of events that an executed DataFrame has counted."""
    found = events._jdf.queryExecution().observedMetrics()
    names = found.keys().iterator()
    counted = {}
    while names.hasNext():
        name = names.next()
        counted[name] = int(found.apply(name).getLong(0))
    return counted


# ── Segments over partitions ──────────────────────────────────────────────────────────────────────


def run_segment(events: DataFrame, segment: Segment, query: QueryContext, number: int) -> DataFrame:
    """Run a query's last segment over the partitions of a micro-batch; the result's rows are receipts.

    ``number`` follows the segment numbers of `build_frame`.
    """
    run = partial(_run_last_segment, with_actual_types(segment, arrow_schema(events)), query, list(events.columns), number)
    return _map_in_arrow(events, run, "receipt binary")


def _run_branch(events: DataFrame, branch: Branch, query: QueryContext, number: int) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    if OFFSET in events.columns:  # heartbeats have moved the watermark, and are no events for a step
        events = events.where(f"{quoted(OFFSET)} is not null")
    segment = with_actual_types(Segment({"": branch}, {}), arrow_schema(events))
    root = segment.roots[""]
    outgoing = root.outgoing.append(pa.field(OFFSET, pa.int64()))
    run = partial(_run_inner_segment, segment, query, list(events.columns), root.steps[0].id, number)
    anonymous = pa.schema([(f"c{i}", field.type) for i, field in enumerate(outgoing)])
    passed = _map_in_arrow(events, run, from_arrow_schema(anonymous)).toDF(*outgoing.names)
    delays = _delays(events, outgoing.names)  # which Spark does not take through Python
    return passed.select(*(_column(name, delays.get(name)) for name in outgoing.names)) if delays else passed


def _column(name: str, delay: int | None) -> Column:
    from pyspark.sql.functions import col

    return col(quoted(name)).alias(name, metadata={DELAY: delay}) if delay is not None else col(quoted(name))


def _map_in_arrow(events: DataFrame, run: object, schema: object) -> DataFrame:
    """Call ``mapInArrow`` with numbered columns, because it does not accept names with dots."""
    return events.toDF(*(f"c{i}" for i in range(len(events.columns)))).mapInArrow(run, schema)  # type: ignore[arg-type]


def _run_last_segment(
    segment: Segment, query: QueryContext, names: list[str], number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _split_context(query, "result", number)
    with _restartable_segment(segment, query, context, None, _with_row_numbers(batches, names)) as restartable:
        receipt = restartable.run_to_end()
    yield pa.RecordBatch.from_pydict({"receipt": pa.array([receipt.encode()], pa.binary())})


def _run_inner_segment(
    segment: Segment, query: QueryContext, names: list[str], step: str, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _split_context(query, step, number)
    with _restartable_segment(segment, query, context, segment.roots[""].outgoing, _with_names(batches, names)) as restartable:
        for batch in restartable:
            yield batch.rename_columns([f"c{i}" for i in range(batch.num_columns)])
    (ensure_folder(_staging_folder(query) / "receipts") / context.split).write_bytes(restartable.receipt.encode())


@contextmanager
def _restartable_segment(
    segment: Segment, query: QueryContext, context: SplitContext, emits: Schema | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[RestartableSegment]:
    """A segment over a partition. Spark yields a partition once, so it is buffered for sinks that lose what they were given."""
    relay.send(query.pipeline)
    buffer = ReplayBuffer(batches, ensure_folder(_staging_folder(query) / "kept") / context.split)
    start_run = lambda: SegmentRun(segment, "", context, query.dead_letters, emits)  # noqa: E731
    try:
        yield RestartableSegment(start_run, lambda: buffer, Backoff(f"query {query.query!r}", context.stop_file))
    except RunStopping:
        raise
    except Exception as error:
        store_error(_staging_folder(query), error)
        raise
    finally:
        buffer.close()


def _split_context(query: QueryContext, what: str, number: int) -> SplitContext:
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
        spool_folder=query.state.spools,
        row_numbered=True,
    )


def _staging_folder(query: QueryContext) -> Path:
    return query.state.staging(query.run_id, query.query, current_batch(query).number)


def _with_names(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(names)


def _with_row_numbers(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Append row numbers in the partition as offsets, because results of Spark have none."""
    import numpy as np

    first = 0
    for batch in _with_names(batches, names):
        if OFFSET in batch.schema.names:
            batch = batch.drop_columns([OFFSET])
        yield batch.append_column(OFFSET, pa.array(np.arange(first, first + batch.num_rows)))
        first += batch.num_rows


def with_actual_types(segment: Segment, incoming: Schema) -> Segment:
    """The segment with the actual types of Spark's columns, which the planner may not know."""
    roots = {name: _branch_with_actual_types(branch, incoming, {}) for name, branch in segment.roots.items()}
    arriving = {name: branch.outgoing for root in roots.values() for branch in root.walk() for name in branch.sinks}
    outputs = {name: replace(out, schema=arriving.get(name, out.schema)) for name, out in segment.outputs.items()}
    return replace(segment, roots=roots, outputs=outputs)


def _branch_with_actual_types(branch: Branch, incoming: Schema, entered: dict[str, list[Schema]]) -> Branch:
    """``entered`` takes what leaves the branches of each union."""
    incoming = merge(entered[branch.gathers]) if branch.gathers else incoming
    steps = []
    for node in branch.steps:
        outgoing = node.step.fields(incoming)
        steps.append(replace(node, incoming=incoming, outgoing=outgoing))
        incoming = outgoing
    if branch.into:
        entered.setdefault(branch.into, []).append(incoming)
    below = tuple([_branch_with_actual_types(one, incoming, entered) for one in branch.branches])
    return replace(branch, steps=tuple(steps), outgoing=incoming, branches=below)
