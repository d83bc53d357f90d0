"""Rows for a stateful step from the partitions of a Spark DataFrame, where Spark itself reads or computes what reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, SIDE, Schema, StatefulStep
from etl.receipts import NO_SEGMENT, Receipt
from etl.segment.event_time import without_heartbeats
from etl.spark.lane.operators import operator_of
from etl.spark.partitions import map_in_arrow, with_names, with_row_numbers
from etl.spark.query_context import QueryContext, current_batch, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.splits import receipt_row
from etl.state.manifest import Manifests
from etl.state.row_files import RowWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StageTarget(NamedTuple):
    """The stage that rows are written for, and its input that they belong to."""

    stage: int = 0
    input: int | None = None
    """None for a stage whose inputs have the numbers of its sides."""


FIRST = StageTarget()
"""The first stage, whose rows Spark reads or computes."""


def write_rows_of_partitions(
    events: DataFrame, step: StatefulStep, incoming: Schema, query: QueryContext, target: StageTarget = FIRST
) -> DataFrame:
    """Write the rows of each partition; the result's rows are receipts that name the files."""
    run = partial(_write_rows, step, incoming, query, target, list(events.columns))
    return map_in_arrow(events, run, "receipt binary")


def _write_rows(
    step: StatefulStep,
    incoming: Schema,
    query: QueryContext,
    target: StageTarget,
    names: list[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    relay_worker_logs(query.pipeline)
    task, batch = TaskContext.get(), current_batch(query)
    assert task is not None
    try:
        writer = _writer(step, incoming, query, target, task.partitionId(), batch.number)
        yield receipt_row(_rows_receipt(step, writer, target, task.partitionId(), _add_row_numbers(batches, names)))
    except Exception as error:
        store_error(query.state.staging(query.run_id, query.query, batch.number), error)
        raise


def _add_row_numbers(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    return with_names(batches, names) if OFFSET in names else with_row_numbers(batches, names)


def _writer(
    step: StatefulStep, incoming: Schema, query: QueryContext, target: StageTarget, partition: int, number: int
) -> RowWriter:
    """The writer of a partition in a micro-batch of this number."""
    manifests = Manifests(query.state.rows(query.query), query.durable)
    before = manifests.read(number - 1).stage(target.stage)
    origin = "0" if target.input is None else f"spark{target.input}"
    name = f"rows-{number:012d}-{origin}-{target.stage}-{partition:06d}"
    return RowWriter(operator_of(step, incoming), manifests, name, before.watermark, before.emission)


def _rows_receipt(
    step: StatefulStep, writer: RowWriter, target: StageTarget, partition: int, batches: Iterator[pa.RecordBatch]
) -> Receipt:
    """Write the rows of a partition; the receipt names their files and has their largest event times."""
    time, latest = (step.event_time() or ("",))[0], dict[int, int]()
    for batch in batches:
        for side, events in _by_side(batch):
            last = pc.max(events.column(time)).cast(pa.timestamp("us", "UTC"), safe=False).value
            if last is not None:
                at = side if target.input is None else target.input
                latest[at] = max(last, latest.get(at, last))
        times = batch.column(time)
        writer.add_accepted(without_heartbeats(batch.filter(times.is_valid()) if times.null_count else batch))
    rows = writer.close()
    return Receipt("", "rows", partition, NO_SEGMENT, rows={target.stage: rows}, late=writer.late, event_times=latest)


def _by_side(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each side of a join, or of the one input of another step."""
    if SIDE not in batch.schema.names:
        yield 0, batch
        return
    for side in (0, 1):
        yield side, batch.filter(pc.equal(batch.column(SIDE), side))
