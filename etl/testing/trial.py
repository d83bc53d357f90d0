"""Running a test: the pipeline with given sources and captured outputs, in this process as far as possible."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import OFFSET, LookupTable, Parser, Schema, Sink, Step
from etl.catalogue import installed
from etl.config.cases.case import Case
from etl.config.cases.case_check import output_schemas
from etl.config.cases.case_file import Suite
from etl.config.model import Output, Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan as planned
from etl.plan.query_plan import Plan, QueryPlan
from etl.running.plain_values import parse_instant
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.testing.capture import Capture, read_captured
from etl.testing.given_source import GivenSource, given_source
from etl.testing.values import to_rows

OnSpark = Callable[[Plan, Path, bool], None]
"""Runs the queries of a plan on Spark: plan, state folder, whether windows are closed at the end."""

LETTERS = "dead_letters"


@dataclass(frozen=True)
class CapturedEvents:
    """The events of one output, without null fields. Without ``ordered`` their order has no meaning."""

    rows: Sequence[Mapping[str, Any]]
    schema: Schema
    ordered: bool = True


@dataclass(frozen=True)
class Outcome:
    """The output of a test's pipeline: events of the observed streams and sinks, and dead letters."""

    events: Mapping[str, CapturedEvents]
    letters: CapturedEvents


def observed_outputs(case: Case, pipeline: Pipeline) -> list[str]:
    """The streams and sinks that a test observes: those with expectations, else all sinks."""
    return list(case.expected) or list(pipeline.sinks)


def build_test_plan(suite: Suite, case: Case, folder: Path, empty: bool = False) -> Plan:
    """The plan of a test: real steps between its events (none when ``empty``) and captures in ``folder``."""
    pipeline = suite.pipeline
    given = {} if empty else case.given
    begin = None if case.now is None else parse_instant(case.now).timestamp()
    sources = {name: given_source(source, given.get(name), suite.file, begin) for name, source in pipeline.sources.items()}
    streams = {name: _with_rows(at_time(stream, case.now), case, pipeline) for name, stream in pipeline.streams.items()}
    bench = replace(pipeline, sources=sources, streams=streams)
    return build_capture_plan(bench, observed_outputs(case, pipeline), folder)


def build_capture_plan(pipeline: Pipeline, requested: Iterable[str], folder: Path) -> Plan:
    """The plan of a pipeline whose sources give events by themselves, with captures of these streams and sinks in ``folder``."""
    return planned(replace(pipeline, sinks=capture_outputs(pipeline, requested, folder)), _capture(folder, LETTERS), SCHEMA)


def capture_outputs(pipeline: Pipeline, requested: Iterable[str], folder: Path) -> dict[str, Output]:
    """Captures of streams, or of what reaches sinks."""
    feeds = {name: (name,) if name in pipeline.streams else pipeline.sinks[name].inputs for name in requested}
    return {name: Output(name, inputs, _capture(folder, name)) for name, inputs in feeds.items()}


def _capture(folder: Path, name: str) -> Sink:
    return Capture(folder=str(folder / name))


def at_time(stream: Stream, now: str | None) -> Stream:
    """The stream with parsers that use the test's ``now`` instead of the current time."""
    if now is None:
        return stream
    micros = round(parse_instant(now).timestamp() * 1e6)
    return replace(stream, steps=tuple(_step_at(step, micros) for step in stream.steps))


def _with_rows(stream: Stream, case: Case, pipeline: Pipeline) -> Stream:
    """The stream with look-up tables that have the test's rows."""
    inline = installed().families["table"]["inline"]
    given = {}
    for name, some in case.tables.items():
        real = pipeline.tables[name]
        given[name] = inline.model_validate({"key": real.key, "columns": real.columns, "rows": some})
    tables = {name: table for name, table in given.items() if isinstance(table, LookupTable)}
    return replace(stream, steps=tuple(step.with_tables(tables) for step in stream.steps))


def _step_at(step: Step, micros: int) -> Step:
    if not isinstance(step, Parser):
        return step
    fixed = step.model_copy()
    object.__setattr__(fixed, "compile", partial(step.compile_at, micros))
    return fixed


def wants_spark(suite: Suite, case: Case) -> bool:
    """Whether Spark produces an output that the test observes; decided without reading its events."""
    return needs_spark(build_test_plan(suite, case, Path(), empty=True))


def needs_spark(plan: Plan) -> bool:
    """Whether a part of the plan runs on Spark."""
    return any(query.frame is not None for query in plan.queries)


def run_case(suite: Suite, case: Case, on_spark: OnSpark) -> Outcome:
    """Run a test. Raises what a run of the pipeline raises."""
    with tempfile.TemporaryDirectory(prefix="etl-test-") as name:
        folder = Path(name)
        plan = build_test_plan(suite, case, folder)
        return run_capture_plan(plan, suite.pipeline, observed_outputs(case, suite.pipeline), folder, case.drain, on_spark)


def run_capture_plan(
    plan: Plan, pipeline: Pipeline, requested: Iterable[str], folder: Path, drain: bool, on_spark: OnSpark
) -> Outcome:
    """Run a plan of captures, and read what it captured of these streams and sinks. Raises what a run of the pipeline raises."""
    run_without_spark(plan)
    if needs_spark(plan):
        on_spark(plan, folder / "state", drain)
    unordered = {name for query in plan.queries if query.frame is not None for name in query.segment.outputs}
    schemas = output_schemas(pipeline)
    events = {name: read_captured_events(folder / name, schemas[name], name not in unordered) for name in requested}
    return Outcome(events, replace(read_captured_events(folder / LETTERS, SCHEMA, ordered=True), ordered=False))


def run_without_spark(plan: Plan) -> None:
    """Run the queries that need no Spark, source after source."""
    for query in plan.queries:
        for order, (name, source) in enumerate(query.sources.items() if query.frame is None else ()):
            assert isinstance(source, GivenSource)
            _run(plan, query, order, name, source)


def _run(plan: Plan, query: QueryPlan, order: int, name: str, source: GivenSource) -> None:
    context = SplitContext(
        pipeline=plan.pipeline,
        source=name,
        partition="given",
        split=f"{order:06d}-{name}",
        order=order,
        staging_folder=lambda _: "",
    )
    for _ in SegmentRun(query.segment, name, context, plan.dead_letters).process(source.all()):
        raise AssertionError("a segment without Spark after it emits nothing")


def read_captured_events(folder: Path, schema: Schema, ordered: bool) -> CapturedEvents:
    """Read the events captured in a folder."""
    batches = [batch for batch in read_captured(folder) if batch.num_rows] if folder.is_dir() else []
    events = [row for batch in batches for row in to_rows(batch)]
    if not ordered:
        events.sort(key=_sort_key)
    return CapturedEvents(events, _types(batches, schema), ordered)


def _types(batches: Sequence[pa.RecordBatch], schema: Schema) -> Schema:
    """The actual types, if there are events."""
    if not batches:
        return schema
    return pa.schema([field for field in batches[0].schema if field.name != OFFSET])


def _sort_key(row: Mapping[str, Any]) -> str:
    import json

    return json.dumps(row, default=str, sort_keys=False)
