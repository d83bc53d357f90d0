"""Building and starting a run's queries: as a stream, or once as a whole."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from etl.api import BatchId, Schema
from etl.plan.frames import Read, SparkInputs, StateGraph, frame_sources, state_graph_of
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import Segment
from etl.spark.clock_planner import QueryReads
from etl.spark.commit.batch_commit import BatchCompletion, SinkCommitters
from etl.spark.driver_rows import collect_receipts
from etl.spark.frames import build_frame
from etl.spark.lane.arrivals import write_rows_of_partitions
from etl.spark.lane.lane_batch import Lane
from etl.spark.lane.lane_completion import LaneCompletion
from etl.spark.lane.lane_stages import stages_of
from etl.spark.lane.query_clock import clock_receipt, clock_source, reads_of
from etl.spark.lane.spark_inputs import build_inputs, input_schemas, row_targets
from etl.spark.lane.spark_steps import fields_after_state, fields_between, has_spark_after_state
from etl.spark.long_calls import long_call_file
from etl.spark.partitions import arrow_schema, run_segment, with_actual_types
from etl.spark.query_context import QueryContext
from etl.spark.reports.log_relay import name_logs
from etl.spark.reports.progress import ProgressReports, read_observed
from etl.spark.splits import splits_source
from etl.spark.state.checkpoint import planned_at, write_checksum
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_json, write_json
from etl.spark.state.offset_log import add_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.query import StreamingQuery

    from etl.spark.run import RunMode


class BatchNotStarted(Exception):  # noqa: N818
    """Raised before a micro-batch when the run stops: the next run processes the micro-batch."""


def _graph_and_reads(plan: QueryPlan) -> tuple[StateGraph, QueryReads]:
    """The stateful steps of a query that Spark gives events, and what reads these."""
    graph = state_graph_of(plan.frame)
    assert graph is not None
    assert isinstance(graph.child, SparkInputs)
    return graph, reads_of(graph.child)


def _is_run_record(value: Any) -> bool:
    """Whether a state file of a bounded query has the number of completed runs and the query's id."""
    return isinstance(value, dict) and isinstance(value.get("done"), int) and isinstance(value.get("id"), str)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """The queries of one run on one session."""

    session: SparkSession
    commits: SinkCommitters
    plan: Plan
    state: StateFolder
    mode: RunMode
    run_id: str
    reports: ProgressReports
    """Collects Spark's counts, and holds the run's totals."""
    stop: threading.Event
    """Set when the run is to stop."""

    def start(self, plan: QueryPlan) -> StreamingQuery:
        """Start a query as a stream."""
        query = self._context(plan)
        frame, segment = self._frame(plan, query)
        batches = BatchCompletion(replace(plan, segment=segment), query, self.commits, self.reports.totals)

        lane = self._lane_batches(plan, query, frame, batches)

        def batch_done(frame: DataFrame, number: int) -> None:
            if self.stop.is_set():
                raise BatchNotStarted
            write_checksum(self.state, plan.name, number)
            context = frame.sparkSession.sparkContext
            batch = BatchId(context.getLocalProperty("sql.streaming.queryId") or plan.name, number)
            if lane is not None:
                lane.prepare(number)
            receipts = collect_receipts(self._with_receipts(plan, query, frame, segment, number))
            if query.has_clock:
                graph, reads = _graph_and_reads(plan)
                receipts.append(clock_receipt(query, graph.inputs, reads, number))
            with name_logs(self.plan.pipeline):  # Spark calls this in a thread of its own
                if lane is None:
                    batches.complete(batch, receipts)
                else:
                    lane.complete(frame.sparkSession, batch, receipts)

        trigger = {"availableNow": True} if self.mode.once else {"processingTime": f"{self.mode.trigger_millis} milliseconds"}
        writer = frame.writeStream.queryName(self._name(plan)).foreachBatch(batch_done).outputMode(plan.output_mode)
        checkpoint = f"file://{self.state.checkpoint(plan.name)}"  # no URI: Hadoop takes a path's "%20" for its letters
        return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()

    def stop_begun(self, plan: QueryPlan) -> None:
        """Stop a query that Spark has begun, if its `start` did not return it."""
        for query in self.session.streams.active:
            if query.name == self._name(plan):
                query.stop()

    def _name(self, plan: QueryPlan) -> str:
        return f"{self.plan.pipeline}.{plan.name}"

    def run_bounded(self, plan: QueryPlan) -> None:
        """Run a query over sources that end, as one micro-batch. After a killed run the next one has the same number."""
        path = self.state.query(plan.name) / "runs.json"
        known = {"done": 0, "id": uuid.uuid4().hex, **(read_json(path, _is_run_record) or {})}
        number = known["done"]
        write_json(path, known)  # sinks distinguish runs by this id; a query with a new state folder has a new one
        batch = BatchId(f"whole-{plan.name}-{known['id']}", number)
        query = replace(self._context(plan), whole_batch=batch)
        frame, segment = self._frame(plan, query)
        batches = BatchCompletion(replace(plan, segment=segment), query, self.commits, self.reports.totals)
        lane = self._lane_batches(plan, query, frame, batches)
        ran = self._with_receipts(plan, query, frame, segment)
        receipts = collect_receipts(ran)
        if lane is None:
            batches.complete(batch, receipts)
        else:
            lane.complete(self.session, batch, receipts)
        self.reports.add_spark_reads(plan, number, read_observed(ran))
        write_json(path, {**known, "done": number + 1})

    def _frame(self, plan: QueryPlan, query: QueryContext) -> tuple[DataFrame, Segment]:
        """The frame whose micro-batches a query processes, and its last segment: `_with_receipts` makes receipts of it."""
        if plan.frame is None:
            return self._load(splits_source(query, plan.sources, plan.segment, None)), plan.segment
        if not plan.on_state_lane:
            frame = build_frame(plan.frame, self.session, query)
            return frame, with_actual_types(plan.segment, arrow_schema(frame))
        graph = state_graph_of(plan.frame)
        assert graph is not None
        read = graph.child
        if isinstance(read, Read):
            lane = self._lane(plan, query)
            return self._load(splits_source(query, read.sources, read.segment, read, 0, lane)), self._last_segment(plan, lane)
        if query.has_clock:
            add_clock(self.state, plan.name)
        clock = clock_source(query, *_graph_and_reads(plan)) if query.has_clock else None
        frame = build_inputs(read, self.session, query, clock)
        return frame, self._last_segment(plan, self._lane(plan, query, input_schemas(read, frame)))

    def _last_segment(self, plan: QueryPlan, lane: Lane) -> Segment:
        """The last segment of a query on the state lane, with the types that Spark gives where it computes the last step."""
        if not has_spark_after_state(plan):
            return plan.segment
        results = lane.stages[-1].segment.roots[""].outgoing
        return with_actual_types(plan.segment, fields_after_state(plan, results, self.session, lane.query))

    def _load(self, source: type[DataSource]) -> DataFrame:
        self.session.dataSource.register(source)
        return self.session.readStream.format(source.name()).load()

    def _with_receipts(
        self, plan: QueryPlan, query: QueryContext, frame: DataFrame, segment: Segment, batch: int | None = None
    ) -> DataFrame:
        """The receipts of the tasks over a micro-batch of this number; None for all events at once."""
        if plan.frame is None:
            return frame
        if not plan.on_state_lane:
            return run_segment(frame, segment, query, plan.parts)
        graph = state_graph_of(plan.frame)
        assert graph is not None
        if isinstance(graph.child, Read):
            return frame
        schemas = input_schemas(graph.child, frame)
        read_at = None if batch is None else planned_at(self.state, plan.name, batch)
        stages = self._lane(plan, query, schemas).stages
        return write_rows_of_partitions(frame, query, list(row_targets(graph, stages, schemas, read_at)))

    def _lane(self, plan: QueryPlan, query: QueryContext, incoming: Mapping[int, Schema] | None = None) -> Lane:
        """The steps of a query on the state lane; ``incoming`` are the fields that Spark hands over to some of them."""
        graph = state_graph_of(plan.frame)
        assert graph is not None
        stages = stages_of(plan, incoming, fields_between(plan, self.session, query))
        return Lane(tuple(stages), graph.inputs, query, bounded=not plan.streaming)

    def _lane_batches(
        self, plan: QueryPlan, query: QueryContext, frame: DataFrame, batches: BatchCompletion
    ) -> LaneCompletion | None:
        """What completes the micro-batches of a query with steps on the state lane."""
        graph = state_graph_of(plan.frame)
        if graph is None:
            return None
        incoming = input_schemas(graph.child, frame) if isinstance(graph.child, SparkInputs) else None
        return LaneCompletion(self._lane(plan, query, incoming), batches)

    def _context(self, plan: QueryPlan) -> QueryContext:
        for read in plan.split_reads:
            self.state.ended(plan.name, read).unlink(missing_ok=True)
            long_call_file(self.state, plan.name, read).unlink(missing_ok=True)
        if self.mode.limit is not None:
            write_json(self.state.query(plan.name) / "limit.json", self.mode.limit)
        return QueryContext(
            pipeline=self.plan.pipeline,
            query=plan.name,
            run_id=self.run_id,
            state=self.state,
            dead_letters=self.plan.dead_letters,
            parallelism=self.mode.parallelism,
            max_batch_bytes=self.mode.max_batch_bytes,
            max_call_seconds=self.mode.max_commit_seconds,
            durable=self.mode.durable,
            max_ahead_seconds=self.mode.max_ahead_seconds,
            once=self.mode.once,
            drain=self.mode.drain,
            limited=self.mode.limit is not None,
            clock=self.mode.clock,
            has_clock=plan.streaming and isinstance(graph.child if (graph := state_graph_of(plan.frame)) else None, SparkInputs),
            readers=self._readers,
        )

    @cached_property
    def _readers(self) -> Mapping[str, int]:
        """Source → number of reads, in all queries."""
        found: Counter[str] = Counter()
        for query in self.plan.queries:
            reads = [leaf.sources for leaf in frame_sources(query.frame) if isinstance(leaf, Read)]
            for sources in reads if query.frame is not None else [query.sources]:
                found.update(list(sources))
        return found
