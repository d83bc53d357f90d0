"""Completes the micro-batches of a stateful query in the driver: runs parts in further jobs, and what Spark has to compute."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from etl.api import BatchId
from etl.receipts import Receipt
from etl.spark.commit.batch_commit import BatchCompletion
from etl.spark.lane.lane_batch import BatchOutcome, Lane, RunTasks
from etl.spark.lane.result_files import result_files, results_folder, results_of
from etl.spark.lane.spark_behind import apply_behind
from etl.spark.partitions import run_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class LaneBatches:
    """Completes the micro-batches of a stateful query in the driver."""

    lane: Lane
    completion: BatchCompletion

    def __post_init__(self) -> None:
        _ = self.lane.manifests.seed  # chosen before tasks run

    def complete(self, session: SparkSession, batch: BatchId, read: Sequence[Receipt]) -> None:
        """Complete a micro-batch whose reading tasks gave these receipts."""
        context = session.sparkContext
        run: RunTasks = lambda work, tasks: context.parallelize(range(tasks), tasks).mapPartitions(work).collect()  # noqa: E731
        outcomes = [receipt.outcome for receipt in read if receipt.outcome is not None]
        spark = partial(self._run_spark, session, batch)
        outcome: BatchOutcome = outcomes[0] if outcomes else self.lane.advance(batch, read, run, spark)
        self.completion.totals.add_late(self.lane.query.query, outcome.late)
        self.completion.complete(batch, outcome.results, outcome.heads)
        manifests = self.lane.manifests
        if self.lane.bounded:
            shutil.rmtree(manifests.folder, ignore_errors=True)
        else:
            manifests.write(batch.number, outcome.state)

    def _run_spark(self, session: SparkSession, batch: BatchId, results: Sequence[Receipt]) -> list[Receipt]:
        """Let Spark compute the steps behind the last stage, and run the last segment on what it gives."""
        plan, query = self.completion.query, self.lane.query
        files = result_files(results, results_folder(query, batch))
        given = results_of(session, files, self.lane.stages[-1].segment.roots[""].outgoing)
        found = run_segment(apply_behind(plan, given, query), plan.segment, query, plan.parts)
        return [Receipt.decode(bytes(row.receipt)) for row in found.collect()]
