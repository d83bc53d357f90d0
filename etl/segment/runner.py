"""Running a segment over one split: steps, fan-out, rejects, delivery; its result is a receipt.

Batches are pushed down the tree of branches. Steps are compiled once a task; a batch is never copied to be counted.
Texts travel as views as far as steps and sinks take them, and are made ordinary strings once where one does not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import NO_BATCH, OFFSET, BatchId, Counting, Outcome, Rejects, Schema, Task
from etl.columns.texts import owned, text_bytes
from etl.delivery.dead_letters import dead_letters
from etl.delivery.detour import Detour
from etl.delivery.identities import LetterIdentities
from etl.delivery.opening import opened, with_detour
from etl.delivery.outlet import Outlet
from etl.delivery.spool import SinkSpool
from etl.delivery.waiting import NEVER, Ending
from etl.plan.model import Output, Segment, Watermark
from etl.receipts import LONGEST_EXAMPLE, Counts, Receipt, Rejected
from etl.segment.compiled import Compiled
from etl.segment.event_time import EventTime


@dataclass(frozen=True, kw_only=True)
class SplitContext:
    """Which split a segment runs over, in which pipeline and where it may stage."""

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
    ending: Ending = NEVER
    """Whether the run is to end: who waits for a sink looks now and then."""
    spool_folder: Path | None = None
    """Parent folder of all sinks' spools; None: no sink has a spool."""
    row_numbered: bool = False
    """True for results of Spark: their offsets count rows of the micro-batch and mean nothing outside of it."""
    ordered: bool = True
    """Whether the offsets of the split's events grow (`Source.ordered`)."""

    def identity(self, sink: str, number: int) -> str:
        """What the identities of a sink's events begin with; ``number`` tells its occurrences in the segment apart."""
        of = [self.batch.query, str(self.batch.number), str(self.segment_number)] if self.row_numbered else []
        parts = [self.pipeline, sink, str(number), self.source, self.partition, *of]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def task(self, output: Output, number: int, ordered: bool) -> Task:
        """What a sink is told; ``number`` as for `identity`."""
        split = f"{self.split}-{number}" if number else self.split
        name, identity = output.name, self.identity(output.name, number)
        folder = self.staging_folder(name)
        return Task(
            self.pipeline, name, split, folder, output.schema, self.batch, identity, self.segment_number, self.order, ordered
        )


class SegmentRun:
    """One split's way through a segment."""

    def __init__(
        self,
        segment: Segment,
        root: str,
        context: SplitContext,
        dead: Output,
        emits: Schema | None = None,
        watermark: Watermark | None = None,
    ) -> None:
        self.context = context
        self.receipt = Receipt(context.source, context.split, context.order, context.segment_number)
        self._dead = dead
        self._letters = LetterIdentities(context.identity(dead.name, 0))
        self._outputs = segment.outputs
        self._counts_source = segment.counts_source.get(root, True)
        self._outlets: list[Outlet | Detour] = []
        self._rejected: Outlet | Detour | None = None
        self._emits = emits
        self._emitted: list[pa.RecordBatch] = []
        self._clock = EventTime(watermark) if watermark else None
        self._counting: dict[int, Counting] = {}
        try:
            self._push = Compiled(segment.roots[root], self)
        except BaseException:
            self._abort()
            raise

    def over(self, batches: Iterable[pa.RecordBatch | Rejects]) -> Iterator[pa.RecordBatch]:
        """Run everything; yields what goes to Spark, then (with a watermark) a heartbeat. Ends with the receipt complete."""
        began = time.perf_counter()
        self.receipt.began = time.time()
        try:
            for batch in batches:
                self._take(batch)
                for outlet in self._open_outlets():
                    outlet.tick()
                yield from self._emitted
                self._emitted.clear()
            self._close()
        except BaseException:
            self._abort()
            raise
        self.receipt.counted = {place: step.counts() for place, step in self._counting.items()}
        if self._clock is not None and self._emits is not None and self._clock.latest is not None:
            self.receipt.event_time = self._clock.latest
            yield self._clock.heartbeat(self._emits)
        self.receipt.seconds = time.perf_counter() - began

    def _take(self, batch: pa.RecordBatch | Rejects) -> None:
        read = self.receipt.read
        if isinstance(batch, Rejects):
            rows = batch.events.num_rows
            read.came += rows
            read.dead += rows
            if self._counts_source:
                self.reject(batch, f"source {self.context.source}")
            return
        read.came += batch.num_rows
        read.left += batch.num_rows
        self.receipt.bytes_read += _bytes(batch)
        if self._clock is not None:
            self._clock.look_at_end(batch, self._push)
        self._push(batch)

    def reject(self, rejects: Rejects, at: str) -> None:
        """Send rejected events to the dead letters."""
        if self._rejected is None:
            self._rejected = self._open(self._dead, lambda _: None, ordered=False)
        context = self.context
        rejects = replace(rejects, events=owned(rejects.events))
        letters = dead_letters(rejects, context.pipeline, at, context.source, context.partition)
        self.receipt.rejected.setdefault((at, rejects.code), Rejected()).add(_rejected(letters))
        self._rejected.take(self._letters.added(letters, at, rejects.code) if self._dead.sink.identified else letters)

    def emit(self, batch: pa.RecordBatch) -> None:
        """Hand events without views to Spark; an event without a time cannot go where a watermark rules."""
        assert self._emits is not None
        if self._clock is not None:
            batch = self._timed(self._clock.stamped(batch))
            self._clock.look(batch)
        self.receipt.emitted += batch.num_rows
        if batch.num_rows:
            self._emitted.append(batch.select([*self._emits.names, OFFSET]))

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self._clock is not None
        times = batch.column(self._clock.field)
        if not times.null_count:
            return batch
        untimed = times.is_null()
        self.receipt.untimed += untimed.true_count
        reason = f"{self._clock.field} is null, and the window behind needs an event time"
        self.reject(Rejects(batch.filter(untimed), "no-event-time", reason), "window")
        return batch.filter(pc.invert(untimed))

    def outlet(self, name: str) -> Outlet | Detour:
        """Open a sink for this split."""
        refuse = lambda rejects: self.reject(rejects, f"sink {name}")  # noqa: E731
        outlet = self._open(self._outputs[name], refuse, ordered=self.context.ordered and not self.context.row_numbered)
        self._outlets.append(outlet)
        self.receipt.sinks.append(outlet.delivered)
        return outlet

    def counts(self, step: Callable[[pa.RecordBatch], Outcome]) -> Counts:
        """A new counter for a step, in walking order."""
        if isinstance(step, Counting):
            self._counting[len(self.receipt.steps)] = step
        self.receipt.steps.append(Counts())
        return self.receipt.steps[-1]

    def _open(self, output: Output, reject: Callable[[Rejects], None], ordered: bool) -> Outlet | Detour:
        context, name = self.context, output.name
        number = sum(other.name == name for other in self._outlets)
        task = context.task(output, number, ordered)
        if context.spool_folder is None:
            return opened(output.sink, task, reject, context.ending)
        path = Path(context.staging_folder(f"{name}.spool"), task.split)
        spool, read = SinkSpool(context.spool_folder / name), (context.source, context.partition)
        return with_detour(output.sink, task, reject, context.ending, spool, read, path)

    def _close(self) -> None:
        for outlet in self._outlets:
            self._keep(outlet)  # what a sink refuses while closing goes to the dead letters: they close last
        if self._rejected is not None:
            self._keep(self._rejected)

    def _keep(self, outlet: Outlet | Detour) -> None:
        staged = outlet.close()
        if staged is not None:
            self.receipt.staged.setdefault(outlet.name, []).append(staged)
        if isinstance(outlet, Detour) and outlet.spooled is not None:
            self.receipt.spooled.setdefault(outlet.name, []).append(outlet.spooled)

    def _abort(self) -> None:
        for outlet in self._open_outlets():
            outlet.abort()

    def _open_outlets(self) -> Iterable[Outlet | Detour]:
        return self._outlets if self._rejected is None else [*self._outlets, self._rejected]


def _rejected(letters: pa.RecordBatch) -> Rejected:
    """How many dead letters these are, and what the first says."""
    if not letters.num_rows:
        return Rejected()
    reason, example = letters.column("reason")[0].as_py(), letters.column("event")[0].as_py()
    return Rejected(letters.num_rows, reason or "", (example or "")[:LONGEST_EXAMPLE])


def _bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch but for its offsets; of views only the texts, not the blocks they point into."""
    columns = [column for column, name in zip(batch.columns, batch.schema.names, strict=True) if name != OFFSET]
    return sum(text_bytes(column) if column.type == pa.string_view() else column.nbytes for column in columns)
