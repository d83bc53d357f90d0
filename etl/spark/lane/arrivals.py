"""Rows for a stateful step from the partitions of a Spark DataFrame, where Spark itself reads or computes what reaches it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, TIMESTAMP, Rejects, Schema, StatefulStep, with_columns
from etl.delivery.backoff import Backoff
from etl.plan.segments import Branch, Segment, Watermark
from etl.receipts import NO_SEGMENT, ROWS_SEGMENTS, Receipt
from etl.segment.event_time import EventTime, events_by_side, without_heartbeats
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun
from etl.spark.driver_rows import receipts_row
from etl.spark.lane.clocks import reading_time
from etl.spark.lane.operators import operator_of
from etl.spark.partitions import map_in_arrow, split_context, with_names
from etl.spark.query_context import QueryContext, current_batch, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.state.manifest import Manifests
from etl.state.row_files import RowWriter
from etl.steps.heartbeats import ARRIVAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class RowTarget:
    """The stage that rows are written for, and its inputs that they belong to."""

    step: StatefulStep
    incoming: Schema
    """The fields that its rows are made of."""
    id: str
    """The name of the step in dead letters."""
    reports: bool
    """Whether this query reports the events that the step rejects."""
    reports_times: bool
    """Whether it reports those without a usable event time."""
    stage: int = 0
    inputs: Mapping[int, int]
    """Side of a join, 0 for other steps → the number of the input that its events belong to."""
    from_files: bool = False
    """Whether tasks have written the events to files, in the middle of a micro-batch."""
    upstream: int | None = None
    """The stage whose results the events are, None for those of sources: an input gets the results of several one by one."""
    read_at: int | None = None
    """The time of reading of the micro-batch, microseconds since the epoch. Without it event times may be any time ahead."""
    made_at: int = field(default_factory=lambda: time.time_ns() // 1_000)
    """The time of reading where all events are read at once, microseconds since the epoch."""


def write_rows_of_partitions(events: DataFrame, query: QueryContext, targets: Sequence[RowTarget]) -> DataFrame:
    """Write the rows of each partition; the result's rows are receipts that name the files. The events for several targets have a
    struct column for each."""
    run = partial(_write_rows, query, targets, list(events.columns))
    return map_in_arrow(events, run, "receipt binary")


def _write_rows(
    query: QueryContext, targets: Sequence[RowTarget], names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    relay_worker_logs(query.pipeline)
    rows: dict[int, _PartitionRows] = {}
    try:
        for at, batch in _by_target(with_names(batches, names), len(targets)):
            if at not in rows:
                rows[at] = _PartitionRows(query, targets[at])
            rows[at].add(batch)
        yield receipts_row([one.close() for one in rows.values()])
    except Exception as error:
        store_error(query.state.staging(query.run_id, query.query, current_batch(query).number), error)
        raise


def _by_target(batches: Iterator[pa.RecordBatch], targets: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The events of each target, with its number: those of the rows in which its struct is set, where there are several."""
    for batch in batches:
        if targets == 1:
            yield 0, batch
            continue
        for at, events in enumerate(batch.columns):
            if events.null_count < len(events):
                yield at, pa.RecordBatch.from_struct_array(events.drop_null() if events.null_count else events)


class _PartitionRows:
    """Writes the rows of one partition; events without a usable event time, and those that the step rejects, are dead letters."""

    def __init__(self, query: QueryContext, target: RowTarget) -> None:
        self._query, self._target = query, target
        number, upstream = min(target.inputs.values()), -1 if target.upstream is None else target.upstream
        self._context = split_context(query, f"rows-{number}-{upstream + 1}", ROWS_SEGMENTS + (number << 8) + upstream + 1)
        manifests = Manifests(query.state.rows(query.query), query.durable)
        batch = self._context.batch.number
        known = manifests.read(batch - 1)
        before = known.stage(target.stage)
        self._read_at = target.made_at if target.read_at is None else max(target.read_at, reading_time(None, known))
        self._input = number
        origin = f"spark{number}.{upstream + 1}" if target.from_files else "0"
        name = f"rows-{batch:012d}-{origin}-{target.stage}-{self._context.order:06d}"
        self._writer = RowWriter(operator_of(target.step, target.incoming), manifests, name, before.watermark, before.emission)
        time_field = (target.step.event_time() or ("",))[0]
        ahead = None if target.read_at is None else query.max_ahead_seconds
        self._time = EventTime(Watermark(time_field, 0, arrival=time_field == ARRIVAL), (target.read_at or 0) / 1e6, ahead)
        self._latest: dict[int, int] = {}
        self._rejected: list[tuple[Rejects, str]] = []
        """At most the events of the partition."""
        self._numbered = 0

    def close(self) -> Receipt:
        """Write what is left; the receipt names the files and has the largest event times."""
        rows = self._writer.close()
        receipt = self._write_dead_letters() if self._rejected else Receipt("", "rows", self._context.order, NO_SEGMENT)
        return replace(receipt, rows={self._target.stage: rows}, late=self._writer.late, event_times=self._latest)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows of events, which get row numbers in the partition as offsets where Spark's results have none."""
        if OFFSET not in batch.schema.names:
            batch = batch.append_column(OFFSET, pa.array(range(self._numbered, self._numbered + batch.num_rows), pa.int64()))
            self._numbered += batch.num_rows
        batch = self._with_time_of_reading(batch)
        time_ = self._time
        wrong = time_.out_of_range(batch)
        timely = batch if wrong is None else batch.filter(pc.invert(wrong).fill_null(fill_value=True))
        self._observe(timely)
        if wrong is not None:
            self._reject_times(batch.filter(wrong), "event-time-out-of-range", time_.range_text)
        events = without_heartbeats(timely)
        if events.column(time_.field).null_count:
            reason = f"{time_.field} is null, and a later step goes by event time"
            self._reject_times(events.filter(events.column(time_.field).is_null()), "no-event-time", reason)
            events = events.filter(events.column(time_.field).is_valid())
        self._reject(self._writer.add(events), self._target.id)

    def _with_time_of_reading(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Events of sources with the time of reading of the micro-batch, if the step goes by that: it is later than that of all
        micro-batches before, also after the end of a run has closed what was open. Spark's clock is not, and a step on Arrow
        drops the column. Results of stages have the time that their stage gives them."""
        is_set = ARRIVAL in batch.schema.names and (self._target.upstream is not None or self._target.read_at is None)
        if not self._time.arrival or is_set:
            return batch
        times = pa.repeat(pa.scalar(self._read_at, pa.int64()), batch.num_rows).cast(TIMESTAMP)
        return with_columns(batch, {ARRIVAL: times})

    def _observe(self, batch: pa.RecordBatch) -> None:
        for side, events in events_by_side(batch):
            last = pc.max(events.column(self._time.field)).cast(pa.timestamp("us", "UTC"), safe=False).value
            if last is not None:
                at = self._target.inputs.get(side or 0, self._input)
                self._latest[at] = max(last, self._latest.get(at, last))

    def _reject_times(self, events: pa.RecordBatch, code: str, reason: str) -> None:
        self._rejected += [(Rejects(events, code, reason), "event time")] if self._target.reports_times else []

    def _reject(self, rejects: Sequence[Rejects], at: str) -> None:
        self._rejected += [(one, at) for one in rejects] if self._target.reports else []

    def _write_dead_letters(self) -> Receipt:
        segment = Segment({"": Branch((), self._target.incoming)}, {})
        backoff = Backoff(f"query {self._query.query!r}", self._context.stop_file)
        restartable = RestartableSegment(
            lambda: SegmentRun(segment, "", self._context, self._query.dead_letters), tuple, backoff, self._rejected
        )
        return restartable.run_to_end()
