"""Starts a pipeline as far as a fast test can: plans it, runs its segments on a few events, lets Spark analyse its frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from state.lane import Lane

from etl.api import NO_BATCH, OFFSET, ComponentError, Schema, Sink
from etl.catalogue import installed
from etl.config.model import Pipeline
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import Exchange, Frame, Read, SparkRead, exchange_of, frame_sources, state_graph_of
from etl.plan.planner import plan as planned
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import Branch, Output, Segment
from etl.segment.segment_run import NO_EXCHANGES, SegmentRun, SplitContext
from etl.spark.frames import build_frame
from etl.spark.lane.lane_stages import Stage, stages_of
from etl.spark.lane.spark_inputs import build_inputs, input_schemas
from etl.spark.lane.spark_steps import apply_after_state, apply_between, fields_between, has_spark_after_state
from etl.spark.partitions import arrow_schema, with_actual_types
from etl.spark.query_context import QueryContext
from etl.spark.splits import emitted_schema, spark_schema
from etl.spark.state.folder import StateFolder
from etl.steps.heartbeats import ARRIVAL

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession

LINES = (
    "one line",
    '{"level": "info", "source": {"ip": "10.0.0.1"}, "n": 5, "tags": ["a", "b"], "at": "2026-01-02T03:04:05Z"}',
    "level=warn n=5 took=1.5 source.ip=10.0.0.1",
    "<34>1 2026-01-02T03:04:05Z gate app 7 ID - text",
    "10.0.0.1 4",
    "2026-01-02 03:04:05,678",
    "7",
    None,
)
_ALONE = ("file", "console", "discard")
"""Sinks that need no server; others are replaced by `discard`."""


VALUE_ERRORS = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "DIVIDE_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "ARITHMETIC_OVERFLOW",
    "DATETIME_",
    "CANNOT_PARSE",
)
"""Spark's errors about the value of an event; they are not an error of the pipeline."""


EmittedBatches = list[tuple[int, pa.RecordBatch]]
"""Batches, each with the number of its exchange."""


class DifferenceError(Exception):
    """Lint found a pipeline clean, and it does not start so."""


class Starter:
    """Starts pipelines; ``folder`` is theirs."""

    def __init__(self, session: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session = session
        self.folder = folder
        self._batches: dict[int, list[pa.RecordBatch]] | None = None
        self._lanes = 0
        monkeypatch.setattr("etl.spark.frames.read", self._read)

    def start(self, pipeline: Pipeline, computed: bool = False) -> None:
        """Start it. Raises each error. ``computed``: Spark also computes the frames over a few events."""
        letters = Output("dead_letters", _sink("file", path=str(self.folder / "dead")), SCHEMA)
        plan = planned(pipeline, letters.sink, SCHEMA)
        for query in plan.queries:
            self._start(query, plan, computed)

    def _start(self, query: QueryPlan, plan: Plan, computed: bool) -> None:
        if query.frame is None:
            for source in query.segment.roots:
                list(self._ran(query.segment, source, query.sources[source].fields(), plan))
            return
        read = [leaf for leaf in frame_sources(query.frame) if isinstance(leaf, Read)]
        found = {id(leaf.segment): self._events(leaf, plan, query.frame) for leaf in read}
        self._batches = None
        if query.on_state_lane:
            self._start_lane(query, plan, found, computed)
            return
        self._check_start(self._built(query, plan, f"{query.name} streaming"), query)
        if computed and not any(isinstance(leaf, SparkRead) and leaf.source.streaming for leaf in frame_sources(query.frame)):
            self._batches = {key: [batch for _, batch in events] for key, events in found.items()}
            self._finish(query, plan, self._computed(query, plan))

    def _start_lane(self, query: QueryPlan, plan: Plan, read: dict[int, EmittedBatches], computed: bool) -> None:
        """Run the stateful steps over the events that reach them, close what they hold, and run the segments after them."""
        graph = state_graph_of(query.frame)
        assert graph is not None
        arrived: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for_spark: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        incoming, job = None, self._job(plan, query.name)
        if isinstance(graph.child, Read):
            for number, batch in read[id(graph.child.segment)]:
                one = graph.inputs[number]
                (for_spark[number] if one.between else arrived[one.stage]).append(batch)
        else:
            incoming = input_schemas(
                graph.child, build_inputs(graph.child, self.session, self._job(plan, f"{query.name} streaming"))
            )
            streamed = any(isinstance(leaf, SparkRead) and leaf.source.streaming for leaf in frame_sources(graph.child))
            if not computed or streamed:
                return
            self._batches = {key: [batch for _, batch in found] for key, found in read.items()}
            for number, frame in graph.child.frames.items():
                arrived[number] = list(self._computed(replace(query, frame=frame), plan))
        lane = list(stages_of(query, incoming, fields_between(query, self.session, job)))
        for number, stage in enumerate(lane):
            for at, one in enumerate(graph.inputs):
                if one.stage == number and for_spark[at]:
                    events = self.session.createDataFrame(pa.Table.from_batches(for_spark[at]))
                    arrived[number] += self._computed_rows(apply_between(query, one, events, job))
            found = self._stage_results(stage, arrived[number], number)
            emits = {to: lane[stage_number].exchange for to, stage_number in stage.following.items()}
            emits |= {to: Exchange(fields) for to, fields in stage.for_spark.items()}
            if stage.results_to_spark:
                emits = {0: Exchange(stage.segment.roots[""].outgoing)}
            for to, batch in SegmentRun(_alone(stage.segment), "", self._split(), plan.dead_letters, emits).process([found]):
                (for_spark[to] if to in stage.for_spark else arrived[stage.following.get(to, number + 1)]).append(batch)
        if has_spark_after_state(query):
            fields = lane[-1].segment.roots[""].outgoing
            emitted = fields.append(pa.field(OFFSET, pa.int64()))
            results = pa.Table.from_batches(arrived[len(lane)] or [pa.RecordBatch.from_pylist([], emitted)], emitted)
            frame = apply_after_state(query, self.session.createDataFrame(results), self._job(plan, query.name))
            self._finish(query, plan, self._computed_rows(frame))

    def _stage_results(self, stage: Stage, batches: Sequence[pa.RecordBatch], number: int) -> pa.RecordBatch:
        """The results of a step over some events and an event far in the future."""
        self._lanes += 1
        lane = Lane(stage.step, stage.incoming, self.folder / f"lane-{self._lanes}-{number}")
        time = (stage.step.event_time() or ("",))[0]
        names = [*stage.incoming.names, OFFSET]
        batches = [_with_read_time(batch) if ARRIVAL in names else batch for batch in batches]
        events = [row for batch in batches for row in batch.select(names).to_pylist() if row[time] is not None]
        numbered = [{**row, OFFSET: at if row[OFFSET] is not None else None} for at, row in enumerate(events)]
        try:
            results = [*lane.run(numbered), *lane.run([{time: datetime(2200, 1, 1, tzinfo=UTC)}])]
        except ComponentError as error:
            if not any(words in str(error) for words in ("failed for an event", "cannot be computed for a")):
                raise
            results = []
        batch = pa.RecordBatch.from_pylist(results, schema=stage.step.fields(stage.incoming))
        batch = batch.drop_columns([ARRIVAL]) if ARRIVAL in batch.schema.names else batch
        return batch.append_column(OFFSET, pa.array(range(batch.num_rows), pa.int64()))

    def _computed(self, query: QueryPlan, plan: Plan) -> Sequence[pa.RecordBatch]:
        return self._computed_rows(self._built(query, plan, query.name))

    def _computed_rows(self, frame: DataFrame) -> list[pa.RecordBatch]:
        try:
            found: list[pa.RecordBatch] = frame.toArrow().to_batches()
            return found
        except Exception as error:
            if any(word in str(error) for word in VALUE_ERRORS):
                return []
            raise

    def _events(self, read: Read, plan: Plan, frame: Frame) -> EmittedBatches:
        """The batches that the segments before Spark or before stateful steps emit."""
        lane = state_graph_of(frame)
        graph = lane if lane and lane.child is read else None
        inputs = graph.inputs if graph else ()
        emits = {n: exchange_of(one, graph.stages[one.stage].exchange) for n, one in enumerate(inputs) if graph and one.sources}
        emits = emits or {0: Exchange(emitted_schema(read), read.watermark)}
        events: EmittedBatches = []
        for source in read.segment.roots:
            events += self._ran(read.segment, source, read.sources[source].fields(), plan, emits)
        for number, batch in events:
            _same("what the segment emits", emits[number].schema.append(pa.field(OFFSET, pa.int64())), batch.schema)
        return events

    def _ran(
        self, segment: Segment, source: str, fields: Schema, plan: Plan, emits: Mapping[int, Exchange] = NO_EXCHANGES
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        for branch in segment.roots[source].walk():
            _checked(branch)
        run = SegmentRun(_alone(segment), source, self._split(), plan.dead_letters, emits)
        yield from run.process([_some(fields)])

    def _split(self) -> SplitContext:
        def folder(name: str) -> str:
            (self.folder / "sinks" / name).mkdir(parents=True, exist_ok=True)
            return str(self.folder / "sinks" / name)

        return SplitContext(pipeline="random", source="source", partition="0", split="split", order=0, staging_folder=folder)

    def _built(self, query: QueryPlan, plan: Plan, name: str) -> DataFrame:
        assert query.frame is not None
        return build_frame(query.frame, self.session, self._job(plan, name))

    def _job(self, plan: Plan, name: str) -> QueryContext:
        return QueryContext(
            pipeline="random",
            query=name,
            run_id="run",
            state=StateFolder(self.folder / "state"),
            dead_letters=plan.dead_letters,
            parallelism=1,
            max_batch_bytes=1 << 20,
            once=True,
            whole_batch=NO_BATCH,
        )

    def _read(self, frame: Read, session: SparkSession, job: QueryContext, number: int) -> DataFrame:
        """Replaces Spark's stream of splits by an endless one with the same columns, or by the emitted batches."""
        from pyspark.sql.functions import lit

        schema = spark_schema(frame)
        assert not isinstance(schema, str)
        if self._batches is not None:
            batches = self._batches[id(frame.segment)]
            empty = emitted_schema(frame).append(pa.field(OFFSET, pa.int64()))
            return session.createDataFrame(pa.Table.from_batches(batches, batches[0].schema if batches else empty), schema)
        rate = session.readStream.format("rate").load()
        return rate.select(*(lit(None).cast(field.dataType).alias(field.name) for field in schema.fields))

    def _check_start(self, frame: DataFrame, query: QueryPlan) -> None:
        """Check what Spark's analyser checks at the start of a query, and that the columns are the planned ones."""
        jvm: Any = self.session._jvm
        if query.streaming:
            mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, query.output_mode.capitalize())()
            checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
            checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
        found, (root,) = arrow_schema(frame), query.segment.roots.values()
        _same("what Spark gives", root.steps[0].incoming if root.steps else root.outgoing, found)

    def _finish(self, query: QueryPlan, plan: Plan, batches: Sequence[pa.RecordBatch]) -> None:
        """Run the segment after Spark over its results."""
        for batch in batches:
            if OFFSET in batch.schema.names:
                batch = batch.drop_columns([OFFSET])
            segment = with_actual_types(query.segment, batch.schema)
            batch = batch.append_column(OFFSET, pa.array(range(batch.num_rows), pa.int64()))
            list(SegmentRun(_alone(segment), "", self._split(), plan.dead_letters).process([batch]))


def _with_read_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Events with a time of reading, which those that Spark computes get in their tasks."""
    if ARRIVAL in batch.schema.names:
        return batch
    read_at = pa.repeat(pa.scalar(datetime(2026, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC")), batch.num_rows)
    return batch.append_column(ARRIVAL, read_at)


def _sink(kind: str, **options: object) -> Sink:
    found = installed().families["sink"][kind].model_validate({"type": kind, **options})
    assert isinstance(found, Sink)
    return found


def _alone(segment: Segment) -> Segment:
    outputs = {n: out if out.sink.type in _ALONE else replace(out, sink=_sink("discard")) for n, out in segment.outputs.items()}
    return replace(segment, outputs=outputs)


def _checked(branch: Branch) -> None:
    """Check that each step gives the planned fields, for no events and for some."""
    for node in branch.steps:
        opened = node.step.open(node.incoming)  # type: ignore[attr-defined]
        for batch in (_some(node.incoming), _some(node.incoming).slice(0, 0)):
            try:
                given = opened(batch)
            except Exception as error:
                raise DifferenceError(f"{node.id} fails: {type(error).__name__}: {error}") from error
            _same(node.id, node.outgoing, given.events.schema)


def _some(fields: Schema) -> pa.RecordBatch:
    """A few events with these fields."""
    columns = {one.name: _column(one.type) for one in fields}
    return pa.RecordBatch.from_pydict({**columns, OFFSET: pa.array(range(len(LINES)), pa.int64())})


def _column(type_: pa.DataType) -> pa.Array:
    count = len(LINES)
    if pa.types.is_string(type_):
        return pa.array(LINES, type_)
    if pa.types.is_decimal(type_):
        return pa.array([*range(1, count), None], pa.decimal128(type_.precision, 0)).cast(type_)
    numbers = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    if numbers or pa.types.is_timestamp(type_):
        return pa.array([*range(1, count), None], pa.int64()).cast(type_)
    if pa.types.is_list(type_) and pa.types.is_string(type_.value_type):
        return pa.array([["a", "b"], [], None, [None]] * (count // 4), type_)
    return pa.nulls(count, type_)


def _same(what: str, planned: Schema, found: Schema) -> None:
    """Compare names, their order, and known types."""
    expected, given = ([one for one in schema if not one.name.startswith("_")] for schema in (planned, found))
    if [one.name for one in expected] != [one.name for one in given]:
        raise DifferenceError(f"{what}: planned {[one.name for one in expected]}, found {[one.name for one in given]}")
    for one, other in zip(expected, given, strict=True):
        if not pa.types.is_null(one.type) and not _plain(one.type).equals(_plain(other.type)):
            raise DifferenceError(f"{what}: {one.name!r} was planned as {one.type}, found {other.type}")


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without names and nullability of items, and without views."""
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([(one.name, _plain(one.type)) for one in type_])
    return pa.string() if type_ in (pa.string_view(), pa.large_string()) else type_
