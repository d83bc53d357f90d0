"""Pipelines at work, each in a thread: totals and metrics a few times a second, limits, and what a failure came from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.messages import Message, OnMessage, errors_named
from etl.running.metrics import MetricsFile
from etl.spark import session as spark
from etl.spark.batch_commit import SinkCommitters
from etl.spark.errors import jvm_gone
from etl.spark.run import PipelineRun
from etl.spark.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.2
"""Between two looks at the totals."""


def work_to_end(
    runs: Sequence[PipelineRun],
    commits: Sequence[SinkCommitters],
    session: SparkSession,
    log: Path,
    shares: Sequence[DeadLetterShare],
    on_message: OnMessage,
    on_totals: Callable[[Mapping[str, Totals]], None],
    several: bool,
) -> None:
    """Run all pipelines. When one fails the others end after their micro-batch, and its error is raised."""
    failures: list[tuple[PipelineRun, BaseException]] = []

    def work(one: PipelineRun, commit: SinkCommitters) -> None:
        try:
            one.work(session, commit)
        except BaseException as error:
            failures.append((one, error))
            for other in runs:
                other.stop()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, commits, strict=True)]
    for thread in threads:
        thread.start()
    _watch(runs, threads, shares, on_message, on_totals)
    if failures and (gone := _jvm_gone(session, failures[0][1], log)):
        raise gone from failures[0][1]
    for one, error in failures[1:]:
        on_message(Message("failed", f"error: {error}", "error", one.plan.pipeline))
    for one, error in failures[:1]:
        with errors_named(one.plan.pipeline, several):
            raise error


def _watch(
    runs: Sequence[PipelineRun],
    threads: Sequence[threading.Thread],
    shares: Sequence[DeadLetterShare],
    on_message: OnMessage,
    on_totals: Callable[[Mapping[str, Totals]], None],
) -> None:
    """Until all threads have ended."""
    totals = {one.plan.pipeline: one.totals for one in runs}
    files = [MetricsFile(one.state.metrics, one.plan.pipeline, one.totals) for one in runs]
    while alive := [thread for thread in threads if thread.is_alive()]:
        on_totals(totals)
        for share in shares:
            share.look(on_message)
        if any(share.exceeded for share in shares):
            for one in runs:
                one.stop()
        for file in files:
            file.keep()
        alive[0].join(LOOK_SECONDS)
    for file in files:
        file.write()


def _jvm_gone(session: SparkSession, error: BaseException, log: Path) -> EtlError | None:
    """What to report when the error comes from a JVM that is no more."""
    broken = isinstance(error, OSError) or "py4j" in type(error).__module__
    status = spark.jvm_status(session, spark.GONE_SECONDS if broken else 0.0)
    return None if status is None else jvm_gone(status, log)
