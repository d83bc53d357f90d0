"""Tries a pipeline on pasted lines: the real steps, in this process, with the events between any two of them captured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from etl.api import OFFSET, EtlError, FrameSource, Parser, Rejects, Source, visible
from etl.config.loader import inspect_content
from etl.config.model import Pipeline
from etl.running.plain_values import parse_instant
from etl.server.studio.marked_texts import locate_fields, match_stops
from etl.server.studio.pasted_lines import PastedLines, pasted_lines
from etl.server.studio.plain_events import browser_fields, browser_rows, browser_value
from etl.server.studio.single_steps import SingleStep, single_steps
from etl.testing.capture import read_captured
from etl.testing.given_source import GivenSource, given_source, read_lines
from etl.testing.on_lane import run_on_lane, runs_on_lane
from etl.testing.trial import LETTERS, at_time, build_capture_plan, run_without_spark
from etl.testing.values import to_rows

FILE = "pipeline.yaml"
"""The name of the edited text in messages."""

STATE = "(state)"
"""The folder of what stateful steps remember during a try; no stream has this name."""

SHOWN_EVENTS = 300
"""Maximum number of events of a step that the page gets; all are counted."""

SHOWN_LETTERS = 300
"""Maximum number of dead letters of a step."""


@dataclass(frozen=True)
class TrialRequest:
    """What the page asks: the pipeline's text, the lines, and the step whose events are shown (the last one if it is empty)."""

    text: str
    lines: str
    step: str = ""
    now: str | None = None
    file: str = FILE


@dataclass(frozen=True)
class _Upstream:
    """Streams whose events are results of stateful steps, which have no line, and streams that only Spark could run."""

    results: frozenset[str]
    not_run: frozenset[str]

    @staticmethod
    def of(pipeline: Pipeline, steps: Sequence[SingleStep]) -> _Upstream:
        """Of all streams; each step comes after those that give it its events."""
        results, not_run = set[str](), {name for name, one in pipeline.sources.items() if isinstance(one, FrameSource)}
        for one in steps:
            if one.runs_on != "arrow" or results.intersection(one.inputs):
                results.add(one.stream)
            if one.runs_on == "spark" or not_run.intersection(one.inputs):
                not_run.add(one.stream)
        return _Upstream(frozenset(results), frozenset(not_run))


@dataclass(frozen=True)
class _Captured:
    """What came out of a run: the events of each stream, and dead letters by the step that refused them."""

    given: Sequence[pa.RecordBatch]
    streams: Mapping[str, Sequence[pa.RecordBatch]]
    letters: Mapping[str, Sequence[Mapping[str, Any]]]
    lines: PastedLines
    upstream: _Upstream


def try_pipeline(request: TrialRequest) -> dict[str, Any]:
    """Run the pipeline on the lines. Problems of the text are values; a step that fails raises EtlError."""
    began = time.perf_counter()
    checked = inspect_content(request.file, request.text.encode())
    problems = [problem.as_dict() for problem in checked.problems]
    if checked.pipeline is None:
        return {"problems": problems}
    pipeline = checked.pipeline
    alone, steps = single_steps(pipeline)
    upstream = _Upstream.of(pipeline, steps)
    with pasted_lines(request.lines) as lines, TemporaryDirectory(prefix="etl-studio-") as folder:
        captured = _run(alone, upstream, lines, request.now, Path(folder))
    found = _report(pipeline, steps, captured, request.step)
    return {"problems": problems, **found, "seconds": time.perf_counter() - began}


def _run(pipeline: Pipeline, upstream: _Upstream, lines: PastedLines, now: str | None, folder: Path) -> _Captured:
    name, source = _main_source(pipeline)
    begin = None if now is None else parse_instant(now).timestamp()
    given = tuple(read_lines(source, lines.path))
    sources = {other: given_source(one, None, FILE, begin) for other, one in pipeline.sources.items()}
    sources[name] = GivenSource(columns=visible(source.fields()), batches=(given,), begin=begin)
    streams = {stream.name: at_time(stream, now) for stream in pipeline.streams.values()}
    trial = replace(pipeline, sources=sources, streams=streams)
    plan = build_capture_plan(trial, [name for name in streams if name not in upstream.not_run], folder)
    run_without_spark(plan)
    for query in plan.queries:
        if runs_on_lane(query):
            run_on_lane(plan, query, folder / STATE, begin)
    events = {stream: [batch for batch in read_captured(folder / stream) if batch.num_rows] for stream in streams}
    return _Captured([one for one in given if not isinstance(one, Rejects)], events, _letters(folder / LETTERS), lines, upstream)


def _main_source(pipeline: Pipeline) -> tuple[str, Source]:
    """The source that reads the lines: the first one that Spark does not read itself."""
    for name, source in pipeline.sources.items():
        if not isinstance(source, FrameSource):
            return name, source
    raise EtlError("Spark itself reads this pipeline's sources, which the studio does not run; etl test does")


def _letters(folder: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Dead letters by stream: ``main~2[2] grok`` is of ``main~2``."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for batch in read_captured(folder):
        for row in to_rows(batch):
            found.setdefault(str(row["at"]).partition("[")[0], []).append(row)
    return found


def _report(pipeline: Pipeline, steps: Sequence[SingleStep], captured: _Captured, requested: str) -> dict[str, Any]:
    chosen = next((one for one in steps if one.id == requested), steps[-1] if steps else None)
    parser = next((one for one in steps if isinstance(one.step, Parser)), None)
    return {
        "name": pipeline.name,
        "sources": [{"name": name, "type": source.type} for name, source in pipeline.sources.items()],
        "sinks": [{"name": name, "type": output.sink.type, "inputs": output.inputs} for name, output in pipeline.sinks.items()],
        "events": sum(batch.num_rows for batch in captured.given),
        "steps": [_step_report(pipeline, one, captured) for one in steps],
        "shown": None if chosen is None else _shown_step(chosen, captured),
        "lines": [] if parser is None else _marked_lines(parser, captured),
    }


def _marked_lines(one: SingleStep, captured: _Captured) -> list[dict[str, Any]]:
    """The texts of the first parser, without their events."""
    rows = _shown_step(one, captured)["before"]["rows"]
    field = one.step.field if isinstance(one.step, Parser) else ""
    return [{**{key: row[key] for key in row if key != "values"}, "text": row["values"].get(field, "")} for row in rows]


def _step_report(pipeline: Pipeline, one: SingleStep, captured: _Captured) -> dict[str, Any]:
    incoming = _rows(_incoming(one, captured))
    left = _rows(captured.streams[one.stream])
    dead = len(captured.letters.get(one.stream, ()))
    names = set(one.incoming.names)
    line, _ = pipeline.locations.get(("streams", one.owner, "steps", one.index), (0, 0))
    return {
        "id": one.id,
        "stream": one.owner,
        "inputs": pipeline.streams[one.owner].inputs,
        "type": one.step.type,
        "line": line,
        "incoming": incoming,
        "left": left,
        "dead": dead,
        "runs_on": one.runs_on,
        "spark_reason": one.spark_reason,
        "ran": one.stream not in captured.upstream.not_run,
        "added": [name for name in visible(one.outgoing).names if name not in names],
    }


def _incoming(one: SingleStep, captured: _Captured) -> list[pa.RecordBatch]:
    return [batch for name in one.inputs for batch in captured.streams.get(name, captured.given)]


def _rows(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _shown_step(one: SingleStep, captured: _Captured) -> dict[str, Any]:
    """The events before and after a step, and what happened to each."""
    before, after = _incoming(one, captured), list(captured.streams[one.stream])
    letters = list(captured.letters.get(one.stream, ()))[:SHOWN_LETTERS]
    results = captured.upstream.results
    rows_before = _numbered(browser_rows(before, SHOWN_EVENTS), captured.lines, not results.intersection(one.inputs))
    rows_after = _numbered(browser_rows(after, SHOWN_EVENTS), captured.lines, one.stream not in results)
    dead = {row["offset"]: row for row in letters if "offset" in row}
    passed = {offset for batch in after if OFFSET in batch.schema.names for offset in batch.column(OFFSET).to_pylist()}
    for row in rows_before:
        letter = dead.get(row["offset"])
        row["fate"] = "dead" if letter else "passed" if row["offset"] in passed or one.runs_on != "arrow" else "filtered"
        if letter:
            row["reason"] = f"{letter.get('code', '')}: {letter.get('reason', '')}"
    if isinstance(one.step, Parser):
        _mark(one.step, rows_before, rows_after)
    return {
        "id": one.id,
        "before": {"fields": browser_fields(before, visible(one.incoming)), "rows": rows_before},
        "after": {"fields": browser_fields(after, visible(one.outgoing)), "rows": rows_after},
        "letters": [{name: browser_value(row.get(name)) for name in ("code", "reason", "event")} for row in letters],
        "field": one.step.field if isinstance(one.step, Parser) else None,
    }


def _numbered(rows: list[dict[str, Any]], lines: PastedLines, of_lines: bool) -> list[dict[str, Any]]:
    """The rows with the numbers of their lines; None for results of stateful steps, which are of no line."""
    return [{**row, "line": lines.number(row["offset"]) if of_lines and row["offset"] is not None else None} for row in rows]


def _mark(parser: Parser, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
    """Put spans of captures, and stops of texts that fail, into the rows before a parser."""
    results = {row["offset"]: row["values"] for row in after}
    rows = [row for row in before if isinstance(row["values"].get(parser.field), str)]
    failed = [row for row in rows if row["fate"] != "passed"]
    for row, stop in zip(failed, match_stops(parser, [row["values"][parser.field] for row in failed]), strict=True):
        if stop is not None:
            row["stop"] = {"at": stop.column - 1, "prefix": stop.prefix, "expected": stop.expected, "within": stop.within}
    good = [row for row in rows if row["fate"] == "passed"]
    texts = [row["values"][parser.field] for row in good]
    made = [_made_values(row, results) for row in good]
    for row, spans in zip(good, locate_fields(parser, texts, made), strict=True):
        row["spans"] = [list(span) for span in spans]


def _made_values(row: Mapping[str, Any], results: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The values that a parser has added to an event."""
    after = results.get(row["offset"], {})
    return {name: value for name, value in after.items() if row["values"].get(name) != value}
