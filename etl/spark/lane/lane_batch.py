"""A micro-batch of a stateful query: rows arrive, the watermark advances, parts run, all is committed at once.

The driver runs parts in further jobs of Spark. Where one task reads the whole micro-batch and the parts need no more than one
task, that task runs them itself (the route *inline*): it computes the watermark from what it has read and the manifest before,
so that both routes give the same results under the same names.

The manifest of the micro-batch is written after its results are committed and before Spark's commit. A run that is killed in
between runs the micro-batch again from the manifest before: the same rows are written to the same files, the same results are
staged under the same names, and sinks that have them skip them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from etl.api import ALWAYS, BatchId, LooksUpKeys, Schema, StatefulStep, WatermarkAdvance
from etl.plan.model import Branch, Map, QueryPlan, Segment, Stateful, Watermark, segments, stages
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.compaction import MergeTask
from etl.spark.lane.operators import operator_of
from etl.spark.lane.part_tasks import NextStage, PartTasks
from etl.spark.partitions import with_actual_types
from etl.spark.query_context import QueryContext
from etl.state.compaction import files_to_merge
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifest, Manifests, StageState, StateFileEntry, files_after_run, span_of

if TYPE_CHECKING:
    from pyspark import SparkContext

    from etl.spark.commit.batch_commit import BatchCompletion


ROWS_PER_TASK = 50_000
"""Rows for which a further task is worth its start, about 45 ms of CPU."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stateful step of a query, and the steps or sinks behind it."""

    step: StatefulStep
    incoming: Schema
    watermark: Watermark
    segment: Segment
    segment_number: int


def stages_of(plan: QueryPlan, incoming: Schema) -> Iterator[Stage]:
    """The stages of a query; ``incoming`` are the fields that reach the first one."""
    lane = stages(plan.frame)
    numbers = {id(segment.roots.get("")): number for number, (segment, _) in enumerate(segments(plan.frame))}
    for here, behind in zip(lane, [*lane[1:], None], strict=True):
        assert isinstance(here.node.step, StatefulStep)
        between = _between(here, behind)
        whole = plan.segment if between is None else Segment({"": between}, {})
        segment = with_actual_types(whole, here.node.step.fields(incoming))
        number = plan.parts if between is None else numbers.get(id(between), NO_SEGMENT)
        yield Stage(step=here.node.step, incoming=incoming, watermark=here.watermark, segment=segment, segment_number=number)
        incoming = segment.roots[""].outgoing


def _between(here: Stateful, behind: Stateful | None) -> Branch | None:
    """The steps between two stages; None behind the last one."""
    if behind is None:
        return None
    return behind.child.branch if isinstance(behind.child, Map) else Branch((), here.node.outgoing, emits=True)


RunTasks: TypeAlias = Callable[[Callable[[Iterable[int]], Iterable[bytes]], int], list[bytes]]
"""Runs so many tasks, which are numbered from 0, and returns what they give."""


class MoreTasksNeeded(Exception):  # noqa: N818
    """Raised in a task that runs parts itself: they are worth further tasks, which the driver starts."""


def run_here(work: Callable[[Iterable[int]], Iterable[bytes]], tasks: int) -> list[bytes]:
    """Run one task in this process. Raises MoreTasksNeeded for several."""
    if tasks > 1:
        raise MoreTasksNeeded
    return list(work(range(tasks)))


@dataclass(frozen=True)
class BatchOutcome:
    """A micro-batch whose parts have run, before anything is committed."""

    heads: list[Receipt]
    """Of all segments but the last one."""
    results: list[Receipt]
    """Of the last segment."""
    late: int
    state: Manifest


@dataclass(frozen=True)
class Lane:
    """The stateful steps of a query."""

    stages: Sequence[Stage]
    query: QueryContext
    bounded: bool = False
    """Whether the query is one micro-batch that holds all events: nothing is remembered, and all windows close."""

    @property
    def manifests(self) -> Manifests:
        """The state of the query."""
        return Manifests(self.query.state.rows(self.query.query), self.query.durable)

    def advance(self, batch: BatchId, read: Sequence[Receipt], run: RunTasks) -> BatchOutcome:
        """Run the stages of a micro-batch whose reading tasks gave these receipts."""
        known = Manifest() if self.bounded else self.manifests.read(batch.number - 1)
        event_time = max([known.event_time, *(r.event_time for r in read if r.event_time is not None)])
        receipts, heads, states, late = list(read), [], [], 0
        watermark: int | None = None
        for number, stage in enumerate(self.stages):
            heads += receipts
            clock = self._clock(stage, known.stage(number).watermark, event_time, watermark)
            arrived = tuple(file for receipt in receipts for file in receipt.rows)
            late += sum(receipt.late for receipt in receipts)
            operator, kept = operator_of(stage.step, stage.incoming), known.stage(number).files
            due = operator.is_due(clock, span_of(arrived), span_of(kept))
            receipts = self._run_parts(run, batch, number, clock, arrived, known) if due else []
            written = tuple(file for receipt in receipts for file in receipt.state)
            after = files_after_run(operator.after_run, kept, arrived, written) if due else (*kept, *arrived)
            files = tuple(file for file in after if not operator.is_over(file.last, clock.now))
            states.append(StageState(clock.now, self._merged(run, batch, number, files, clock.now)))
            watermark = operator.watermark_after(clock.now)
        heads = [receipt for receipt in heads if receipt.part != NO_SEGMENT]
        return BatchOutcome(heads, receipts, late, Manifest(event_time, tuple(states), self.query.parallelism))

    def _clock(self, stage: Stage, before: int, event_time: int, bound: int | None) -> WatermarkAdvance:
        """The watermark of a stage: of events read, less their lateness; behind another stage, what that one guarantees."""
        if self.bounded:
            return WatermarkAdvance(before, ALWAYS)
        now = bound if bound is not None else event_time - round(stage.watermark.late_seconds * 1e6)
        return WatermarkAdvance(before, max(before, now))

    def _run_parts(
        self,
        run: RunTasks,
        batch: BatchId,
        number: int,
        clock: WatermarkAdvance,
        arrived: tuple[StateFileEntry, ...],
        known: Manifest,
    ) -> list[Receipt]:
        """Run a stage's step over its parts."""
        stage = self.stages[number]
        kept, operator = known.stage(number).files, operator_of(stage.step, stage.incoming)
        reads_all = not isinstance(operator, LooksUpKeys) or operator.reads_all(clock, span_of(arrived), span_of(kept))
        rows = sum(file.rows for file in (*arrived, *(kept if reads_all else ())))
        tasks = max(1, min(known.parallelism or self.query.parallelism, PARTS, rows // ROWS_PER_TASK))
        work = PartTasks(
            query=self.query,
            batch=batch,
            number=number,
            step=stage.step,
            incoming=stage.incoming,
            clock=clock,
            state=self.manifests,
            arrived=arrived,
            kept=kept,
            segment=stage.segment,
            segment_number=stage.segment_number,
            following=self._following(number, known),
            tasks=tasks,
            rows=rows,
        )
        return [Receipt.decode(one) for one in run(work, tasks)]

    def _merged(
        self, run: RunTasks, batch: BatchId, number: int, files: tuple[StateFileEntry, ...], watermark: int
    ) -> tuple[StateFileEntry, ...]:
        """The files of a stage's state, small ones merged when there are many."""
        small = () if self.bounded else files_to_merge(files)
        if not small:
            return files
        stage = self.stages[number]
        name = f"rows-{batch.number:012d}-{number}-merged"
        task = MergeTask(
            step=stage.step,
            incoming=stage.incoming,
            state=self.manifests,
            files=small,
            name=name,
            watermark=watermark,
            staging=self.query.state.staging(self.query.run_id, self.query.query, batch.number),
        )
        [receipt] = run(task, 1)
        return (*Receipt.decode(receipt).rows, *(file for file in files if file not in small))

    def _following(self, number: int, known: Manifest) -> NextStage | None:
        if number + 1 == len(self.stages):
            return None
        behind = self.stages[number + 1]
        before = known.stage(number + 1).watermark
        return NextStage(step=behind.step, incoming=behind.incoming, watermark=before, event_time=behind.watermark)


@dataclass
class LaneBatches:
    """Completes the micro-batches of a stateful query in the driver."""

    lane: Lane
    completion: BatchCompletion

    def __post_init__(self) -> None:
        _ = self.lane.manifests.seed  # chosen before tasks run

    def complete(self, context: SparkContext, batch: BatchId, read: Sequence[Receipt]) -> None:
        """Complete a micro-batch whose reading tasks gave these receipts."""
        run: RunTasks = lambda work, tasks: context.parallelize(range(tasks), tasks).mapPartitions(work).collect()  # noqa: E731
        outcomes = [receipt.outcome for receipt in read if receipt.outcome is not None]
        outcome: BatchOutcome = outcomes[0] if outcomes else self.lane.advance(batch, read, run)
        self.completion.totals.add_late(self.lane.query.query, outcome.late)
        self.completion.complete(batch, outcome.results, outcome.heads)
        manifests = self.lane.manifests
        if self.lane.bounded:
            shutil.rmtree(manifests.folder, ignore_errors=True)
        else:
            manifests.write(batch.number, outcome.state)
