"""Completes the micro-batches of a stateful query in the driver: runs parts in further jobs, and what Spark has to compute."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etl.api import OFFSET, SIDE, BatchId
from etl.expressions import quote_name
from etl.receipts import Receipt
from etl.spark.commit.batch_commit import BatchCompletion
from etl.spark.driver_rows import collect_all, collect_receipts, require_jvm
from etl.spark.lane.arrivals import RowTarget, write_rows_of_partitions
from etl.spark.lane.lane_batch import BatchOutcome, Lane, RunTasks
from etl.spark.lane.result_files import event_file, fields_of, result_files, results_folder, results_of
from etl.spark.lane.spark_steps import apply_after_state, apply_between
from etl.spark.lane.stored_receipts import StoredReceipts
from etl.spark.partitions import run_segment
from etl.steps.heartbeats import ARRIVAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class LaneCompletion:
    """Completes the micro-batches of a stateful query in the driver."""

    lane: Lane
    completion: BatchCompletion

    def __post_init__(self) -> None:
        _ = self.lane.manifests.seed  # chosen before tasks run

    def prepare(self, number: int) -> None:
        """Remove what tasks of an earlier attempt of a micro-batch have stored for each other; called before its tasks run."""
        query = self.lane.query
        StoredReceipts(query.state.staging(query.run_id, query.query, number)).clear()

    def complete(self, session: SparkSession, batch: BatchId, read: Sequence[Receipt]) -> None:
        """Complete a micro-batch whose reading tasks gave these receipts."""
        context = session.sparkContext
        run: RunTasks = lambda work, tasks: collect_all(context.parallelize(range(tasks), tasks).mapPartitions(work))  # noqa: E731
        outcomes = [receipt.outcome for receipt in read if receipt.outcome is not None]
        spark = BatchSparkRunner(self.lane, self.completion, session, batch)
        outcome: BatchOutcome = outcomes[0] if outcomes else self.lane.advance(batch, read, run, spark)
        require_jvm(context)  # a run whose JVM has ended removes files of this micro-batch, which are missing in the outcome then
        self.completion.totals.add_dropped(self.lane.query.query, outcome.late, outcome.over_limit)
        self.completion.complete(batch, outcome.results, outcome.heads, outcome.event_time)
        manifests = self.lane.manifests
        if self.lane.bounded:
            shutil.rmtree(manifests.folder, ignore_errors=True)
        else:
            manifests.write(batch.number, outcome.state)


@dataclass(frozen=True)
class BatchSparkRunner:
    """Runs the steps of one micro-batch that Spark computes, over the files that tasks have written."""

    lane: Lane
    completion: BatchCompletion
    session: SparkSession
    batch: BatchId

    def run_after_state(self, results: Sequence[Receipt]) -> list[Receipt]:
        """Run the steps after the last stage, and the last segment on their results."""
        plan, query = self.completion.query, self.lane.query
        files = result_files(results, results_folder(query, self.batch))
        given = results_of(self.session, files, self.lane.stages[-1].segment.roots[""].outgoing)
        return collect_receipts(run_segment(apply_after_state(plan, given, query), plan.segment, query, plan.parts))

    def run_between(self, number: int, events: Sequence[Receipt], read_at: int, upstream: int | None) -> list[Receipt]:
        """Run the steps that lead to an input of a stage, and write their results as rows for the stage."""
        from pyspark.sql.functions import lit, timestamp_micros

        query, one = self.lane.query, self.lane.inputs[number]
        stage = self.lane.stages[one.stage]
        ordered = sorted(events, key=lambda receipt: (receipt.source, receipt.order))
        files = [event_file(query, self.batch, receipt, number) for receipt in ordered]
        found = apply_between(self.completion.query, one, results_of(self.session, files, fields_of(files[0])), query)
        if ARRIVAL in stage.incoming.names and ARRIVAL not in found.columns:
            found = found.withColumn(ARRIVAL, timestamp_micros(lit(read_at)))
        hidden = [name for name in (OFFSET, SIDE) if name in found.columns]
        needed = found.select(*(quote_name(name) for name in dict.fromkeys((*stage.incoming.names, *hidden))))
        target = RowTarget(
            step=stage.step,
            incoming=stage.incoming,
            id=stage.id,
            reports=stage.reports,
            reports_times=one.reports_times,
            stage=one.stage,
            inputs={one.side: number},
            from_files=True,
            upstream=upstream,
            read_at=read_at if upstream is None else None,
        )
        return collect_receipts(write_rows_of_partitions(needed, query, [target]))
