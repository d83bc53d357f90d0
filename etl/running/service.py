"""Runs pipelines: plans them, prepares all that needs no Spark, starts Spark or uses a shared session, and runs to the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from etl.config.model import Pipeline
from etl.delivery.backoff import RunStopping
from etl.file_modes import private_files
from etl.lean import forbid
from etl.plan.frames import segments, stages
from etl.plan.segments import Segment, StepNode
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.hang_watch import hang_watch
from etl.running.message_log import MessageLogs
from etl.running.messages import Message, OnMessage, name_errors
from etl.running.metrics_server import ListenAddress, all_samples, metrics_server
from etl.running.otlp import exporting
from etl.running.planning import RunRequest, planned_run
from etl.running.run_order import NO_UPSTREAM, upstream_of_each
from etl.running.run_watch import RunWatch
from etl.running.shared_session import SharedSession
from etl.running.supervision import SupervisedRun
from etl.segment import kernel_warmup, preopened_steps
from etl.spark import run_tables, session
from etl.spark.jvm.open_files import allow_files
from etl.spark.masters import check_reachable, cores, is_local, local_master
from etl.spark.reports.log_relay import LogRelay, forward_driver_logs, forward_worker_logs
from etl.spark.reports.totals import Totals
from etl.spark.run import PipelineRun
from etl.spark.running_queries import StartLimiter
from etl.spark.startup import fast_start
from etl.steps.lookup import tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.spark.state.folder import StateFolder

OnTotals = Callable[[Mapping[str, Totals]], None]
"""Takes the totals of each pipeline, a few times a second."""

PlanRun = Callable[[Pipeline, RunRequest, str, bool], PipelineRun]
"""Plans a pipeline, as `planned_run` does."""

FAIR_SHARES = {"spark.scheduler.mode": "FAIR"}
"""Each pipeline is a pool of its own, so that one with a backlog takes the slots that others leave."""

WAITING_PIPELINES = 2
"""Pipelines that may wait for their systems at the same time without holding up others: a task that waits holds its slot. Each
slot that is used costs a Python worker."""

MASTER_SECONDS = 10.0
"""Seconds that Spark may take to start on a cluster before the run reports that."""


class RunService:
    """Pipelines that run together, on one session. Construction plans them; it starts and writes nothing.

    Raises EtlError for the first pipeline that cannot run. ``several``: messages and state folders carry the names of the
    pipelines. With a ``shared`` session the run neither starts nor ends Spark, and forbids no package in this process. ``plan``
    plans each of them.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        request: RunRequest,
        *,
        several: bool = False,
        shared: SharedSession | None = None,
        plan: PlanRun = planned_run,
    ) -> None:
        self.pipelines, self.request, self.several, self._shared = pipelines, request, several, shared
        check_reachable(request.master)
        self._master = master = local_master(request.master)
        self.runs: list[PipelineRun] = []
        for pipeline in pipelines:
            with name_errors(pipeline.name, several):
                self.runs.append(plan(pipeline, request, master, several))
        allow_files(sum(len(run.plan.queries) for run in self.runs))
        self.supervised: list[SupervisedRun] = []
        """The runs over all of their attempts, once they are prepared."""
        at_once = max(_local_cores(master), *(run.mode.parallelism for run in self.runs))
        limiter = StartLimiter(at_once) if shared is None else shared.limiter
        for run in self.runs:
            run.start_limiter = limiter
        self.shares = [DeadLetterShare(run, request.max_dead) for run in self.runs]

    def stop(self) -> None:
        """Stop all pipelines after their micro-batch; callable from any thread and from a signal handler."""
        for run in self.runs:
            run.stop()

    def cancel(self) -> None:
        """Stop all pipelines within their micro-batch, which the next run processes again; callable from any thread."""
        for run in self.runs:
            run.cancel()

    def pause(self) -> None:
        """End all queries after their micro-batch; receivers go on. Callable from any thread, also before `work`."""
        for run in self.runs:
            run.pause()

    def resume(self) -> None:
        """Let the queries go on."""
        for run in self.runs:
            run.resume()

    def work(self, on_message: OnMessage, on_totals: OnTotals = lambda _: None) -> None:
        """Run to the end. Raises EtlError for the first pipeline that has failed for good, after the others have ended.

        Of ``several`` pipelines that follow their sources, one that fails starts again, and the others go on.
        """
        on_message = MessageLogs(self.runs, on_message)
        relay = LogRelay(self.request.log_level, lambda level, text, name: on_message(Message("component", text, level, name)))
        with ExitStack() as stack:
            stack.enter_context(private_files())
            stack.enter_context(forward_driver_logs(relay))
            stages = _Stages(
                service=self, master=self._master, shared=self._shared, on_message=on_message, relay=relay, stack=stack
            )
            try:
                stages.work(on_totals)
            except RunStopping as error:
                on_message(Message("stopped", str(error)))


@dataclass(frozen=True, kw_only=True)
class _Stages:
    """The stages of a run, one method each; a stage adds its clean-up to ``stack``."""

    service: RunService
    master: str
    shared: SharedSession | None
    on_message: OnMessage
    relay: LogRelay
    stack: ExitStack

    @property
    def _runs(self) -> Sequence[PipelineRun]:
        return self.service.runs

    def work(self, on_totals: OnTotals) -> None:
        """All stages; the last runs the queries."""
        supervised = self._supervised()
        self.stack.enter_context(hang_watch(supervised, self.on_message))
        self._prepare(supervised)
        self._listen(supervised)
        if self.shared is None:
            self._announce_start()
        self._build_tables()
        if self.shared is None:
            spark, log = self._start_spark()
        else:
            spark, log = self.shared.started(), self.shared.log
        if any(run.stopped for run in self._runs):
            return
        if self.shared is None:
            fast_start.start_workers(spark, _local_cores(self.master))
        names = [run.plan.pipeline for run in self._runs]
        self.stack.enter_context(forward_worker_logs(log, self.relay, names, from_start=self.shared is None))
        self.on_message(Message("running", f"running {', '.join(names)}: {self._mode_text()}", values={"log": str(log)}))
        watch = RunWatch(
            runs=supervised,
            shares=self.service.shares,
            on_message=self.on_message,
            on_totals=on_totals,
        )
        watch.work_to_end(spark, log)

    def _supervised(self) -> list[SupervisedRun]:
        """The runs, which are not prepared yet."""
        service = self.service
        restarts = service.several and not service.request.once
        upstream = upstream_of_each([run.plan for run in self._runs]) if service.request.once else {}
        supervised = [
            SupervisedRun(run, service.several, restarts, self.on_message, upstream.get(run.plan.pipeline, NO_UPSTREAM))
            for run in self._runs
        ]
        for one in supervised:
            one.outage = partial(self.relay.outage, one.name)
        service.supervised[:] = supervised
        return supervised

    def _prepare(self, supervised: Sequence[SupervisedRun]) -> None:
        """Lock the state folders, start the receivers, and report what the user must know before the start."""
        for one in supervised:
            self.stack.callback(one.close)
            one.prepare()
        for pipeline, run in zip(self.service.pipelines, self._runs, strict=True):
            if not run.is_part and (text := unfinished_replay(pipeline, run.state, self.service.request.state)):
                self.on_message(Message("note", f"note: {text}", "warning", run.plan.pipeline))

    def _listen(self, supervised: Sequence[SupervisedRun]) -> None:
        """Answer requests for metrics and export them, if options say so."""
        if self.service.request.listen is not None:
            address = ListenAddress.parse(self.service.request.listen)
            host, port = self.stack.enter_context(metrics_server(address, supervised))
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            self.on_message(Message("listening", f"metrics at {url}/metrics", values={"url": url}))
        self.stack.enter_context(exporting(self.service.request.otlp, lambda: all_samples(supervised)))

    def _announce_start(self) -> None:
        """Report the start of Spark; from here on this process loads pandas only if its queries need it."""
        if not any(query.maps_frames for run in self._runs for query in run.plan.queries):
            forbid("pandas")
        self.on_message(Message("starting", f"starting Spark ({self.master})", values={"master": self.master}))

    def _build_tables(self) -> None:
        """Build look-up tables, and refresh them while the run lasts."""
        for run in self._runs:
            steps = [
                node.step for part in _segments([run]) for node in kernel_warmup.step_nodes(part) if node.step.named_tables()
            ]
            requests = tables_of(steps) if steps else {}  # the modules that build tables load the compiler of kernels
            report = partial(self._report_table, run.plan.pipeline)
            with name_errors(run.plan.pipeline, self.service.several):
                follows = not self.service.request.once
                refreshed = run_tables.refreshed_tables(requests, run.state.tables, follows, report, run.totals.tables, run.calls)
                self.stack.enter_context(refreshed)

    def _report_table(self, pipeline: str, level: str, text: str) -> None:
        self.on_message(Message("table", text, level, pipeline))

    def _start_spark(self) -> tuple[SparkSession, Path]:
        """Start a session for this run only, with kernels compiled and steps opened for its workers; also returns its log."""
        compiler = kernel_warmup.start_compiling(_segments(self._runs), _stateful(self._runs)) if is_local(self.master) else None
        if compiler is not None:
            text = "compiling for this CPU, once: the first events come up to ten seconds later"
            self.on_message(Message("compiling", text))
            self.stack.callback(compiler.wait)
        log = self._runs[0].state.spark_log
        is_ready = compiler is None and fast_start.is_enabled()
        runs = [(run.plan.pipeline, run) for run in self._runs if is_ready]
        row_wise = ((pipeline, segment) for pipeline, run in runs for segment in _segments([run]))
        stateful = ((pipeline, node) for pipeline, run in runs for node in _stateful([run]))
        preopened_steps.save_steps_to_open(row_wise, log.with_name("open-first.pickle"), stateful)
        spark = self._session(log, compiler is None)
        self.stack.callback(session.stop, spark)
        if compiler is not None:
            compiler.wait()  # workers that start before it ends would compile the same
        return spark, log

    def _session(self, log: Path, compiled: bool) -> SparkSession:
        """Start a session in a thread of its own: Spark then leaves this thread's signals to the caller."""
        with ThreadPoolExecutor(1) as pool:
            spark = pool.submit(
                session.start, "sluice", session_master(self.master, len(self._runs)), self._settings(), log, compiled
            )
            with suppress(ModuleNotFoundError):  # forbidden where no query needs it; else its first micro-batch would load it
                import_module("pandas")
            if not is_local(self.master) and not wait([spark], MASTER_SECONDS).done:
                text = (
                    f"Spark's master {self.master} has not taken the application for {MASTER_SECONDS:g} s; "
                    "Spark tries for a minute"
                )
                self.on_message(Message("starting", text, "warning", values={"master": self.master}))
            return spark.result()

    def _settings(self) -> Mapping[str, str]:
        """Spark's settings; several pipelines get fair shares of the task slots."""
        if len(self._runs) == 1:
            return self.service.request.settings
        return {**FAIR_SHARES, "spark.sql.shuffle.partitions": str(cores(self.master)), **self.service.request.settings}

    def _mode_text(self) -> str:
        if self.service.request.once:
            return "reading what is there"
        if self.shared is not None:
            return "following"
        return "following; Ctrl-C ends it after the current micro-batch"


def session_master(master: str, pipelines: int) -> str:
    """The master; for several pipelines on this machine with slots for the tasks of those that wait for a system."""
    if not is_local(master) or pipelines == 1:
        return master
    _, _, retries = master.strip("]").partition(",")
    slots = cores(master) * (1 + min(pipelines - 1, WAITING_PIPELINES))
    return f"local[{slots},{retries}]" if retries else f"local[{slots}]"


def unfinished_replay(pipeline: Pipeline, state: StateFolder, given: str | None) -> str:
    """What the user must know of a replay of dead letters that was killed: its letters are delivered by nobody else. ``given``
    is the state folder that the user named.
    """
    if not (state.root / "dead" / "replays").exists():
        return ""
    from etl.running.dead_letters.replay import count_open_letters

    letters = count_open_letters(state)
    if not letters:
        return ""
    words = ["etl", "dead", "replay", pipeline.file or pipeline.name, *(["--state", str(state.root)] if given else [])]
    count = f"{letters:,} dead letter{'s' if letters > 1 else ''}"
    return f"a replay of {count} did not end; when this run has ended, `{shlex.join(words)}` finishes it"


def _local_cores(master: str) -> int:
    """The number of tasks that run at once on this machine; 1 on a cluster."""
    return cores(master) if is_local(master) else 1


def _segments(runs: Sequence[PipelineRun]) -> Iterator[Segment]:
    for query in (query for run in runs for query in run.plan.queries):
        yield query.segment
        yield from (segment for segment, _ in segments(query.frame))


def _stateful(runs: Sequence[PipelineRun]) -> Iterator[StepNode]:
    """The steps on the state lane."""
    return (stage.node for run in runs for query in run.plan.queries for stage in stages(query.frame))
