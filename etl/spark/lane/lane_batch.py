"""A micro-batch of a stateful query: rows arrive, the watermark advances, parts run, all is committed at once.

The driver runs parts in further jobs of Spark. Where the parts need no more than one task, that of the tasks that read the
micro-batch which ends last runs them itself (the route *inline*): it computes the watermark from what they have read and the
manifest before, so that both routes give the same results under the same names.

The manifest of the micro-batch is written after its results are committed and before Spark's commit. A run that is killed in
between runs the micro-batch again from the manifest before: the same rows are written to the same files, the same results are
staged under the same names, and sinks that have them skip them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from etl.api import NEVER, BatchId, LooksUpKeys, TracksEmitProgress, WatermarkAdvance
from etl.plan.frames import StageInput
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.clocks import BatchClocks, reading_time
from etl.spark.lane.compaction import MergeTask
from etl.spark.lane.lane_stages import Stage
from etl.spark.lane.operators import operator_of
from etl.spark.lane.part_tasks import MAX_JOINT_BYTES, MAX_JOINT_ROWS, NextStage, PartTasks
from etl.spark.lane.result_files import event_file
from etl.spark.query_context import QueryContext
from etl.state.compaction import files_to_merge
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifest, Manifests, StageState, StateFileEntry, files_after_run, span_of

ROWS_PER_TASK = 50_000
"""Rows for which a further task is worth its start, about 45 ms of CPU."""


RunTasks: TypeAlias = Callable[[Callable[[Iterable[int]], Iterable[bytes]], int], list[bytes]]
"""Runs a number of tasks, which are numbered from 0, and returns their results."""


class SparkRunner(Protocol):
    """Runs the steps of a micro-batch that Spark computes. Used in the driver only."""

    def run_after_state(self, results: Sequence[Receipt]) -> list[Receipt]:
        """Run the steps after the last stage, whose tasks gave these receipts. Returns the receipts of the tasks after them."""

    def run_between(self, number: int, events: Sequence[Receipt], read_at: int, upstream: int | None) -> list[Receipt]:
        """Run the steps that lead to an input of a stage, over the files of tasks that gave these receipts. Returns the receipts
        of the tasks that wrote rows for the stage. ``read_at``: the time of reading of events that have none; ``upstream``: the
        stage whose results the events are; None for those of sources."""


class MoreTasksNeeded(Exception):  # noqa: N818
    """Raised in a task that runs parts itself: the driver has to start further tasks, which the parts are worth or Spark runs."""


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
    over_limit: int
    state: Manifest
    event_time: int | None = None
    """The largest one of what was read."""


@dataclass(frozen=True)
class Lane:
    """The stateful steps of a query."""

    stages: Sequence[Stage]
    inputs: Sequence[StageInput]
    query: QueryContext
    bounded: bool = False
    """Whether the query is one micro-batch that holds all events: nothing is remembered, and all windows close."""

    @property
    def manifests(self) -> Manifests:
        """The state of the query."""
        return Manifests(self.query.state.rows(self.query.query), self.query.durable)

    def advance(self, batch: BatchId, read: Sequence[Receipt], run: RunTasks, spark: SparkRunner | None = None) -> BatchOutcome:
        """Run the stages of a micro-batch whose reading tasks gave these receipts; in a task there is no ``spark``."""
        known = Manifest() if self.bounded else self.manifests.read(batch.number - 1)
        reading = max([reading_time(None, known), *(one.read_at for one in read if one.read_at is not None)])
        read = [*read, *self._run_between(batch, None, read, spark, reading)]
        clocks = BatchClocks(self.stages, self.inputs, known, read, self.bounded)
        receipts: list[Receipt] = []
        heads, states = list(read), list[StageState]()
        for number, stage in enumerate(self.stages):
            operator, stored = operator_of(stage.step, stage.incoming), known.stage(number).files
            clock = clocks.of(number)
            arrived = tuple(file for receipt in heads for file in receipt.rows.get(number, ()))
            due = operator.is_due(clock, span_of(arrived), span_of(stored))
            read_at = clocks.results_read_at(number, clock.now)
            receipts = self._run_parts(run, batch, number, clock, arrived, known, read_at) if due else []
            written = tuple(file for receipt in receipts for file in receipt.state)
            after = files_after_run(operator.after_run, stored, arrived, written) if due else (*stored, *arrived)
            files = tuple(file for file in after if not operator.is_over(file.last, clock.now))
            chosen = () if self.bounded else files_to_merge(files, sum(file.rows for file in arrived))
            files = self._merge_files(run, batch, number, files, chosen, clock.now)
            final = operator.final_until(clock.now) if isinstance(operator, TracksEmitProgress) else NEVER
            states.append(StageState(clock.now, files, clock.emission.after(clocks.quiet, final)))
            between = self._run_between(batch, number, receipts, spark, read_at)
            clocks.record_stage(number, operator, clock.now, [*receipts, *between])
            if number + 1 < len(self.stages):
                heads += [*receipts, *between]
        if self.stages[-1].results_to_spark and receipts:
            if spark is None:
                raise MoreTasksNeeded
            heads, receipts = [*heads, *receipts], spark.run_after_state(receipts)
        late, over_limit = (sum(getattr(one, name) for one in (*heads, *receipts)) for name in ("late", "over_limit"))
        heads = [receipt for receipt in heads if receipt.part != NO_SEGMENT]
        times = clocks.times
        state = Manifest(max(times.values()), tuple(states), self.query.parallelism, times, clocks.read_at)
        observed = [one.event_time for one in read if one.silence is None and one.event_time is not None]
        return BatchOutcome(heads, receipts, late, over_limit, state, max(observed, default=None))

    def _run_between(
        self, batch: BatchId, stage: int | None, receipts: Sequence[Receipt], spark: SparkRunner | None, read_at: int
    ) -> list[Receipt]:
        """Let Spark compute the steps between a stage, whose results have this time of reading, or the reading tasks, and the
        next stages."""
        found: list[Receipt] = []
        for number, one in enumerate(self.inputs):
            if one.between is None or (stage not in one.stages if stage is not None else not one.sources):
                continue
            written = [receipt for receipt in receipts if event_file(self.query, batch, receipt, number).exists()]
            if written and spark is None:
                raise MoreTasksNeeded
            found += spark.run_between(number, written, read_at, stage) if spark and written else []
        return found

    def _run_parts(
        self,
        run: RunTasks,
        batch: BatchId,
        number: int,
        clock: WatermarkAdvance,
        arrived: tuple[StateFileEntry, ...],
        known: Manifest,
        read_at: int,
    ) -> list[Receipt]:
        """Run a stage's step over its parts; ``read_at`` is the time of reading of its results."""
        stage = self.stages[number]
        stored, operator = known.stage(number).files, operator_of(stage.step, stage.incoming)
        reads_all = not isinstance(operator, LooksUpKeys) or operator.reads_all(clock, span_of(arrived), span_of(stored))
        to_read = (*arrived, *(stored if reads_all else ()))
        rows = sum(file.rows for file in to_read)
        tasks = max(1, min(known.parallelism or self.query.parallelism, PARTS, rows // ROWS_PER_TASK))
        work = PartTasks(
            query=self.query,
            batch=batch,
            number=number,
            step=stage.step,
            id=stage.id,
            reports=stage.reports,
            incoming=stage.incoming,
            clock=clock,
            read_at=read_at,
            state=self.manifests,
            arrived=arrived,
            stored=stored,
            segment=stage.segment,
            segment_number=stage.segment_number,
            following={to: self._next_stage(after, known) for to, after in stage.following.items()},
            for_spark=stage.for_spark,
            results_to_spark=stage.results_to_spark,
            tasks=tasks,
            reads_all=reads_all,
            at_once=rows <= tasks * MAX_JOINT_ROWS and sum(file.bytes for file in to_read) <= tasks * MAX_JOINT_BYTES,
        )
        return [Receipt.decode(one) for one in run(work, tasks)]

    def _merge_files(
        self,
        run: RunTasks,
        batch: BatchId,
        number: int,
        files: tuple[StateFileEntry, ...],
        chosen: tuple[StateFileEntry, ...],
        watermark: int,
    ) -> tuple[StateFileEntry, ...]:
        """The files of a stage's state, those that are chosen merged into one."""
        if not chosen:
            return files
        stage = self.stages[number]
        name = f"rows-{batch.number:012d}-{number}-merged"
        task = MergeTask(
            step=stage.step,
            incoming=stage.incoming,
            state=self.manifests,
            files=chosen,
            name=name,
            watermark=watermark,
            staging=self.query.state.staging(self.query.run_id, self.query.query, batch.number),
        )
        [receipt] = run(task, 1)
        return (*Receipt.decode(receipt).state, *(file for file in files if file not in chosen))

    def _next_stage(self, number: int, known: Manifest) -> NextStage:
        after = self.stages[number]
        before = known.stage(number)
        return NextStage(number, after.step, after.exchange, before.watermark, before.emission, after.id, after.reports)
