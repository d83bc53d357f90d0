"""Watches running pipelines, each in a thread: totals and metrics, limits, and the cause of a failure."""

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
from etl.running.supervision import SupervisedRun
from etl.spark.jvm.process import EXIT_SECONDS, jvm_status
from etl.spark.reports.errors import explain_jvm_exit
from etl.spark.reports.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCH_SECONDS = 0.2
"""Seconds between two readings of the totals."""

PAUSED_SECONDS = 5.0
"""Seconds between two readings while all pipelines are paused: a server may have a thousand of them."""


@dataclass(frozen=True, kw_only=True)
class RunWatch:
    """Runs pipelines in threads, and reports and limits them meanwhile."""

    runs: Sequence[SupervisedRun]
    shares: Sequence[DeadLetterShare]
    on_message: OnMessage
    on_totals: Callable[[Mapping[str, Totals]], None]

    def work_to_end(self, session: SparkSession, log: Path) -> None:
        """Run all pipelines to their end, then raise the error of the first that has failed for good."""
        failures: list[tuple[SupervisedRun, BaseException]] = []

        def is_final(error: BaseException) -> bool:
            return _jvm_error(session, error, log) is not None

        ended = {one.name: threading.Event() for one in self.runs}

        def work(one: SupervisedRun) -> None:
            try:
                if _wait_for_upstream(one, ended):
                    one.work(session, is_final)
                else:
                    one.skip()
            except BaseException as error:
                failures.append((one, error))
            finally:
                ended[one.name].set()

        threads = [threading.Thread(target=work, args=(one,)) for one in self.runs]
        for thread in threads:
            thread.start()
        self._watch(threads)
        if failures and (gone := _jvm_error(session, failures[0][1], log)):
            raise gone from failures[0][1]
        for one, error in failures[1:]:
            self.on_message(Message("failed", f"error: {error}", "error", one.name))
        for one, error in failures[:1]:
            with name_errors(one.name, one.several):
                raise error

    def _watch(self, threads: Sequence[threading.Thread]) -> None:
        """Report totals and check limits until all threads have ended."""
        totals = {one.name: one.run.totals for one in self.runs}
        files = [MetricsFile(one.run.state.metrics, one.name, one.run.totals) for one in self.runs]
        while alive := [thread for thread in threads if thread.is_alive()]:
            self.on_totals(totals)
            for share in self.shares:
                share.report_new_reasons(self.on_message)
                share.check(self.on_message)
            for file in files:
                file.write_if_due()
            is_paused = all(one.status == "paused" for one in self.runs)
            alive[0].join(PAUSED_SECONDS if is_paused else WATCH_SECONDS)
        for share in self.shares:
            share.report_new_reasons(self.on_message)
        for file in files:
            file.write()


def _wait_for_upstream(one: SupervisedRun, ended: Mapping[str, threading.Event]) -> bool:
    """Wait for the end of the pipelines that write what a pipeline reads, failed ones too: what those have written is whole.
    Returns False if it was stopped meanwhile."""
    while not all(ended[name].is_set() for name in one.upstream.pipelines):
        if one.run.wait_for_stop(WATCH_SECONDS):
            return False
    return True


def _jvm_error(session: SparkSession, error: BaseException, log: Path) -> EtlError | None:
    """The error to report when the cause is a JVM that has ended; None while it runs."""
    is_broken = isinstance(error, OSError) or "py4j" in type(error).__module__
    status = jvm_status(session, EXIT_SECONDS if is_broken else 0.0)
    return None if status is None else explain_jvm_exit(status, log)
