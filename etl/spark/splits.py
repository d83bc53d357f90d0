"""The sources of a query as one Python streaming data source of Spark: partitions are splits, rows are receipts or events.

Spark calls a `SplitPlanner` and a `SplitReader`, through `etl.spark.datasource`, in two kinds of process: one planner that lives
as long as the query, and the workers, which read.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import OFFSET, Source
from etl.delivery.backoff import Backoff, RunStopping, StopFile, read_with_retries
from etl.plan.frames import Exchange, Read, StageInput, exchange_of
from etl.plan.segments import Segment
from etl.receipts import NO_SEGMENT, Receipt
from etl.segment.event_time import heartbeat, without_heartbeats
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark.driver_rows import receipts_row
from etl.spark.lane.clocks import reading_time, tick_receipt
from etl.spark.lane.lane_batch import Lane, MoreTasksNeeded, run_here
from etl.spark.lane.operators import operator_of
from etl.spark.lane.part_tasks import report_rejects, with_rows
from etl.spark.lane.result_files import EventFileWriter, event_file_of
from etl.spark.lane.stored_receipts import StoredReceipts
from etl.spark.query_context import QueryContext, SplitTask, current_batch, ensure_folder, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.split_planner import SplitPlanner
from etl.state.row_files import RowWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType


class SplitReader:
    """Reads splits of several sources through a segment, in workers; ``number`` counts the reads of the query."""

    def __init__(
        self,
        query: QueryContext,
        sources: Mapping[str, Source],
        segment: Segment,
        read: Read | None,
        number: int = 0,
        lane: Lane | None = None,
    ) -> None:
        self._query = query
        self._lane = lane
        self._sources = dict(sources)
        self._segment = segment
        self._read = read
        self._number = number

    def read(self, task: SplitTask) -> Iterator[pa.RecordBatch]:
        """Run the segment over one split; yields its receipt, or its events, with the receipt in a file for the driver."""
        relay_worker_logs(self._query.pipeline)
        staging = self._staging_folder()
        try:
            if self._lane is not None:
                yield receipts_row(self._run_for_state(task, staging, self._lane))
            elif self._read:
                yield from self._run_for_spark(task, staging)
            else:
                yield receipts_row([self._restartable_segment(task, staging).run_to_end()])
        except RunStopping:
            raise
        except Exception as error:
            store_error(staging, error)
            raise

    def _restartable_segment(self, task: SplitTask, staging: Path, read_at: float | None = None) -> RestartableSegment:
        backoff = Backoff(f"query {self._query.query!r}", StopFile(self._query.state.stopping))
        return RestartableSegment(partial(self._start_segment, task, staging, read_at), partial(self._batches, task), backoff)

    def _run_for_spark(self, task: SplitTask, staging: Path) -> Iterator[pa.RecordBatch]:
        assert self._read is not None
        if task.tick is not None:
            assert self._read.watermark is not None
            yield heartbeat(emitted_schema(self._read), self._read.watermark.field, task.tick)
            return
        restartable = self._restartable_segment(task, staging)
        yield from (batch for _, batch in restartable)
        folder = ensure_folder(staging / "receipts")
        (folder / restartable.receipt.split).write_bytes(restartable.receipt.encode())

    def _run_for_state(self, task: SplitTask, staging: Path, lane: Lane) -> Sequence[Receipt]:
        """Write the events as rows for a stateful step, and run its parts if no other task of the micro-batch is left."""
        batch = current_batch(self._query)
        own = [self._write_rows(one, staging, lane, batch.number) for one in (task, *(task.joined or ()))]
        receipts = own if task.joined is not None else StoredReceipts(staging).add(own[0], task.order, task.tasks)
        try:
            if receipts is not None:
                return [Receipt("", "inline", 0, NO_SEGMENT, outcome=lane.advance(batch, receipts, run_here))]
        except MoreTasksNeeded:
            pass
        return own

    def _write_rows(self, task: SplitTask, staging: Path, lane: Lane, batch: int) -> Receipt:
        """Write the events as rows for the stateful steps that they reach; the receipt names the files."""
        known, name = lane.manifests.read(batch - 1), f"rows-{batch:012d}-0"
        read_at = reading_time(task.found, known)
        if task.split is None:
            return replace(tick_receipt(task, lane.inputs), read_at=read_at)
        writers: dict[int, RowWriter] = {}
        own = {number: one for number, one in enumerate(lane.inputs) if task.source in one.sources}
        for number in {one.stage for one in own.values() if one.between is None}:
            operator = operator_of(lane.stages[number].step, lane.stages[number].incoming)
            file = f"{name}-{number}-{task.order:06d}"
            before = known.stage(number)
            writers[number] = RowWriter(operator, lane.manifests, file, before.watermark, before.emission)
        restartable, for_spark = self._restartable_segment(task, staging, read_at / 1e6), self._spark_files(task, own)
        for to, events in restartable:
            if to in for_spark and events.num_rows > events.column(OFFSET).null_count:
                for_spark[to].add(without_heartbeats(events))
            elif to in own and to not in for_spark:
                stage = lane.stages[own[to].stage]
                rejects = writers[own[to].stage].add(without_heartbeats(events))
                report_rejects(restartable, rejects, stage.id, stage.reports)
        for events_file in for_spark.values():
            events_file.close()
        return replace(with_rows(restartable.receipt, writers), idle=task.idle, read_at=read_at)

    def _spark_files(self, task: SplitTask, inputs: Mapping[int, StageInput]) -> dict[int, EventFileWriter]:
        """The files for events that Spark gets, by the number of the exchange."""
        exchanges, batch = self._exchanges, current_batch(self._query)
        return {
            number: EventFileWriter(
                event_file_of(self._query, batch, task.source, self._split_name(task), number), exchanges[number].schema
            )
            for number, one in inputs.items()
            if one.between is not None
        }

    def _split_name(self, task: SplitTask) -> str:
        return f"{task.name}-{self._number}" if self._number else task.name

    def _start_segment(self, task: SplitTask, staging: Path, read_at: float | None) -> SegmentRun:
        assert task.split is not None
        context = SplitContext(
            pipeline=self._query.pipeline,
            source=task.source,
            partition=task.split.partition,
            split=self._split_name(task),
            order=task.order,
            staging_folder=lambda sink: str(ensure_folder(staging / "sinks" / sink)),
            segment_number=self._number,
            batch=current_batch(self._query),
            stop_file=StopFile(self._query.state.stopping),
            taps=self._query.state.taps,
            spool_folder=self._query.state.spools,
            ordered=self._sources[task.source].ordered,
            read_at=task.found if read_at is None else read_at,
            max_ahead_seconds=self._query.max_ahead_seconds,
        )
        run = SegmentRun(self._segment, task.source, context, self._query.dead_letters, self._exchanges)
        run.receipt.found = task.found
        return run

    @property
    def _exchanges(self) -> Mapping[int, Exchange]:
        """What the segment hands over to stateful steps, or to Spark."""
        if self._lane is not None:
            lane = self._lane
            return {n: exchange_of(one, lane.stages[one.stage].exchange) for n, one in enumerate(lane.inputs) if one.sources}
        return {0: Exchange(emitted_schema(self._read), self._read.watermark)} if self._read else {}

    def _batches(self, task: SplitTask) -> Iterator[Any]:
        assert task.split is not None
        read = partial(self._sources[task.source].read, task.split)
        return read_with_retries(read, self._query.backoff(task.source))

    def _staging_folder(self) -> Path:
        return self._query.state.staging(self._query.run_id, self._query.query, current_batch(self._query).number)


def emitted_schema(read: Read) -> pa.Schema:
    """The fields of a read's output for Spark, without ``_offset``."""
    watermark = read.watermark
    if watermark is None or watermark.field in read.schema.names:
        return read.schema
    return read.schema.append(pa.field(watermark.field, pa.timestamp("us", tz="UTC")))


def splits_source(
    query: QueryContext,
    sources: Mapping[str, Source],
    segment: Segment,
    read: Read | None,
    number: int = 0,
    lane: Lane | None = None,
) -> type[DataSource]:
    """The data source class for one read of a query; ``number`` counts the reads of the query, which may share a source.

    Its name is unique in the session, which may run several pipelines: Spark has one data source for each name.
    """
    from etl.spark.datasource import data_source

    name = f"sluice_{hashlib.sha256(f'{query.state.root}/{query.query}/{number}/{list(sources)}'.encode()).hexdigest()[:12]}"
    planner = SplitPlanner(query, sources, read.watermark if read else None, number, joins=lane is not None)
    reader = SplitReader(query, sources, segment, read, number, lane)
    return data_source(name, pickle.dumps(planner), pickle.dumps(reader), spark_schema(None if lane else read))


def spark_schema(read: Read | None) -> StructType | str:
    """Spark's schema of what the reader yields."""
    if read is None:
        return "receipt binary"
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(emitted_schema(read).append(pa.field("_offset", pa.int64())))
