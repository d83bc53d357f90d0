"""One test run: the pipeline with known sources and captured ends, as far as possible in this process."""

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
from etl.config.case_check import output_schemas
from etl.config.case_file import Suite
from etl.config.cases import Case
from etl.config.model import Output, Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.model import Plan, QueryPlan
from etl.plan.planner import plan as planned
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.testing.capture import Capture, captured
from etl.testing.given import GivenSource, given_source, moment
from etl.testing.values import rows

OnSpark = Callable[[Plan, Path, bool], None]
"""Runs the queries of a plan on Spark: plan, state folder, whether windows are closed at the end."""

LETTERS = "dead_letters"


@dataclass(frozen=True)
class Found:
    """Events that came out at one place; null fields are left out. Without ``ordered`` their order means nothing."""

    rows: Sequence[Mapping[str, Any]]
    schema: Schema
    ordered: bool = True


@dataclass(frozen=True)
class Outcome:
    """What a test's pipeline gave: events by the names that were looked at, and dead letters."""

    events: Mapping[str, Found]
    letters: Found


def names(case: Case, pipeline: Pipeline) -> list[str]:
    """The streams and sinks that a test looks at: those it expects something of, else all sinks."""
    return list(case.expected) or list(pipeline.sinks)


def prepared(suite: Suite, case: Case, folder: Path, empty: bool = False) -> Plan:
    """The plan of a test: real steps between its events (none when ``empty``) and captures in ``folder``."""
    pipeline = suite.pipeline
    given = {} if empty else case.given
    sources = {name: given_source(source, given.get(name), suite.file) for name, source in pipeline.sources.items()}
    bench = replace(
        pipeline,
        sources=sources,
        streams={name: _with_rows(_at(stream, case.now), case, pipeline) for name, stream in pipeline.streams.items()},
        sinks=outputs(pipeline, names(case, pipeline), folder),
    )
    return planned(bench, _capture(folder, LETTERS), SCHEMA)


def outputs(pipeline: Pipeline, wanted: Iterable[str], folder: Path) -> dict[str, Output]:
    """Captures of streams, or of what reaches sinks."""
    feeds = {name: (name,) if name in pipeline.streams else pipeline.sinks[name].inputs for name in wanted}
    return {name: Output(name, inputs, _capture(folder, name)) for name, inputs in feeds.items()}


def _capture(folder: Path, name: str) -> Sink:
    return Capture(folder=str(folder / name))


def _at(stream: Stream, now: str | None) -> Stream:
    """The stream at another time than now, for parsers that go by it."""
    if now is None:
        return stream
    micros = round(moment(now).timestamp() * 1e6)
    return replace(stream, steps=tuple(_step_at(step, micros) for step in stream.steps))


def _with_rows(stream: Stream, case: Case, pipeline: Pipeline) -> Stream:
    """The stream with the tables whose rows the test gives."""
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
    """Whether what a test looks at comes out of Spark; told without reading its events."""
    return needs_spark(prepared(suite, case, Path(), empty=True))


def needs_spark(plan: Plan) -> bool:
    """Whether a part of the plan runs on Spark."""
    return any(query.frame is not None for query in plan.queries)


def tried(suite: Suite, case: Case, on_spark: OnSpark) -> Outcome:
    """Run a test. Raises what the run of the pipeline would."""
    with tempfile.TemporaryDirectory(prefix="etl-test-") as name:
        folder = Path(name)
        plan = prepared(suite, case, folder)
        run_here(plan)
        if needs_spark(plan):
            on_spark(plan, folder / "state", case.drain)
        unordered = {name for query in plan.queries if query.frame is not None for name in query.segment.outputs}
        schemas = output_schemas(suite.pipeline)
        events = {name: found(folder / name, schemas[name], name not in unordered) for name in names(case, suite.pipeline)}
        return Outcome(events, replace(found(folder / LETTERS, SCHEMA, ordered=True), ordered=False))


def run_here(plan: Plan) -> None:
    """Run the queries that need no Spark, a source after the other."""
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
        raise AssertionError("a segment without Spark behind it emits nothing")


def found(folder: Path, schema: Schema, ordered: bool) -> Found:
    """What was captured in a folder."""
    batches = [batch for batch in captured(folder) if batch.num_rows] if folder.is_dir() else []
    events = [row for batch in batches for row in rows(batch)]
    if not ordered:
        events.sort(key=_sort_key)
    return Found(events, _types(batches, schema), ordered)


def _types(batches: Sequence[pa.RecordBatch], schema: Schema) -> Schema:
    """The types that really came, where there are events."""
    if not batches:
        return schema
    return pa.schema([field for field in batches[0].schema if field.name != OFFSET])


def _sort_key(row: Mapping[str, Any]) -> str:
    import json

    return json.dumps(row, default=str, sort_keys=False)
