"""Runs pipelines: plans them, prepares all that needs no Spark, starts Spark or takes a session, and works to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from etl.config.model import Pipeline
from etl.delivery.backoff import RunStopping
from etl.file_modes import private_files
from etl.lean import forbid
from etl.plan.model import Segment, segments
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.messages import Message, OnMessage, errors_named
from etl.running.nothing_to_read import warn_of_nothing
from etl.running.planning import RunRequest, planned_run
from etl.running.receivers import receiving
from etl.running.shared_session import SharedSession
from etl.running.watching import work_to_end
from etl.segment import kernel_warmup, preopened_steps
from etl.spark import run_tables
from etl.spark import session as spark
from etl.spark.batch_commit import SinkCommitters
from etl.spark.limits import allow_files
from etl.spark.masters import check_reachable
from etl.spark.relay import LogRelay, driver_logs_forwarded, follow, working_for
from etl.spark.run import PipelineRun
from etl.spark.streams import Turns
from etl.spark.totals import Totals
from etl.steps.lookup import tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnTotals = Callable[[Mapping[str, Totals]], None]
"""Takes the totals of each pipeline, a few times a second."""

MASTER_SECONDS = 10.0
"""How long Spark may take to start on a cluster before that is reported."""


class RunService:
    """Pipelines that run together, on one session. Planning them is all that construction does: it starts and writes nothing.

    Raises EtlError for the first pipeline that cannot run. ``several``: messages and state folders are named after the
    pipelines. With a ``shared`` session the run neither starts nor ends Spark, and keeps nothing out of this process.
    """

    def __init__(
        self, pipelines: Sequence[Pipeline], request: RunRequest, *, several: bool = False, shared: SharedSession | None = None
    ) -> None:
        self.request, self.several, self._shared = request, several, shared
        check_reachable(request.master)
        self._master = master = spark.local_master(request.master)
        self.runs: list[PipelineRun] = []
        for pipeline in pipelines:
            with errors_named(pipeline.name, several):
                self.runs.append(planned_run(pipeline, request, master, several))
        allow_files(sum(len(one.plan.queries) for one in self.runs))
        cores = spark.cores(master) if spark.is_local(master) else 1
        turns = Turns(max(cores, *(one.mode.parallelism for one in self.runs)))
        for one in self.runs:
            one.turns = turns
        self.shares = [DeadLetterShare(one, request.max_dead) for one in self.runs]

    def stop(self) -> None:
        """Ask all pipelines to end after their micro-batch; callable from any thread and from a signal handler."""
        for one in self.runs:
            one.stop()

    def work(self, on_message: OnMessage, on_totals: OnTotals = lambda _: None) -> None:
        """Run to the end. Raises EtlError for the first pipeline that fails; the others end after their micro-batch."""
        relay = LogRelay(self.request.log_level, lambda level, text, name: on_message(Message("component", text, level, name)))
        with ExitStack() as stack:
            stack.enter_context(private_files())
            stack.enter_context(driver_logs_forwarded(relay))
            try:
                _Start(self, self._master, self._shared, on_message, relay, stack).work(on_totals)
            except RunStopping as error:
                on_message(Message("stopped", str(error)))


class _Start:
    """One start: each method is a stage, and leaves on the stack what ends it."""

    def __init__(
        self,
        service: RunService,
        master: str,
        shared: SharedSession | None,
        on_message: OnMessage,
        relay: LogRelay,
        stack: ExitStack,
    ) -> None:
        self._service, self._runs, self._several = service, service.runs, service.several
        self._master, self._shared = master, shared
        self._report, self._relay, self._stack = on_message, relay, stack

    def work(self, on_totals: OnTotals) -> None:
        """All stages; the queries' own is the last."""
        commits = self._prepared()
        if self._shared is None:
            self._announce()
        self._keep_tables()
        session, log = self._started() if self._shared is None else (self._shared.started(), self._shared.log)
        if any(one.stopped for one in self._runs):
            return
        if self._shared is None:
            spark.warm(session, spark.cores(self._master) if spark.is_local(self._master) else 1)
        earlier = 0 if self._shared is None else log.stat().st_size  # what the workers logged for other runs
        self._stack.enter_context(follow(log, self._relay, earlier))
        names = ", ".join(one.plan.pipeline for one in self._runs)
        self._report(Message("running", f"running {names}: {self._how()}", values={"log": str(log)}))
        work_to_end(self._runs, commits, session, log, self._service.shares, self._report, on_totals, self._several)

    def _prepared(self) -> list[SinkCommitters]:
        """State folders are held, receivers listen; what deserves a word before the start is reported."""
        commits = []
        for one in self._runs:
            with errors_named(one.plan.pipeline, self._several), working_for(one.plan.pipeline):
                commits.append(self._stack.enter_context(one.prepared()))
        self._stack.enter_context(receiving(self._runs, self._several))
        for one in self._runs:
            for note in one.notes:
                self._report(Message("note", f"note: {note}", "warning", one.plan.pipeline))
            warn_of_nothing(one, self._report)
        return commits

    def _announce(self) -> None:
        """From here on this process loads only what its queries need."""
        if all(query.frame is None for one in self._runs for query in one.plan.queries):
            forbid("pandas")
        self._report(Message("starting", f"starting Spark ({self._master})", values={"master": self._master}))

    def _keep_tables(self) -> None:
        """Look-up tables are read, and kept up to date while the run lasts."""
        for one in self._runs:
            steps = [
                node.step for part in _segments([one]) for node in kernel_warmup.step_nodes(part) if node.step.named_tables()
            ]
            wanted = tables_of(steps) if steps else {}  # what reads tables loads the compiler of kernels
            report = partial(self._report_table, one.plan.pipeline)
            with errors_named(one.plan.pipeline, self._several):
                refreshed = run_tables.refreshed_tables(
                    wanted, one.state.tables, not self._service.request.once, report, one.totals.tables
                )
                self._stack.enter_context(refreshed)

    def _report_table(self, pipeline: str, level: str, text: str) -> None:
        self._report(Message("table", text, level, pipeline))

    def _started(self) -> tuple[SparkSession, Path]:
        """A session of this run's own, with what its workers need ready, and the log of its processes."""
        compiler = kernel_warmup.start_compiling(_segments(self._runs)) if spark.is_local(self._master) else None
        if compiler is not None:
            text = "compiling for this CPU, once: the first events come up to ten seconds later"
            self._report(Message("compiling", text))
            self._stack.callback(compiler.wait)
        log = self._runs[0].state.spark_log
        by_pipeline = ((one.plan.pipeline, segment) for one in self._runs for segment in _segments([one]))
        preopened_steps.save_steps_to_open(by_pipeline if compiler is None else (), log.with_name("open-first.pickle"))
        session = self._session(log, compiler is None)
        self._stack.callback(spark.stop, session)
        if compiler is not None:
            compiler.wait()  # workers that start before it ends would compile the same
        return session, log

    def _session(self, log: Path, compiled: bool) -> SparkSession:
        """Started in a thread of its own: Spark then leaves this one's signals to the caller."""
        with ThreadPoolExecutor(1) as pool:
            session = pool.submit(spark.start, "sluice", self._master, self._service.request.settings, log, compiled)
            with suppress(ModuleNotFoundError):  # forbidden where no query needs it; else its first micro-batch would load it
                import_module("pandas")
            if not spark.is_local(self._master) and not wait([session], MASTER_SECONDS).done:
                taken = f"has not taken the application for {MASTER_SECONDS:g} s; Spark tries for a minute"
                text = f"Spark's master {self._master} {taken}"
                self._report(Message("starting", text, "warning", values={"master": self._master}))
            return session.result()

    def _how(self) -> str:
        if self._service.request.once:
            return "reading what is there"
        return "following; Ctrl-C ends it after the micro-batch at work"


def _segments(runs: Sequence[PipelineRun]) -> Iterator[Segment]:
    for query in (query for one in runs for query in one.plan.queries):
        yield query.segment
        yield from (segment for segment, _ in segments(query.frame))
