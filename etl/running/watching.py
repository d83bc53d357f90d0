"""Watches pipelines at work, each in a thread: totals and metrics, limits, and the cause of a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.messages import Message, OnMessage, name_errors
from etl.running.metrics import MetricsFile
from etl.spark.commit.batch_commit import SinkCommitters
from etl.spark.jvm.process import EXIT_SECONDS, jvm_status
from etl.spark.reports.errors import explain_jvm_exit
from etl.spark.reports.totals import Totals
from etl.spark.run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCH_SECONDS = 0.2
"""Seconds between two readings of the totals."""


@dataclass(frozen=True, kw_only=True)
class RunWatch:
    """Runs pipelines in threads, and reports and limits them meanwhile."""

    runs: Sequence[PipelineRun]
    shares: Sequence[DeadLetterShare]
    on_message: OnMessage
    on_totals: Callable[[Mapping[str, Totals]], None]
    several: bool
    """Whether errors begin with the name of their pipeline."""

    def work_to_end(self, commits: Sequence[SinkCommitters], session: SparkSession, log: Path) -> None:
        """Run all pipelines. When one fails, the others end after their micro-batch, and its error is raised."""
        failures: list[tuple[PipelineRun, BaseException]] = []

        def work(run: PipelineRun, commit: SinkCommitters) -> None:
            try:
                run.work(session, commit)
            except BaseException as error:
                failures.append((run, error))
                self._stop_all()

        threads = [threading.Thread(target=work, args=pair) for pair in zip(self.runs, commits, strict=True)]
        for thread in threads:
            thread.start()
        self._watch(threads)
        if failures and (gone := _jvm_error(session, failures[0][1], log)):
            raise gone from failures[0][1]
        for run, error in failures[1:]:
            self.on_message(Message("failed", f"error: {error}", "error", run.plan.pipeline))
        for run, error in failures[:1]:
            with name_errors(run.plan.pipeline, self.several):
                raise error

    def _watch(self, threads: Sequence[threading.Thread]) -> None:
        """Report totals and check limits until all threads have ended."""
        totals = {run.plan.pipeline: run.totals for run in self.runs}
        files = [MetricsFile(run.state.metrics, run.plan.pipeline, run.totals) for run in self.runs]
        while alive := [thread for thread in threads if thread.is_alive()]:
            self.on_totals(totals)
            for share in self.shares:
                share.report_new_reasons(self.on_message)
                share.check(self.on_message)
            if any(share.exceeded for share in self.shares):
                self._stop_all()
            for file in files:
                file.write_if_due()
            alive[0].join(WATCH_SECONDS)
        for share in self.shares:
            share.report_new_reasons(self.on_message)
        for file in files:
            file.write()

    def _stop_all(self) -> None:
        for run in self.runs:
            run.stop()


def _jvm_error(session: SparkSession, error: BaseException, log: Path) -> EtlError | None:
    """The error to report when the cause is a JVM that has ended; None while it runs."""
    is_broken = isinstance(error, OSError) or "py4j" in type(error).__module__
    status = jvm_status(session, EXIT_SECONDS if is_broken else 0.0)
    return None if status is None else explain_jvm_exit(status, log)
