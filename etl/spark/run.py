"""One run of a pipeline: lock the state folder, check and repair it, start every query, watch and stop them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etl.api import Offset
from etl.delivery.backoff import RunStopping
from etl.plan.model import Plan, QueryPlan, spark_nodes
from etl.spark import checkpoint, fingerprint
from etl.spark.batch_commit import SinkCommitters
from etl.spark.committed_offsets import read_committed_offsets
from etl.spark.errors import RunError, explained
from etl.spark.mode import Mode
from etl.spark.queries import BatchNotStarted, Queries
from etl.spark.relay import working_for
from etl.spark.reports import Reports
from etl.spark.spool_drain import SpoolDrain
from etl.spark.state import StateFolder, locked, read_json
from etl.spark.streams import Streams, Turns
from etl.spark.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL = 0.1
"""Seconds between two checks of the queries."""

GATHER_EVERY = 5
"""Checks between two readings of Spark's reports; Spark keeps the reports of more micro-batches than that."""


@dataclass
class PipelineRun:
    """A run of a pipeline. ``totals`` may be read at any time."""

    plan: Plan
    state: StateFolder
    mode: Mode
    totals: Totals = field(default_factory=Totals)
    id: str = field(default_factory=lambda: time.strftime("%Y%m%dT%H%M%S-") + uuid.uuid4().hex[:6])
    notes: list[str] = field(default_factory=list)
    """Notes for the user about this run and the checkpoints of earlier ones."""
    committed_offsets: dict[str, Offset] = field(default_factory=dict)
    """Source → the offset that earlier runs have committed; set by `prepared`."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Sink → number of events in its spool at the end of the run."""
    turns: Turns | None = None
    """Shared by the pipelines of a command."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _holds: threading.Event = field(default_factory=threading.Event)
    """Set while this run holds the lock of the state folder."""
    _failed: list[RunError] = field(default_factory=list)
    _reports: Reports = field(init=False)

    def __post_init__(self) -> None:
        self._reports = Reports(self.totals)

    def stop(self) -> None:
        """Ask the run to stop after its current micro-batches, and end all backoffs. May be called from a signal handler."""
        self._stop.set()
        if self._holds.is_set():
            self.state.stopping.touch()

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop."""
        return self._stop.is_set()

    @contextmanager
    def prepared(self) -> Iterator[SinkCommitters]:
        """Lock the state folder, check that it fits the plan, repair the state of a killed run: all that needs no Spark."""
        self.state.prepare()
        with ExitStack() as stack:
            stack.enter_context(locked(self.state))
            stack.enter_context(self._held())
            self.plan, self.notes = fingerprint.match_checkpoints(self.plan, self.state)
            self.notes += [note for query in self.plan.queries for note in checkpoint.mend(self.state, query.name)]
            self.notes += self._own_files_read()
            self.committed_offsets = read_committed_offsets(self.state, self.plan.queries)
            self.state.clear_staging()
            commits = SinkCommitters(self.plan, self.state)
            self.notes += commits.orphaned_spools()
            yield commits
            commits.close()
            self.state.clear_staging()

    def _own_files_read(self) -> list[str]:
        """Errors for sources that would read files which this run writes to its state folder."""
        own = [str(path) for path in (self.state.dead_letters, self.state.spark_log, self.state.metrics)]
        return [
            f"source {name!r} reads {path}, which this run writes: choose a state folder elsewhere (--state), or `exclude` it"
            for name, source in self.plan.sources().items()
            for path in own
            if source.reads(path)
        ]

    @contextmanager
    def _held(self) -> Iterator[None]:
        """While the body runs, `stop` may create the stop file in the state folder."""
        self.state.stopping.unlink(missing_ok=True)
        self._holds.set()
        if self._stop.is_set():
            self.state.stopping.touch()
        try:
            yield
        finally:
            self._holds.clear()
            self.state.stopping.unlink(missing_ok=True)

    def work(self, session: SparkSession, commits: SinkCommitters) -> None:
        """Run all queries to their end. Raises RunError of the first that fails."""
        with working_for(self.plan.pipeline), commits.run_drains(self.state.root / "staging" / self.id, self.totals) as drains:
            self._run(Queries(session, commits, self.plan, self.state, self.mode, self.id, self._reports, self._stop), drains)
            while not (self._failed or self._stop.is_set() or all(drain.settled for drain in drains)):
                self._record_drain_failures(drains)
                time.sleep(POLL)
        self._record_drain_failures(drains)
        self.waiting = commits.waiting()
        if self._failed:
            raise self._failed[0]

    def _run(self, queries: Queries, drains: Sequence[SpoolDrain]) -> None:
        """Run all queries to their end."""
        bounded = [query for query in self.plan.queries if not query.streaming]
        streams = self._start_streams(queries)
        whole = threading.Thread(target=copy_context().run, args=(self._run_whole_queries, queries, bounded), daemon=True)
        whole.start()
        looks = 0
        while not self._failed:
            self._watch(streams)
            if not (whole.is_alive() or streams.active):
                break
            self._record_drain_failures(drains)
            if (looks := looks + 1) % GATHER_EVERY == 0:
                for plan, query in streams:
                    self._reports.gather(plan, query)
            queries.commits.tick()
            time.sleep(POLL)
        if self._failed:
            self.stop()
        for plan, query in streams:
            self._stop_query(plan, query)
        if self._failed:
            queries.session.sparkContext.cancelJobsWithTag(self.id)
        whole.join()  # a query over whole sources is one micro-batch

    def _record_drain_failures(self, drains: Sequence[SpoolDrain]) -> None:
        for drain in drains:
            if drain.failure is not None and not self._failed:
                self._failed.append(RunError(str(drain.failure)))

    def _start_streams(self, queries: Queries) -> Streams:
        """Start all streams; if one fails to start, stop the others."""
        streams = Streams(queries.started, self.turns or Turns(max(self.mode.parallelism, 1)))
        for plan in self.plan.queries:
            if plan.streaming and not (self._failed or self._stop.is_set()):
                try:
                    streams.start(plan)
                except Exception as error:
                    self._fail(plan, error)
        return streams

    def _run_whole_queries(self, queries: Queries, plans: list[QueryPlan]) -> None:
        queries.session.sparkContext.addJobTag(self.id)
        for plan in plans:
            if self._stop.is_set() or self._failed:
                return
            try:
                queries.whole(plan)
            except Exception as error:
                self._fail(plan, error)

    def _watch(self, streams: Streams) -> None:
        """Collect failures; stop idle queries when the run stops or has reached its limit."""
        for plan, query in streams:
            if not query.isActive:
                self._restart_or_fail(streams, plan, query)
            elif (self._stop.is_set() or self._limit_reached(plan)) and not query.status["isTriggerActive"]:
                query.stop()

    def _limit_reached(self, plan: QueryPlan) -> bool:
        if self.state.ended(plan.name).exists():
            return True
        return self.mode.limit is not None and read_json(self.state.query(plan.name) / "limit.json") == 0

    def _stop_query(self, plan: QueryPlan, query: StreamingQuery) -> None:
        """Stop a query after its micro-batch."""
        while query.isActive:
            if not query.status["isTriggerActive"]:
                query.stop()
            time.sleep(POLL)
        self._note_failure(plan, query)
        self._reports.gather(plan, query)

    def _restart_or_fail(self, streams: Streams, plan: QueryPlan, query: StreamingQuery) -> None:
        """Restart a failed query if that helps; otherwise record the failure."""
        error = query.exception()
        try:
            if error is None or self._stop.is_set() or not streams.started_again(plan, error):
                self._note_failure(plan, query)
        except Exception as refused:
            self._fail(plan, refused)

    def _note_failure(self, plan: QueryPlan, query: StreamingQuery) -> None:
        error = query.exception()
        if error is not None:
            self._fail(plan, error)

    def _fail(self, plan: QueryPlan, error: BaseException) -> None:
        """Record a failure, unless it is the way in which a waiting query ends when the run stops."""
        if self._stop.is_set() and any(end.__name__ in str(error) for end in (BatchNotStarted, RunStopping)):
            return
        staging = self.state.root / "staging" / self.id / plan.name
        steps = list(spark_nodes(plan.frame))
        self._failed.append(explained(plan.name, error, staging, self.state.query(plan.name), steps))
