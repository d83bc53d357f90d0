"""Keeps a pipeline running beside others: one that fails starts again after growing waits, and the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from etl.api import Receiver, Source
from etl.running.messages import Message, OnMessage, name_errors
from etl.running.nothing_to_read import warn_of_missing_input
from etl.running.run_order import NO_UPSTREAM, Upstream
from etl.spark.commit.batch_commit import SinkCommitters
from etl.spark.reports.log_relay import name_logs
from etl.spark.run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_WAIT_SECONDS = 1.0
"""Seconds before the first restart; each further one waits twice as long."""

LONGEST_WAIT_SECONDS = 60.0
"""Maximum seconds before a restart."""

HEALTHY_SECONDS = 300.0
"""An attempt that worked this long before it failed is not part of a series of failures."""

Status: TypeAlias = Literal["starting", "running", "paused", "waiting", "ended", "failed"]
"""``paused``: receivers go on, queries do not; ``waiting``: it starts again after a failure; ``failed``: it does not."""


@dataclass
class SupervisedRun:
    """A run of one pipeline, over all of its attempts."""

    run: PipelineRun
    several: bool
    """Whether other pipelines run beside it."""
    restarts: bool
    """Whether it starts again after a failure."""
    on_message: OnMessage
    upstream: Upstream = NO_UPSTREAM
    """What ends before it begins."""
    status: Status = "starting"
    failures: int = 0
    """Failures after which it started again, or is to."""
    error: str = ""
    """The last failure; empty while it runs."""
    hanging: str = ""
    """A call of one of its components that does not return; empty if none has been running that long."""
    slow: str = ""
    """A call that has been running as long as one that hangs, but may be healthy; empty if none is."""
    outage: Callable[[], str] = str
    """Gives what the run waits for and tries again, such as a sink that is down; empty if nothing."""
    _attempt: ExitStack = field(default_factory=ExitStack)
    """What ends with the attempt: the lock of the state folder, receivers, committers."""
    _commits: SinkCommitters | None = None

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self.run.plan.pipeline

    @property
    def problem(self) -> str:
        """What is or may be wrong now: a call that hangs or takes long, the last failure, or what it waits for."""
        return self.hanging or self.slow or self.error or self.outage()

    def prepare(self) -> None:
        """Lock the state folder, start the receivers, report what the user must know. Raises EtlError."""
        with name_errors(self.name, self.several), name_logs(self.name):
            self._commits = self._attempt.enter_context(self.run.prepared())
            self._attempt.enter_context(_run_receivers(self.run))
        for note in self.run.notes:
            self.on_message(Message("note", f"note: {note}", "warning", self.name))
        warn_of_missing_input(self.run, self.on_message, self.upstream.sources)

    def close(self) -> None:
        """End the attempt: release what `prepare` took."""
        self._commits = None
        self._attempt.close()

    def work(self, session: SparkSession, is_final: Callable[[BaseException], bool]) -> None:
        """Run to the end. Raises the error of an attempt after which it does not start again: ``is_final``, or it was stopped."""
        series = 0
        while True:
            began = time.monotonic()
            try:
                self._work_and_pause(session)
                self.status = "ended"
                return
            except Exception as error:
                self.error = str(error)
                if not self.restarts or self.run.stopped or is_final(error):
                    self.status = "failed"
                    raise
                series = 1 if time.monotonic() - began > HEALTHY_SECONDS else series + 1
                if self._wait_to_restart(error, series):
                    self.status = "failed"
                    raise

    def skip(self) -> None:
        """End without an attempt: it was stopped while it waited for others."""
        self.status = "ended"

    def _work_and_pause(self, session: SparkSession) -> None:
        """Run to the end, with pauses between; the receivers go on meanwhile."""
        self._attempt_once(session)
        while self.run.interrupted:
            self.status = "paused"
            self.on_message(Message("paused", "paused", pipeline=self.name))
            if not self.run.wait_while_paused():
                return
            self.on_message(Message("resumed", "goes on", pipeline=self.name))
            self._attempt_once(session)

    def _attempt_once(self, session: SparkSession) -> None:
        if self._commits is None:
            self.run.renew()
            self.prepare()
        assert self._commits is not None
        self.status, self.error = "running", ""
        try:
            self.run.work(session, self._commits)
        except BaseException:
            self.close()
            raise

    def _wait_to_restart(self, error: Exception, series: int) -> bool:
        """Report a failure, which is one of a series, and wait; returns whether the run was stopped meanwhile."""
        self.close()
        self.status = "waiting"
        self.failures += 1
        wait = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (series - 1))
        text = f"failed: {error}\nit starts again in {wait:g} s; the other pipelines go on"
        self.on_message(Message("failed", text, "error", self.name, {"failures": series, "wait_seconds": wait}))
        return self.run.wait_for_stop(wait)


@contextmanager
def _run_receivers(run: PipelineRun) -> Iterator[None]:
    """Run the receivers of a pipeline's sources. They stop last: events on disk are kept, and dropped ones are counted."""
    with ExitStack() as stack:
        for name, source in run.plan.sources().items():
            if isinstance(source, Source) and source.has_receiver:
                run.state.received(name).mkdir(parents=True, exist_ok=True)
                receiver = run.calls.run(f"the start of source {name!r} ({source.type})", partial(_start_receiver, source))
                stack.callback(_stop_receiver, run, name, receiver)
        yield


def _start_receiver(source: Source) -> Receiver:
    receiver = source.receiver()
    receiver.start()
    return receiver


def _stop_receiver(run: PipelineRun, name: str, receiver: Receiver) -> None:
    run.calls.run(f"the stop of source {name!r}", receiver.stop)
    run.totals.dropped[name] = receiver.dropped()
