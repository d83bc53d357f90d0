"""One Spark session for many runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError
from etl.spark import session as spark
from etl.spark.jvm.process import jvm_status
from etl.spark.masters import cores
from etl.spark.reports.errors import explain_jvm_exit
from etl.spark.run import PipelineRun
from etl.spark.running_queries import StartLimiter
from etl.spark.startup import fast_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RETRY_SECONDS = 30.0
"""Seconds after a failed start of Spark in which runs fail as it did; then the next run tries again."""


class SharedSession:
    """A Spark session that starts with the first run that needs it and serves all runs until `stop`.

    Its workers know the environment variables of the moment at which it started. ``on_start`` is called before it starts.
    """

    def __init__(
        self,
        name: str,
        master: str,
        log: Path,
        settings: Mapping[str, str] | None = None,
        on_start: Callable[[], None] = lambda: None,
        at_once: int = 0,
    ) -> None:
        """``at_once``: how many queries start at the same time; 0 is one for each task slot."""
        self.master = master
        self.log = log
        """Where the JVM and its workers print."""
        self.limiter = StartLimiter(at_once or cores(master))
        """Limits how many queries of all runs start at the same time."""
        self._name, self._settings, self._on_start = name, settings or {}, on_start
        self._session: SparkSession | None = None
        self._failure: EtlError | None = None
        """Why the last start failed."""
        self._retry_at = 0.0
        """When a start is tried again, on the monotonic clock."""
        self._starting = threading.Lock()

    def started(self) -> SparkSession:
        """The session, for any thread. Raises EtlError when Spark does not start, or did not within `RETRY_SECONDS`."""
        with self._starting:
            if self._failure is not None and time.monotonic() < self._retry_at:
                raise self._failure
            if self._session is None:
                self._on_start()
                try:
                    self._session = spark.start(self._name, self.master, self._settings, self.log)
                except EtlError as error:
                    self._failure, self._retry_at = error, time.monotonic() + RETRY_SECONDS
                    raise
                fast_start.start_workers(self._session, cores(self.master))
            return self._session

    def delay_start(self) -> AbstractContextManager[object]:
        """While the body runs, Spark does not start. Its Python processes share the memory of the modules that this process has
        loaded when it starts: what the first pipelines need is to be loaded before."""
        return self._starting

    def run(self, run: PipelineRun) -> None:
        """Run a plan that is ready to its end. Raises RunError of the first query that fails."""
        session = self.started()
        with run.prepared() as commits:
            run.work(session, commits)

    def jvm_error(self) -> EtlError | None:
        """Why the session does not work any more; None while its JVM runs, or has not started."""
        status = None if self._session is None else jvm_status(self._session)
        return None if status is None else explain_jvm_exit(status, self.log)

    def stop(self) -> None:
        """End the session, if it has started, also if its JVM has ended."""
        if self._session is not None:
            spark.stop(self._session)
            self._session = None
