"""One run of a pipeline: lock, check, recover, start every query, watch them, stop them after their micro-batch."""

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
from etl.spark.queries import Queries, RunStops
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
"""Seconds between two looks at the queries."""

GATHER_EVERY = 5
"""Looks between two readings of Spark's reports: fewer micro-batches than it keeps."""


@dataclass
class PipelineRun:
    """A pipeline at work. ``totals`` may be read at any time."""

    plan: Plan
    state: StateFolder
    mode: Mode
    totals: Totals = field(default_factory=Totals)
    id: str = field(default_factory=lambda: time.strftime("%Y%m%dT%H%M%S-") + uuid.uuid4().hex[:6])
    notes: list[str] = field(default_factory=list)
    """What the user should know about this run and the last one's checkpoints."""
    committed_offsets: dict[str, Offset] = field(default_factory=dict)
    """Source → where earlier runs came to, once `prepared`."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Sink → events that wait in its spool when the run has ended."""
    turns: Turns | None = None
    """Shared by the pipelines of a command."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _holds: threading.Event = field(default_factory=threading.Event)
    """Set while the state folder is ours."""
    _failed: list[RunError] = field(default_factory=list)
    _reports: Reports = field(init=False)

    def __post_init__(self) -> None:
        self._reports = Reports(self.totals)

    def stop(self) -> None:
        """Ask for an end after the running micro-batches; callable from a signal handler. Who waits, waits no more."""
        self._stop.set()
        if self._holds.is_set():
            self.state.stopping.touch()

    @property
    def stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    @contextmanager
    def prepared(self) -> Iterator[SinkCommitters]:
        """Hold the state folder, check that it fits, recover what a killed run left: all that needs no Spark."""
        self.state.prepare()
        with ExitStack() as stack:
            stack.enter_context(locked(self.state))
            stack.enter_context(self._held())
            self.plan, self.notes = fingerprint.fit(self.plan, self.state)
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
        """What sources would read of what this run itself writes to its state folder."""
        own = [str(path) for path in (self.state.dead_letters, self.state.spark_log, self.state.metrics)]
        return [
            f"source {name!r} reads {path}, which this run writes: choose a state folder elsewhere (--state), or `exclude` it"
            for name, source in self.plan.sources().items()
            for path in own
            if source.reads(path)
        ]

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The folder is ours: `stop` may leave its mark there."""
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
                self._note_drains(drains)
                time.sleep(POLL)
        self._note_drains(drains)
        self.waiting = commits.waiting()
        if self._failed:
            raise self._failed[0]

    def _run(self, queries: Queries, drains: Sequence[SpoolDrain]) -> None:
        """Run all queries to their end."""
        bounded = [query for query in self.plan.queries if not query.streaming]
        streams = self._all_started(queries)
        whole = threading.Thread(target=copy_context().run, args=(self._all_once, queries, bounded), daemon=True)
        whole.start()
        looks = 0
        while not self._failed:
            self._look_after(streams)
            if not (whole.is_alive() or streams.active):
                break
            self._note_drains(drains)
            if (looks := looks + 1) % GATHER_EVERY == 0:
                for plan, query in streams:
                    self._reports.gather(plan, query)
            queries.commits.tick()
            time.sleep(POLL)
        if self._failed:
            self.stop()
        for plan, query in streams:
            self._ended(plan, query)
        if self._failed:
            queries.session.sparkContext.cancelJobsWithTag(self.id)
        whole.join()  # a source read as a whole is one micro-batch

    def _note_drains(self, drains: Sequence[SpoolDrain]) -> None:
        for drain in drains:
            if drain.failure is not None and not self._failed:
                self._failed.append(RunError(str(drain.failure)))

    def _all_started(self, queries: Queries) -> Streams:
        """Start the streams; one that cannot be started ends those before it."""
        streams = Streams(queries.started, self.turns or Turns(max(self.mode.parallelism, 1)))
        for plan in self.plan.queries:
            if plan.streaming and not (self._failed or self._stop.is_set()):
                try:
                    streams.start(plan)
                except Exception as error:
                    self._fail(plan, error)
        return streams

    def _all_once(self, queries: Queries, plans: list[QueryPlan]) -> None:
        queries.session.sparkContext.addJobTag(self.id)
        for plan in plans:
            if self._stop.is_set() or self._failed:
                return
            try:
                queries.whole(plan)
            except Exception as error:
                self._fail(plan, error)

    def _look_after(self, streams: Streams) -> None:
        """Collect failures; end idle queries when the run stops or has read what it may."""
        for plan, query in streams:
            if not query.isActive:
                self._mend(streams, plan, query)
            elif (self._stop.is_set() or self._used_up(plan)) and not query.status["isTriggerActive"]:
                query.stop()

    def _used_up(self, plan: QueryPlan) -> bool:
        if self.state.ended(plan.name).exists():
            return True
        return self.mode.limit is not None and read_json(self.state.query(plan.name) / "limit.json") == 0

    def _ended(self, plan: QueryPlan, query: StreamingQuery) -> None:
        """Wait for a query's micro-batch and end it."""
        while query.isActive:
            if not query.status["isTriggerActive"]:
                query.stop()
            time.sleep(POLL)
        self._note_failure(plan, query)
        self._reports.gather(plan, query)

    def _mend(self, streams: Streams, plan: QueryPlan, query: StreamingQuery) -> None:
        """Start a query again where that helps; note why it failed where not."""
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
        """Note a failure, unless it is how a query that waits or has yet to begin a micro-batch ends with the run."""
        if self._stop.is_set() and any(end.__name__ in str(error) for end in (RunStops, RunStopping)):
            return
        staging = self.state.root / "staging" / self.id / plan.name
        steps = list(spark_nodes(plan.frame))
        self._failed.append(explained(plan.name, error, staging, self.state.query(plan.name), steps))
