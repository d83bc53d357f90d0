"""Running a segment over one split: steps, fan-out, rejects, delivery. The result is a receipt.

Batches are pushed down the tree of branches. Steps are opened once a task. Texts stay string views as long as steps and sinks
accept them, and are converted to ordinary strings once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import NO_BATCH, OFFSET, BatchId, CountingOperator, Outcome, Rejects, Task
from etl.columns.texts import materialize, sum_text_bytes
from etl.delivery.backoff import NEVER_STOPS, StopFile
from etl.delivery.dead_letters import dead_letters
from etl.delivery.identities import DeadLetterIdentities
from etl.delivery.sink_writer import SinkWriter
from etl.delivery.spool import SinkSpool
from etl.delivery.spooling_writer import SpoolingSinkWriter
from etl.delivery.writer_opening import open_spooling_writer, open_writer
from etl.expressions.random_values import TaskScope, task_scope
from etl.plan.frames import Exchange
from etl.plan.segments import Output, Segment
from etl.receipts import LONGEST_EXAMPLE, Counts, Receipt, RejectCount
from etl.segment.compiled_branch import CompiledBranch
from etl.segment.event_time import BatchTails, EventTime
from etl.segment.taps import Taps

NO_EXCHANGES: Mapping[int, Exchange] = MappingProxyType({})
"""What a segment emits that ends in sinks."""


@dataclass(frozen=True, kw_only=True)
class SplitContext:
    """The split that a segment runs over, its pipeline and micro-batch, and the folders for staged output."""

    pipeline: str
    source: str
    partition: str
    split: str
    order: int
    staging_folder: Callable[[str], str]
    """Sink name → its staging folder for this micro-batch, made on demand."""
    segment_number: int = 0
    """Number of the segment in its query, as in receipts."""
    batch: BatchId = NO_BATCH
    stop_file: StopFile = NEVER_STOPS
    """Asks the run to stop; checked while a sink is retried."""
    spool_folder: Path | None = None
    """Parent folder of all sinks' spools; None: no sink has a spool."""
    row_numbered: bool = False
    """True for results of Spark: their offsets count rows of the micro-batch and mean nothing outside of it."""
    ordered: bool = True
    """Whether the offsets of the split's events grow (`Source.ordered`)."""
    read_at: float | None = None
    """The time of reading, seconds since the epoch: of a micro-batch, so that one that runs again has the same; None is now."""
    max_ahead_seconds: float | None = None
    """How far event times may be ahead of it; None for any."""
    taps: Path | None = None
    """Folder of the requests for samples (`etl.segment.taps`); None: nobody can ask for them."""
    step: str = ""
    """The step whose results the split holds; empty for events of a source."""

    def identity(self, sink: str, number: int) -> str:
        """Prefix of the identities of a sink's events; ``number`` counts the sink's occurrences in the segment."""
        micro_batch = [self.batch.query, str(self.batch.number), str(self.segment_number)] if self.row_numbered else []
        parts = [self.pipeline, sink, str(number), self.source, self.partition, *micro_batch]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def scope(self) -> TaskScope:
        """The scope of expressions: unlike sinks, they have other random values in another query."""
        micro_batch = [str(self.batch.number), str(self.segment_number)] if self.row_numbered else []
        parts = [self.pipeline, self.batch.query, self.source, self.partition, *micro_batch]
        return TaskScope("\0".join(parts), self.read_at)

    def task(self, output: Output, number: int, ordered: bool) -> Task:
        """The task for a sink; ``number`` as in `identity`."""
        return Task(
            pipeline=self.pipeline,
            sink=output.name,
            split=f"{self.split}-{number}" if number else self.split,
            folder=self.staging_folder(output.name),
            schema=output.schema,
            batch=self.batch,
            identity=self.identity(output.name, number),
            part=self.segment_number,
            order=self.order,
            ordered=ordered,
        )


class SegmentRun:
    """Runs one split through a segment: opens its steps and sinks, processes batches, counts, and closes the sinks."""

    def __init__(
        self,
        segment: Segment,
        root: str,
        context: SplitContext,
        dead_letter_output: Output,
        emits: Mapping[int, Exchange] = NO_EXCHANGES,
    ) -> None:
        """``emits``: the exchanges that branches emit to, by number (`Branch.to`)."""
        self.context = context
        self.scope = context.scope()
        self.receipt = Receipt(context.source, context.split, context.order, context.segment_number)
        self._dead_letter_output = dead_letter_output
        self._letter_identities = DeadLetterIdentities(context.identity(dead_letter_output.name, 0))
        self._outputs = segment.outputs
        self._counts_source = segment.counts_source.get(root, True)
        self._sink_writers: list[SinkWriter | SpoolingSinkWriter] = []
        self._dead_letter_writer: SinkWriter | SpoolingSinkWriter | None = None
        ends = {branch.to for branch in segment.roots[root].walk() if branch.emits}
        self._emits = {number: given.schema for number, given in emits.items()}
        self._emitted: list[tuple[int, pa.RecordBatch]] = []
        self._event_times = {
            number: EventTime(given.watermark, context.read_at, context.max_ahead_seconds)
            for number, given in emits.items()
            if given.watermark and number in ends
        }
        self._counting: dict[int, CountingOperator] = {}
        self.taps = Taps.open(context.taps)
        try:
            self._push = CompiledBranch(segment.roots[root], self)
            self._tails = BatchTails(self._push, self._event_times.values())
        except BaseException:
            self._abort()
            raise

    def process(self, batches: Iterable[pa.RecordBatch | Rejects]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Process all batches; yield what the segment emits, then (with a watermark) a heartbeat, each with the number of its
        exchange. Completes ``receipt``."""
        began = time.perf_counter()
        self.receipt.began = time.time()
        try:
            for batch in batches:
                with task_scope(self.scope):
                    self._process_batch(batch)
                for sink_writer in self._open_writers():
                    sink_writer.tick()
                yield from self._emitted
                self._emitted.clear()
            with task_scope(self.scope):
                self._tails.observe()
            self._close()
            if self.taps is not None:
                self.taps.write()
        except BaseException:
            self._abort()
            raise
        self.receipt.measures = {index: step.measures() for index, step in self._counting.items()}
        for number, time_ in self._event_times.items():
            if time_.latest is not None:
                self.receipt.event_times[number] = time_.latest
                yield number, time_.heartbeat(self._emits[number])
        self.receipt.seconds = time.perf_counter() - began

    def _process_batch(self, batch: pa.RecordBatch | Rejects) -> None:
        read = self.receipt.read
        if isinstance(batch, Rejects):
            rows = batch.events.num_rows
            read.incoming += rows
            read.dead += rows
            if self._counts_source:
                self.reject(batch, self.context.step or f"source {self.context.source}")
            return
        read.incoming += batch.num_rows
        read.left += batch.num_rows
        self.receipt.bytes_read += _bytes(batch)
        self._tails.add(batch)
        if self.taps is not None and self._counts_source:
            self.taps.take(self.context.step or f"source {self.context.source}", batch)
        self._push(batch)

    def reject(self, rejects: Rejects, at: str) -> None:
        """Write rejected events to the dead letters; ``at`` is the step, sink or source that rejected them."""
        if self._dead_letter_writer is None:
            self._dead_letter_writer = self._open(self._dead_letter_output, lambda _: None, ordered=False)
        context = self.context
        rejects = replace(rejects, events=materialize(rejects.events))
        letters = dead_letters(rejects, context.pipeline, at, context.source, context.partition)
        self.receipt.rejected.setdefault((at, rejects.code), RejectCount()).add(_summary(letters))
        self._dead_letter_writer.write(
            self._letter_identities.add_to(letters, at, rejects.code) if self._dead_letter_output.sink.identified else letters
        )

    def emit(self, batch: pa.RecordBatch, number: int = 0, reports_times: bool = True) -> None:
        """Collect events for an exchange, without string views. With a watermark, events without event time are rejected;
        ``reports_times``: as dead letters of this query."""
        event_time = self._event_times.get(number)
        if event_time is not None:
            batch = self._check_times(event_time.with_arrival_time(batch), event_time, reports_times)
            event_time.observe(batch)
        self.receipt.emitted += batch.num_rows
        if batch.num_rows:
            self._emitted.append((number, batch.select([*self._emits[number].names, OFFSET])))

    def _check_times(self, batch: pa.RecordBatch, event_time: EventTime, reports: bool) -> pa.RecordBatch:
        times = batch.column(event_time.field)
        if times.null_count:
            reason = f"{event_time.field} is null, and a later step goes by event time"
            batch = self._reject_times(batch, times.is_null(), reports, "no-event-time", reason)
        wrong = event_time.out_of_range(batch)
        if wrong is None:
            return batch
        return self._reject_times(batch, wrong, reports, "event-time-out-of-range", event_time.range_text)

    def _reject_times(self, batch: pa.RecordBatch, wrong: pa.Array, reports: bool, code: str, reason: str) -> pa.RecordBatch:
        """Reject these rows as events without a usable event time, and write them to the dead letters unless another query does;
        returns the others."""
        rejected = batch.filter(wrong)
        if reports:
            self.reject_emitted(Rejects(rejected, code, reason), "event time")
        else:
            self.receipt.not_taken += rejected.num_rows
            self.receipt.unreported += rejected.num_rows
        return batch.filter(pc.invert(wrong))

    def reject_emitted(self, rejects: Rejects, at: str) -> None:
        """Write events to the dead letters that the segment emits, and that the step downstream rejects."""
        self.receipt.not_taken += rejects.events.num_rows
        self.reject(rejects, at)

    def accepts_any_order(self, name: str) -> bool:
        """Whether a sink accepts events in any order."""
        return self._outputs[name].sink.any_order

    def open_sink_writer(self, name: str) -> SinkWriter | SpoolingSinkWriter:
        """Open a sink of the segment for this split."""
        reject = lambda rejects: self.reject(rejects, f"sink {name}")  # noqa: E731
        sink_writer = self._open(self._outputs[name], reject, ordered=self.context.ordered and not self.context.row_numbered)
        self._sink_writers.append(sink_writer)
        self.receipt.sinks.append(sink_writer.delivered)
        return sink_writer

    def counts(self, step: Callable[[pa.RecordBatch], Outcome]) -> Counts:
        """A new counter for a step; counters are in the order in which branches are walked."""
        if isinstance(step, CountingOperator):
            self._counting[len(self.receipt.steps)] = step
        self.receipt.steps.append(Counts())
        return self.receipt.steps[-1]

    def _open(self, output: Output, reject: Callable[[Rejects], None], ordered: bool) -> SinkWriter | SpoolingSinkWriter:
        context, name = self.context, output.name
        number = sum(other.name == name for other in self._sink_writers)
        task = context.task(output, number, ordered)
        if context.spool_folder is None:
            return open_writer(output.sink, task, reject, context.stop_file)
        path = Path(context.staging_folder(f"{name}.spool"), task.split)
        spool, read = SinkSpool(context.spool_folder / name), (context.source, context.partition)
        return open_spooling_writer(output.sink, task, reject, context.stop_file, spool, read, path)

    def _close(self) -> None:
        for sink_writer in self._sink_writers:
            self._close_writer(sink_writer)  # a sink may reject events while closing: dead letters close last
        if self._dead_letter_writer is not None:
            self._close_writer(self._dead_letter_writer)

    def _close_writer(self, sink_writer: SinkWriter | SpoolingSinkWriter) -> None:
        staged = sink_writer.close()
        if staged is not None:
            self.receipt.staged.setdefault(sink_writer.name, []).append(staged)
        if isinstance(sink_writer, SpoolingSinkWriter) and sink_writer.spooled is not None:
            self.receipt.spooled.setdefault(sink_writer.name, []).append(sink_writer.spooled)

    def _abort(self) -> None:
        for sink_writer in self._open_writers():
            sink_writer.abort()

    def _open_writers(self) -> Iterable[SinkWriter | SpoolingSinkWriter]:
        return self._sink_writers if self._dead_letter_writer is None else [*self._sink_writers, self._dead_letter_writer]


def _summary(letters: pa.RecordBatch) -> RejectCount:
    """The number of these dead letters, with the reason and text of the first."""
    if not letters.num_rows:
        return RejectCount()
    reason, example = letters.column("reason")[0].as_py(), letters.column("event")[0].as_py()
    return RejectCount(letters.num_rows, reason or "", (example or "")[:LONGEST_EXAMPLE])


def _bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch without its offsets; of string views the texts only, not the blocks that they point into."""
    columns = [column for column, name in zip(batch.columns, batch.schema.names, strict=True) if name != OFFSET]
    return sum(sum_text_bytes(column) if column.type == pa.string_view() else column.nbytes for column in columns)
