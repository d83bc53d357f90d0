"""A plan's frame → a Spark DataFrame with flat columns, and segments over the partitions of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from etl.spark.query_context import QueryContext, current_batch, made, report
from etl.spark.splits import splits_source
from etl.steps.heartbeats import fenced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def build(frame: Frame, session: SparkSession, query: QueryContext, numbers: Iterator[int] | None = None) -> DataFrame:
    """The DataFrame of a frame; starts nothing. ``numbers`` are handed to its segments as `segments` lists them."""
    numbers = count() if numbers is None else numbers
    match frame:
        case Read():
            source = splits_source(query, frame.sources, frame.segment, frame, next(numbers))
            session.dataSource.register(source)
            return _clocked(session.readStream.format(source.name()).load(), frame.watermark)
        case Native():
            return _native(frame, session)
        case Apply(node=node, child=child):
            assert isinstance(node.step, SparkStep)
            events = _clocked_late(build(child, session, query, numbers), node.step)
            try:
                return node.step.apply(events)
            except EtlError:
                raise
            except Exception as error:  # what Spark's analyser says, whatever its class
                raise refused(node, error) from error
        case Map(branch=branch, child=child):
            events = build(child, session, query, numbers)
            return _mapped(events, branch, query, next(numbers))
        case Union(children=children):
            frames = [build(child, session, query, numbers) for child in children]
            return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


READ = "read of "
"""With a source's name: the observed metric that counts what Spark reads of it."""


def _native(frame: Native, session: SparkSession) -> DataFrame:
    from pyspark.sql.functions import count, lit

    events = flat(frame.source.load(session)).withColumn(OFFSET, lit(0).cast("bigint"))
    return events.observe(READ + frame.name, count(lit(1)).alias("events")) if frame.reports else events


def flat(events: DataFrame) -> DataFrame:
    """Struct members lifted to columns with dotted names."""
    from pyspark.sql.functions import col

    return events.select(*(col(path).alias(name) for name, path in _leaves(events.schema, "", "")))


def _leaves(schema: object, name: str, path: str) -> Iterator[tuple[str, str]]:
    from pyspark.sql.types import StructType

    assert isinstance(schema, StructType)
    for field in schema.fields:
        inner_name, inner_path = f"{name}{field.name}", f"{path}{quoted(field.name)}"
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, f"{inner_name}.", f"{inner_path}.")
        else:
            yield inner_name, inner_path


def arrow_schema(events: DataFrame) -> Schema:
    """What Spark says the visible columns are, as Arrow types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return visible(to_arrow_schema(events.schema, timezone="UTC", prefers_large_types=False))


def _clocked(events: DataFrame, clock: Watermark | None) -> DataFrame:
    return fenced(events.withWatermark(quoted(clock.field), f"{clock.late_seconds} seconds")) if clock else events


def _clocked_late(events: DataFrame, step: SparkStep) -> DataFrame:
    """Set the watermark here when no reader could: the field came into being behind it."""
    wanted = step.event_time()
    if wanted is None or _has_watermark(events):
        return events
    return _clocked(events, Watermark(wanted[0], wanted[1].total_seconds()))


def _has_watermark(events: DataFrame) -> bool:
    return "EventTimeWatermark" in re.sub(r"\s", "", events._jdf.queryExecution().analyzed().toString())


def observed(events: DataFrame) -> dict[str, int]:
    """The events that an executed DataFrame counted, by metric."""
    found = events._jdf.queryExecution().observedMetrics()
    names = found.keys().iterator()
    counted = {}
    while names.hasNext():
        name = names.next()
        counted[name] = int(found.apply(name).getLong(0))
    return counted


# ── Segments over partitions ──────────────────────────────────────────────────────────────────────


def receipts(events: DataFrame, segment: Segment, query: QueryContext, number: int) -> DataFrame:
    """Run a segment over the partitions of a micro-batch; its rows are receipts. ``number`` is behind those of `build`."""
    run = partial(_tail, retyped(segment, arrow_schema(events)), query, list(events.columns), number)
    return _over(events, run, "receipt binary")


def _mapped(events: DataFrame, branch: Branch, query: QueryContext, number: int) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    segment = retyped(Segment({"": branch}, {}), arrow_schema(events))
    root = segment.roots[""]
    outgoing = root.outgoing.append(pa.field(OFFSET, pa.int64()))
    run = partial(_middle, segment, query, list(events.columns), root.steps[0].id, number)
    anonymous = pa.schema([(f"c{i}", field.type) for i, field in enumerate(outgoing)])
    return _over(events, run, from_arrow_schema(anonymous)).toDF(*outgoing.names)


def _over(events: DataFrame, run: object, schema: object) -> DataFrame:
    """mapInArrow, with columns numbered on the way: it cannot take names with dots."""
    return events.toDF(*(f"c{i}" for i in range(len(events.columns)))).mapInArrow(run, schema)  # type: ignore[arg-type]


def _tail(
    segment: Segment, query: QueryContext, names: list[str], number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _split_context(query, "result", number)
    with _anew(segment, query, context, None, _numbered(batches, names)) as whole:
        receipt = whole.run_to_end()
    yield pa.RecordBatch.from_pydict({"receipt": pa.array([receipt.encode()], pa.binary())})


def _middle(
    segment: Segment, query: QueryContext, names: list[str], step: str, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _split_context(query, step, number)
    with _anew(segment, query, context, segment.roots[""].outgoing, _named(batches, names)) as whole:
        for batch in whole:
            yield batch.rename_columns([f"c{i}" for i in range(batch.num_columns)])
    (made(_staging(query) / "receipts") / context.split).write_bytes(whole.receipt.encode())


@contextmanager
def _anew(
    segment: Segment, query: QueryContext, context: SplitContext, emits: Schema | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[RestartableSegment]:
    """A segment over a partition. Spark gives that once: it is kept for sinks that lose what they took."""
    relay.send(query.pipeline)
    kept = ReplayBuffer(batches, made(_staging(query) / "kept") / context.split)
    begin = lambda: SegmentRun(segment, "", context, query.dead_letters, emits)  # noqa: E731
    try:
        yield RestartableSegment(begin, lambda: kept, Backoff(f"query {query.query!r}", context.stop_file))
    except RunStopping:
        raise
    except Exception as error:
        report(_staging(query), error)
        raise
    finally:
        kept.close()


def _split_context(query: QueryContext, what: str, number: int) -> SplitContext:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    partition, staging = task.partitionId(), _staging(query)
    return SplitContext(
        pipeline=query.pipeline,
        source=query.query,
        partition=str(partition),
        split=f"{re.sub(r'[^A-Za-z0-9_-]+', '-', what)}-{partition:06d}",
        order=partition,
        staging_folder=lambda sink: str(made(staging / "sinks" / sink)),
        segment_number=number,
        batch=current_batch(query),
        stop_file=StopFile(query.state.stopping),
        spool_folder=query.state.spools,
        row_numbered=True,
    )


def _staging(query: QueryContext) -> Path:
    return query.state.staging(query.run_id, query.query, current_batch(query).number)


def _named(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(names)


def _numbered(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Results of Spark have no offset of their own: their position in the partition serves."""
    import numpy as np

    first = 0
    for batch in _named(batches, names):
        if OFFSET in batch.schema.names:
            batch = batch.drop_columns([OFFSET])
        yield batch.append_column(OFFSET, pa.array(np.arange(first, first + batch.num_rows)))
        first += batch.num_rows


def retyped(segment: Segment, incoming: Schema) -> Segment:
    """The segment over the types that Spark really gives, where lint could not know them."""
    roots = {name: _retyped(branch, incoming, {}) for name, branch in segment.roots.items()}
    arriving = {name: branch.outgoing for root in roots.values() for branch in root.walk() for name in branch.sinks}
    outputs = {name: replace(out, schema=arriving.get(name, out.schema)) for name, out in segment.outputs.items()}
    return replace(segment, roots=roots, outputs=outputs)


def _retyped(branch: Branch, incoming: Schema, entered: dict[str, list[Schema]]) -> Branch:
    """``entered`` takes what leaves the branches of each union."""
    incoming = merge(entered[branch.gathers]) if branch.gathers else incoming
    steps = []
    for node in branch.steps:
        outgoing = node.step.fields(incoming)
        steps.append(replace(node, incoming=incoming, outgoing=outgoing))
        incoming = outgoing
    if branch.into:
        entered.setdefault(branch.into, []).append(incoming)
    below = tuple([_retyped(one, incoming, entered) for one in branch.branches])
    return replace(branch, steps=tuple(steps), outgoing=incoming, branches=below)
