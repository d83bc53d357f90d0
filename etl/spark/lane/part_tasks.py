"""The second job of a micro-batch: tasks that run a stateful step over its parts, and the steps and sinks after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import FAILED, OFFSET, RESULT_FAILED, BatchId, DroppedEvents, Operator, PartRows, Rejects, Schema
from etl.contract.state import EmitProgress, ReadsPanes, StatefulStep, WatermarkAdvance
from etl.delivery.backoff import Backoff, RunStopping, StopFile
from etl.plan.frames import Exchange
from etl.plan.segments import Segment
from etl.receipts import Receipt
from etl.segment.event_time import without_heartbeats
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark.lane.operators import operator_of
from etl.spark.lane.result_files import EventFileWriter, event_file_of, results_folder, write_results
from etl.spark.query_context import QueryContext, ensure_folder, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifests, StateFileEntry
from etl.state.part_rows import KeyRange, MappedStateFiles, hashes_of, ranges_of_part
from etl.state.process_memory import trim_heap
from etl.state.row_files import RowWriter
from etl.state.state_files import limit_mapped_memory
from etl.steps.heartbeats import ARRIVAL

MAX_JOINT_ROWS = 1 << 18
"""Maximum number of rows of several parts that are merged together; a part by itself costs some milliseconds of Python."""

MAX_JOINT_BYTES = 128 << 20
"""Maximum bytes of them, where rows are large."""

RESULT_ROWS = 1 << 16
"""Maximum number of rows of a batch of results."""


def with_rows(receipt: Receipt, writers: Mapping[int, RowWriter]) -> Receipt:
    """A receipt that names the files of each stage's writer."""
    receipt.rows = {stage: writer.close() for stage, writer in writers.items()}
    receipt.late = sum(writer.late for writer in writers.values())
    return receipt


def report_rejects(restartable: RestartableSegment, rejects: Sequence[Rejects], step: str, reports: bool) -> None:
    """Write events to the dead letters that a stateful step did not take, unless another query reports them."""
    for one in rejects if reports else ():
        restartable.reject_emitted(one, step)


@dataclass(frozen=True)
class NextStage:
    """A downstream stateful step, which gets results."""

    number: int
    step: StatefulStep
    given: Exchange
    watermark: int
    """Before the micro-batch."""
    emission: EmitProgress
    """Before the micro-batch."""
    id: str
    reports: bool


@dataclass(frozen=True, kw_only=True)
class PartTasks:
    """What the tasks of a stage do, each for several parts."""

    query: QueryContext
    batch: BatchId
    number: int
    """Of the stage."""
    step: StatefulStep
    id: str = ""
    """The name of the step in dead letters."""
    reports: bool = True
    """Whether this query reports the events and results that the step rejects."""
    incoming: Schema
    clock: WatermarkAdvance
    read_at: int
    """The time of reading of its results, microseconds since the epoch."""
    state: Manifests
    arrived: tuple[StateFileEntry, ...]
    stored: tuple[StateFileEntry, ...]
    segment: Segment
    """The next steps, and the sinks."""
    segment_number: int
    following: Mapping[int, NextStage]
    """By the number of the segment's exchange."""
    for_spark: Mapping[int, Schema] = field(default_factory=dict)
    """The fields of further exchanges, which Spark gets."""
    results_to_spark: bool = False
    """Whether the results go to Spark."""
    tasks: int
    at_once: bool
    """Whether each runs its parts together, because these are small, or one after the other."""
    reads_all: bool
    """Whether all rows of the state are read, or those of keys that have new rows."""

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        for number in numbers:
            relay_worker_logs(self.query.pipeline)
            try:
                yield self._run(number).encode()
            except RunStopping:
                raise
            except Exception as error:
                store_error(self._staging, error)
                raise

    @property
    def _staging(self) -> Path:
        return self.query.state.staging(self.query.run_id, self.query.query, self.batch.number)

    def _run(self, number: int) -> Receipt:
        context = self._context(number)
        remembered = RowWriter(operator_of(self.step, self.incoming), self.state, self._file_name(number, "state"))
        restartable = RestartableSegment(
            lambda: SegmentRun(
                self.segment,
                "",
                context,
                self.query.dead_letters,
                self._exchanges(),
            ),
            lambda: self._results(number, remembered),
            Backoff(f"query {self.query.query!r}", context.stop_file),
        )
        receipt = self._run_segment(restartable, number, context.split)
        receipt.state, receipt.over_limit = remembered.close(), remembered.dropped
        limit_mapped_memory()
        if not self.at_once:
            trim_heap()
        return receipt

    def _exchanges(self) -> Mapping[int, Exchange]:
        """What the segment hands over to further stages, or to Spark."""
        if self.results_to_spark:
            return {0: Exchange(self.segment.roots[""].outgoing)}
        for_spark = {to: Exchange(fields) for to, fields in self.for_spark.items()}
        return {to: stage.given for to, stage in self.following.items()} | for_spark

    def _run_segment(self, restartable: RestartableSegment, number: int, split: str) -> Receipt:
        if self.results_to_spark:
            file = results_folder(self.query, self.batch) / f"{split}.arrow"
            write_results((events for _, events in restartable), file, self.segment.roots[""].outgoing)
            return restartable.receipt
        hands_over = self.following or self.for_spark
        return self._write_rows(restartable, number, split) if hands_over else restartable.run_to_end()

    def _write_rows(self, restartable: RestartableSegment, number: int, split: str) -> Receipt:
        """Write the results as rows for the next stateful steps, and as events for Spark."""
        paths = {to: event_file_of(self.query, self.batch, self.query.query, split, to) for to in self.for_spark}
        files = {to: EventFileWriter(path, self.for_spark[to]) for to, path in paths.items()}
        writers: dict[int, RowWriter] = {}
        for stage in self.following.values():
            operator = operator_of(stage.step, stage.given.schema)
            writers[stage.number] = RowWriter(
                operator, self.state, self._file_name(number, f"rows-{stage.number}"), stage.watermark, stage.emission
            )
        for to, events in restartable:
            if to in files:
                files[to].add(events)
            else:
                stage = self.following[to]
                report_rejects(restartable, writers[stage.number].add(without_heartbeats(events)), stage.id, stage.reports)
        for file in files.values():
            file.close()
        return with_rows(restartable.receipt, writers)

    def _file_name(self, number: int, what: str) -> str:
        return f"rows-{self.batch.number:012d}-{self.number + 1}-{what}-{number:06d}"

    def _context(self, number: int) -> SplitContext:
        return SplitContext(
            pipeline=self.query.pipeline,
            source=self.query.query,
            partition=str(number),
            split=f"stage-{self.number}-{number:06d}",
            order=number,
            staging_folder=lambda sink: str(ensure_folder(self._staging / "sinks" / sink)),
            segment_number=self.segment_number,
            batch=self.batch,
            stop_file=StopFile(self.query.state.stopping),
            taps=self.query.state.taps,
            spool_folder=self.query.state.spools,
            row_numbered=True,
            read_at=self.read_at / 1e6,
            step=self.id,
        )

    def _rows(
        self, operator: Operator, number: int, arrived: MappedStateFiles, stored: MappedStateFiles
    ) -> Iterator[tuple[PartRows, PartRows]]:
        """The rows of a task, new ones and earlier ones, that are run together: of all its parts if they are few, else of one
        part, or of some keys of a large one."""
        parts = range(number, PARTS, self.tasks)
        reads_many = isinstance(operator, ReadsPanes) and self._reads_many_rows(operator, stored)
        if self.at_once and not reads_many:
            yield arrived.parts(*parts), stored.parts(*parts)
            return
        hashes = hashes_of(operator, self.state.seed)
        for part in parts:
            ranges = ranges_of_part([*arrived.files, *(stored.files if self.reads_all or reads_many else ())], part)
            for at in range(ranges):
                keys = KeyRange(at, ranges, hashes) if ranges > 1 else None
                yield arrived.parts(part, keys=keys), stored.parts(part, keys=keys)
            arrived.release(part)
            stored.release(part)

    def _reads_many_rows(self, operator: ReadsPanes, stored: MappedStateFiles) -> bool:
        """Whether a task reads more rows of panes than are run together."""
        choose = partial(operator.reads_panes, self.clock)
        rows, size = (
            sum(of_file) for of_file in zip((0, 0), *(file.size_of_panes(choose) for file in stored.files), strict=True)
        )
        return rows > self.tasks * MAX_JOINT_ROWS or size > self.tasks * MAX_JOINT_BYTES

    def _results(self, number: int, remembered: RowWriter) -> Iterator[pa.RecordBatch | Rejects]:
        """The results of the parts of a task, numbered in their order, without the time of reading of their events."""
        remembered.clear()
        operator = operator_of(self.step, self.incoming)
        arrived, stored = MappedStateFiles(self.state.folder, self.arrived), MappedStateFiles(self.state.folder, self.stored)
        rows = rejected = 0
        for new, old in self._rows(operator, number, arrived, stored):
            for found in operator.run(self.clock, new, old):
                if isinstance(found, (pa.Table, DroppedEvents)):
                    remembered.add_to_state(found)
                    continue
                results, rejects = split_failed(found) if isinstance(found, pa.RecordBatch) else (None, found)
                if rejects is not None and self.reports:
                    yield replace(rejects, events=_number_events(rejects.events, rejected))
                    rejected += rejects.events.num_rows
                for first in range(0, results.num_rows if results is not None else 0, RESULT_ROWS):
                    assert results is not None
                    batch = results.slice(first, RESULT_ROWS)
                    yield _number_events(batch, rows)
                    rows += batch.num_rows


def split_failed(results: pa.RecordBatch) -> tuple[pa.RecordBatch, Rejects | None]:
    """The results that could be computed, and those with a reason in `FAILED` as rejects."""
    if FAILED not in results.schema.names:
        return results, None
    failed = results.column(FAILED).is_valid()
    plain = results.drop_columns([FAILED])
    rejects = Rejects(plain.filter(failed), RESULT_FAILED, results.column(FAILED).filter(failed)) if failed.true_count else None
    return plain.filter(pc.invert(failed)), rejects


def _number_events(events: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Events of a task with their numbers as offsets, without the time of reading."""
    plain = events.select([name for name in events.schema.names if name not in (ARRIVAL, OFFSET)])
    return plain.append_column(OFFSET, pa.array(np.arange(first, first + plain.num_rows)))
