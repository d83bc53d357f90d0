"""One run of a pipeline: lock, check, recover, start every query, watch them, stop them after their micro-batch."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from etl.api import BatchId
from etl.delivery.waiting import RunEnds
from etl.plan.model import Plan, QueryPlan, Read, Segment, leaves
from etl.receipts import Receipt
from etl.spark import fingerprint
from etl.spark.commit import Batches, Commits
from etl.spark.drain import Drain
from etl.spark.errors import RunError, explained
from etl.spark.frames import arrow_schema, build, observed, receipts, retyped
from etl.spark.job import Job
from etl.spark.reports import Reports
from etl.spark.splits import splits_source
from etl.spark.state import State, locked, read_json, write_json
from etl.spark.streams import Streams
from etl.spark.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL = 0.1
"""Seconds between two looks at the queries."""


@dataclass(frozen=True)
class Mode:
    """How far a run goes."""

    once: bool = False
    drain: bool = False
    limit: int | None = None
    trigger_millis: int = 500
    max_batch_bytes: int = 4 << 30
    parallelism: int = 1


GATHER_EVERY = 5
"""Looks between two readings of Spark's reports: fewer micro-batches than it keeps."""


class _Stopping(Exception):  # noqa: N818
    """Raised in front of a micro-batch that a stopping run leaves to the next."""


@dataclass
class Run:
    """A pipeline at work. ``totals`` may be read at any time."""

    plan: Plan
    state: State
    mode: Mode
    totals: Totals = field(default_factory=Totals)
    id: str = field(default_factory=lambda: time.strftime("%Y%m%dT%H%M%S-") + uuid.uuid4().hex[:6])
    notes: list[str] = field(default_factory=list)
    """What the user should know about this run and the last one's checkpoints."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Sink → events that wait in its spool when the run has ended."""
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
    def prepared(self) -> Iterator[Commits]:
        """Hold the state folder, check that it fits, recover what a killed run left: all that needs no Spark."""
        self.state.prepare()
        with ExitStack() as stack:
            stack.enter_context(locked(self.state))
            stack.enter_context(self._held())
            self.plan, self.notes = fingerprint.fit(self.plan, self.state)
            self.state.clear_staging()
            commits = Commits(self.plan, self.state)
            self.notes += commits.left_behind()
            yield commits
            commits.close()
            self.state.clear_staging()

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

    def work(self, session: SparkSession, commits: Commits) -> None:
        """Run all queries to their end. Raises RunError of the first that fails."""
        with commits.draining(self.state.root / "staging" / self.id, self.totals) as drains:
            self._queries(session, commits, drains)
            while not (self._failed or self._stop.is_set() or all(drain.settled for drain in drains)):
                self._note_drains(drains)
                time.sleep(POLL)
        self._note_drains(drains)
        self.waiting = commits.waiting()
        if self._failed:
            raise self._failed[0]

    def _queries(self, session: SparkSession, commits: Commits, drains: Sequence[Drain]) -> None:
        """Run all queries to their end."""
        bounded = [query for query in self.plan.queries if not query.streaming]
        streams = self._all_started(session, commits)
        whole = threading.Thread(target=self._all_once, args=(session, commits, bounded), daemon=True)
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
            commits.tick()
            time.sleep(POLL)
        if self._failed:
            self.stop()
        for plan, query in streams:
            self._ended(plan, query)
        if self._failed:
            session.sparkContext.cancelJobsWithTag(self.id)
        whole.join()  # a source read as a whole is one micro-batch

    def _note_drains(self, drains: Sequence[Drain]) -> None:
        for drain in drains:
            if drain.failure is not None and not self._failed:
                self._failed.append(RunError(str(drain.failure)))

    def _all_started(self, session: SparkSession, commits: Commits) -> Streams:
        """Start the streams; one that cannot be started ends those before it."""
        streams = Streams(partial(self._started, session, commits), max(self.mode.parallelism, 1))
        for plan in self.plan.queries:
            if plan.streaming and not self._failed:
                try:
                    streams.start(plan)
                except Exception as error:
                    self._fail(plan, error)
        return streams

    def _started(self, session: SparkSession, commits: Commits, plan: QueryPlan) -> StreamingQuery:
        job = self._job(plan)
        frame, segment = self._frame(session, plan, job)
        batches = Batches(replace(plan, segment=segment), job, commits, self.totals)

        def batch_done(frame: DataFrame, number: int) -> None:
            if self._stop.is_set():
                raise _Stopping
            query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            rows = (receipts(frame, segment, job, plan.parts) if plan.frame is not None else frame).collect()
            batches.done(BatchId(query or plan.name, number), [Receipt.decode(bytes(row.receipt)) for row in rows])

        trigger = {"availableNow": True} if self.mode.once else {"processingTime": f"{self.mode.trigger_millis} milliseconds"}
        writer = frame.writeStream.queryName(plan.name).foreachBatch(batch_done).outputMode(plan.output_mode)
        checkpoint = self.state.checkpoint(plan.name).as_uri()
        return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()

    def _frame(self, session: SparkSession, plan: QueryPlan, job: Job) -> tuple[DataFrame, Segment]:
        if plan.frame is None:
            source = splits_source(job, plan.sources, plan.segment, None)
            session.dataSource.register(source)
            return session.readStream.format(source.name()).load(), plan.segment
        frame = build(plan.frame, session, job)
        return frame, retyped(plan.segment, arrow_schema(frame))

    def _all_once(self, session: SparkSession, commits: Commits, plans: list[QueryPlan]) -> None:
        session.sparkContext.addJobTag(self.id)
        for plan in plans:
            if self._stop.is_set() or self._failed:
                return
            try:
                self._once(session, commits, plan)
            except Exception as error:
                self._fail(plan, error)

    def _once(self, session: SparkSession, commits: Commits, plan: QueryPlan) -> None:
        """A query over sources that end by themselves: one micro-batch. A killed run is repeated under its number."""
        path = self.state.query(plan.name) / "runs.json"
        known = {"done": 0, "id": uuid.uuid4().hex, **(read_json(path) or {})}
        number = known["done"]
        write_json(path, known)  # sinks tell runs apart by the id: a query begun anew is another one
        batch = BatchId(f"whole-{plan.name}-{known['id']}", number)
        job = replace(self._job(plan), whole=batch)
        frame, segment = self._frame(session, plan, job)
        ran = receipts(frame, segment, job, plan.parts)
        rows = ran.collect()
        batches = Batches(replace(plan, segment=segment), job, commits, self.totals)
        batches.done(batch, [Receipt.decode(bytes(row.receipt)) for row in rows])
        self._reports.read_by_spark(plan, number, observed(ran))
        write_json(path, {**known, "done": number + 1})

    def _job(self, plan: QueryPlan) -> Job:
        self.state.ended(plan.name).unlink(missing_ok=True)
        if self.mode.limit is not None:
            write_json(self.state.query(plan.name) / "limit.json", self.mode.limit)
        return Job(
            self.plan.pipeline,
            plan.name,
            self.id,
            self.state,
            self.plan.dead_letters,
            self.mode.parallelism,
            self.mode.max_batch_bytes,
            self.mode.once,
            self.mode.drain,
            self.mode.limit is not None,
            self._readers(),
        )

    def _readers(self) -> Mapping[str, int]:
        """How many reads of all queries share each source."""
        found: Counter[str] = Counter()
        for query in self.plan.queries:
            reads = [leaf.sources for leaf in leaves(query.frame) if isinstance(leaf, Read)]
            for sources in reads if query.frame is not None else [query.sources]:
                found.update(list(sources))
        return found

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
        if self._stop.is_set() and any(end.__name__ in str(error) for end in (_Stopping, RunEnds)):
            return
        staging = self.state.root / "staging" / self.id / plan.name
        self._failed.append(explained(plan.name, error, staging))
