"""One run of a pipeline: locks the state folder, checks and repairs it, starts the queries, watches and stops them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from etl.api import ComponentError, Offset
from etl.delivery.backoff import RunStopping
from etl.delivery.driver_calls import DriverCalls, HungCallError
from etl.plan.frames import spark_nodes
from etl.plan.query_plan import Plan, QueryPlan
from etl.spark.backlog import read_lags
from etl.spark.commit.batch_commit import SinkCommitters
from etl.spark.commit.spool_drain import SpoolDrain
from etl.spark.planner_clock import PlannerClock
from etl.spark.queries import BatchNotStarted, Queries
from etl.spark.reports.errors import RunError, explain_error
from etl.spark.reports.log_relay import name_logs
from etl.spark.reports.progress import ProgressReports
from etl.spark.reports.totals import Totals
from etl.spark.run_signals import RunSignals
from etl.spark.running_queries import RunningQueries, StartLimiter
from etl.spark.state.checkpoint import read_committed_offsets, repair_checkpoint
from etl.spark.state.fingerprint import match_checkpoints
from etl.spark.state.folder import StateFolder, StateLock, lock_state
from etl.spark.state.json_files import read_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.1
"""Seconds between two checks of the queries."""

POOL = "spark.scheduler.pool"
"""The local property of a thread whose jobs share the cores fairly with those of other pools."""

GATHER_INTERVAL = 5
"""Number of checks between two readings of Spark's progress reports; Spark stores more reports than appear in that time."""


@dataclass(frozen=True, kw_only=True)
class RunMode:
    """How much a run reads, and when it ends. Bytes and milliseconds are limits of one micro-batch."""

    once: bool = False
    drain: bool = False
    limit: int | None = None
    trigger_millis: int = 500
    max_batch_bytes: int = 4 << 30
    parallelism: int = 1
    durable: bool = True
    """Whether the state of stateful steps survives a power failure."""
    max_ahead_seconds: float | None = None
    """How far event times may be ahead of the time of reading; None for tests, whose events have times of any year."""
    max_commit_seconds: float = 1800.0
    """How long one call of a sink, source or look-up table may take."""
    clock: PlannerClock | None = None
    """The clock of a test; None for that of the machine."""


def _new_id() -> str:
    return time.strftime("%Y%m%dT%H%M%S-") + uuid.uuid4().hex[:6]


@dataclass
class PipelineRun:
    """A run of a pipeline. ``totals`` may be read at any time."""

    plan: Plan
    state: StateFolder
    mode: RunMode
    new_state: tuple[str, ...] = ()
    """Stateful steps that begin with empty state."""
    is_part: bool = False
    """Whether the plan is a part of the pipeline, whose other sinks may have spools."""
    totals: Totals = field(default_factory=Totals)
    id: str = field(default_factory=_new_id)
    notes: list[str] = field(default_factory=list)
    """Notes for the user about this run and the checkpoints of earlier ones."""
    committed_offsets: dict[str, Offset] = field(default_factory=dict)
    """Source → the offset that earlier runs have committed; set by `prepared`."""
    calls: DriverCalls = field(default_factory=DriverCalls)
    """Calls of components in this process that are running."""
    spooled: dict[str, int] = field(default_factory=dict)
    """Sink → number of events in its spool at the end of the run."""
    start_limiter: StartLimiter | None = None
    """Limits how many queries start at the same time, over all pipelines of a command."""
    _bounded_done: set[str] = field(default_factory=set)
    """Bounded queries that this run has completed: neither a pause nor a further attempt runs them again."""
    signals: RunSignals = field(init=False)
    """What other threads ask of the run."""
    _failed: list[RunError] = field(default_factory=list)
    _lock: StateLock | None = None
    """The lock of the state folder, from `prepared` on."""
    _reports: ProgressReports = field(init=False)
    _planned: Plan = field(init=False)
    """The plan before its queries got the names of their checkpoints."""

    def __post_init__(self) -> None:
        self.signals = RunSignals(self.state.stopping)
        self._reports = ProgressReports(self.totals)
        self._planned = self.plan

    def stop(self) -> None:
        """Stop the run after its current micro-batches, and end all backoffs. May be called from a signal handler."""
        self.signals.stop()

    def cancel(self) -> None:
        """Stop the run without waiting for its current micro-batches, which the next run processes again. From any thread."""
        self.signals.cancel()

    def pause(self) -> None:
        """End the queries after their current micro-batches, and keep all else: lock, receivers, committers. From any thread."""
        self.signals.pause()

    def resume(self) -> None:
        """Let a paused run go on; callable from any thread."""
        self.signals.resume()

    def wait_while_paused(self) -> bool:
        """Wait until the run is resumed or stopped; returns whether it goes on. Call it when `work` was ``interrupted``."""
        self.signals.wait_while_paused()
        self.id = _new_id()
        return not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self.signals.is_stopped

    @property
    def interrupted(self) -> bool:
        """Whether the queries end, or have ended, because of a pause."""
        return self.signals.interrupted

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait until `stop` is called, at most this long; returns whether it was."""
        return self.signals.wait_for_stop(seconds)

    def renew(self) -> None:
        """Make a run that has failed ready for another attempt; its totals go on."""
        self.plan, self.id = self._planned, _new_id()
        self.notes.clear()
        self._failed.clear()
        self.signals.reset()

    @contextmanager
    def prepared(self) -> Iterator[SinkCommitters]:
        """Lock the state folder, check that it fits the plan, repair the state of a killed run: all that needs no Spark."""
        self.state.prepare()
        with ExitStack() as stack:
            self._lock = stack.enter_context(lock_state(self.state))
            stack.enter_context(self.signals.owning_folder())
            self.plan, self.notes = match_checkpoints(self.plan, self.state, self.new_state)
            self.notes += [note for query in self.plan.queries for note in repair_checkpoint(self.state, query.name)]
            self.notes += self._warnings_about_own_files()
            self.committed_offsets = read_committed_offsets(self.state, self.plan.queries)
            self.state.clear_staging()
            self.state.remove_taps()
            commits = SinkCommitters(self.plan, self.state, self.calls)
            if not self.is_part:
                self.notes += commits.orphaned_spools()
            yield commits
            commits.close()
            self.state.clear_staging()

    def _warnings_about_own_files(self) -> list[str]:
        """Notes about sources that read files which this run writes to its state folder."""
        own = [str(path) for path in (self.state.dead_letters, self.state.spark_log, self.state.metrics)]
        return [
            f"source {name!r} reads {path}, which this run writes: choose a state folder elsewhere (--state), or `exclude` it"
            for name, source in self.plan.sources().items()
            for path in own
            if source.reads(path)
        ]

    def work(self, session: SparkSession, commits: SinkCommitters) -> None:
        """Run all queries to their end. Raises RunError of the first that fails."""
        session.sparkContext.setLocalProperty(POOL, self.plan.pipeline)  # threads of its queries inherit it
        with name_logs(self.plan.pipeline), commits.run_drains(self.state.root / "staging" / self.id, self.totals) as drains:
            self._run(self._queries(session, commits), drains)
            while not (self._failed or self.signals.queries_end.is_set() or all(drain.is_settled for drain in drains)):
                self._record_drain_failures(drains)
                time.sleep(POLL_SECONDS)
        self._record_drain_failures(drains)
        self.spooled = commits.count_spooled()
        if self._failed:
            raise self._failed[0]

    def _queries(self, session: SparkSession, commits: SinkCommitters) -> Queries:
        return Queries(
            session=session,
            commits=commits,
            plan=self.plan,
            state=self.state,
            mode=self.mode,
            run_id=self.id,
            reports=self._reports,
            stop=self.signals.queries_end,
        )

    def _run(self, queries: Queries, drains: Sequence[SpoolDrain]) -> None:
        """Run all queries to their end."""
        bounded = self._bounded_left()
        running = self._start_queries(queries)
        bounded_queries = threading.Thread(
            target=copy_context().run, args=(self._run_bounded_queries, queries, bounded), daemon=True
        )
        bounded_queries.start()
        polls = 0
        while not self._failed:
            self._watch(running)
            if not (bounded_queries.is_alive() or running.are_active):
                break
            self._record_drain_failures(drains)
            if (polls := polls + 1) % GATHER_INTERVAL == 0:
                for plan, query in running:
                    self._reports.gather(plan, query)
                    read_lags(self.state, plan, self.totals)
                self._check_lock(queries)
            if self.signals.is_cancelled:
                queries.session.sparkContext.cancelJobsWithTag(self.id)
            self._tick(queries.commits)
            time.sleep(POLL_SECONDS)
        if self._failed:
            self.signals.end_queries()
        for plan, query in running:
            self._stop_query(plan, query)
        if self._failed:
            queries.session.sparkContext.cancelJobsWithTag(self.id)
        bounded_queries.join()  # it ends soon: a bounded query has only one micro-batch

    def _check_lock(self, queries: Queries) -> None:
        """End a run whose state folder was removed or replaced, within its micro-batch: it would write into that of another."""
        try:
            if self._lock is not None:
                self._lock.check()
        except ComponentError as error:
            self._failed.append(RunError(str(error)))
            queries.session.sparkContext.cancelJobsWithTag(self.id)

    def _tick(self, commits: SinkCommitters) -> None:
        """Let sinks do their periodic work. A failure, such as that of a call that was interrupted, ends the queries in order:
        the next attempt takes over what they leave."""
        try:
            commits.tick()
        except Exception as error:
            self._failed.append(RunError(str(error) or type(error).__name__))

    def _bounded_left(self) -> list[QueryPlan]:
        return [query for query in self.plan.queries if not query.streaming and query.name not in self._bounded_done]

    def _record_drain_failures(self, drains: Sequence[SpoolDrain]) -> None:
        for drain in drains:
            if drain.failure is not None and not self._failed:
                self._failed.append(RunError(str(drain.failure)))

    def _start_queries(self, queries: Queries) -> RunningQueries:
        """Start all queries; if one fails to start, stop the others."""
        running = RunningQueries(
            partial(self._start_query, queries), self.start_limiter or StartLimiter(max(self.mode.parallelism, 1))
        )
        for plan in self.plan.queries:
            if plan.streaming and not (self._failed or self.signals.queries_end.is_set()):
                try:
                    running.start(plan)
                except Exception as error:
                    self._fail(plan, error)
        return running

    def _start_query(self, queries: Queries, plan: QueryPlan) -> StreamingQuery:
        """Start a query. Spark may have begun one whose start was interrupted: it is stopped before another attempt starts it."""
        try:
            return self.calls.run(f"the start of query {plan.name!r}", lambda: queries.start(plan))
        except HungCallError:
            queries.stop_begun(plan)
            raise

    def _run_bounded_queries(self, queries: Queries, plans: list[QueryPlan]) -> None:
        for plan in plans:
            if self.signals.queries_end.is_set() or self._failed:
                return
            try:
                queries.session.sparkContext.addJobTag(self.id)  # fails, too, if the JVM has been killed
                queries.run_bounded(plan)
                self._bounded_done.add(plan.name)
            except Exception as error:
                self._fail(plan, error)

    def _watch(self, running: RunningQueries) -> None:
        """Collect failures; stop idle queries when the run stops or has reached its limit."""
        for plan, query in running:
            if not query.isActive:
                self._restart_or_fail(running, plan, query)
            elif (self.signals.queries_end.is_set() or self._is_limit_reached(plan)) and self._may_end(query):
                query.stop()

    def _is_limit_reached(self, plan: QueryPlan) -> bool:
        if not plan.spark_reads and all(self.state.ended(plan.name, read).exists() for read in plan.split_reads):
            return True
        return self.mode.limit is not None and read_json(self.state.query(plan.name) / "limit.json") == 0

    def _may_end(self, query: StreamingQuery) -> bool:
        """Whether a query is between two micro-batches, or is not to complete the current one."""
        return self.signals.is_cancelled or not query.status["isTriggerActive"]

    def _stop_query(self, plan: QueryPlan, query: StreamingQuery) -> None:
        """Stop a query after its micro-batch."""
        while query.isActive:
            if self._may_end(query):
                query.stop()
            time.sleep(POLL_SECONDS)
        self._note_failure(plan, query)
        self._reports.gather(plan, query)

    def _restart_or_fail(self, running: RunningQueries, plan: QueryPlan, query: StreamingQuery) -> None:
        """Restart a failed query if that helps; otherwise record the failure."""
        error = query.exception()
        try:
            if error is None or self.signals.queries_end.is_set() or not running.try_restart(plan, error):
                self._note_failure(plan, query)
        except Exception as refused:
            self._fail(plan, refused)

    def _note_failure(self, plan: QueryPlan, query: StreamingQuery) -> None:
        error = query.exception()
        if error is not None:
            self._fail(plan, error)

    def _fail(self, plan: QueryPlan, error: BaseException) -> None:
        """Record a failure, except errors of a query that was cancelled, or ends its backoff because the run stops."""
        if self.signals.is_cancelled:
            return
        if self.signals.queries_end.is_set() and any(end.__name__ in str(error) for end in (BatchNotStarted, RunStopping)):
            return
        staging = self.state.root / "staging" / self.id / plan.name
        steps = list(spark_nodes(plan.frame))
        self._failed.append(explain_error(plan.name, error, staging, self.state.query(plan.name), steps))
