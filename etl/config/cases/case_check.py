"""Checks of tests that the schema cannot make: names of sources, streams, sinks, fields and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from etl.api import Schema, nearest, visible, with_kind_field
from etl.config.cases.case import QUIET, Case, CaseInput, ExpectedOutput, cases_of, flat_event
from etl.config.model import OptionPath, Pipeline
from etl.config.report import Report
from etl.config.stream_schemas import merge, schemas_of

LETTER = pa.schema([(name, pa.null()) for name in ("at", "code", "reason", "source", "partition", "offset", "event")])
"""Fields that a test may expect of a dead letter."""


def checked_cases(tests: object, pipeline: Pipeline, report: Report) -> tuple[Case, ...]:
    """The tests of a pipeline without errors; names that the pipeline lacks are reported."""
    cases = cases_of(tests, list(pipeline.sources), list(pipeline.sinks))
    schemas = output_schemas(pipeline)
    for case in cases:
        for name, given in case.given.items():
            _check_inputs(name, given, case, pipeline, report)
        for name, expected in case.expected.items():
            _check_expected(name, expected, case, pipeline, schemas, report)
        for name in case.tables:
            if name not in pipeline.tables:
                hint = nearest(name, pipeline.tables) or f"tables are: {', '.join(pipeline.tables) or 'none'}"
                report.add((*case.path, "tables", name), "unknown-table", f"there is no table {name!r}", hint, key=True)
        if case.dead_letters:
            _check_fields(case.dead_letters, LETTER, report)
        if case.now is not None:
            _check_now(case.now, (*case.path, "now"), report)
    return tuple(cases)


def output_schemas(pipeline: Pipeline) -> Mapping[str, Schema]:
    """Stream or sink → the fields of its events; a stream before a sink of the same name."""
    schemas = schemas_of(pipeline)
    sinks = {name: merge([schemas[feed] for feed in sink.inputs]) for name, sink in pipeline.sinks.items()}
    streams = {name: schemas[name] for name in pipeline.streams}
    return {name: visible(with_kind_field(schema)) for name, schema in (sinks | streams).items()}


def _check_inputs(name: str, given: CaseInput, case: Case, pipeline: Pipeline, report: Report) -> None:
    sources = list(pipeline.sources)
    if given.path == (*case.path, "input"):
        if len(sources) > 1:
            hint = f"write {sources[0]}: before it; sources are: {', '.join(sources)}"
            report.add(given.path, "ambiguous-test", "the lines name no source, and there are several", hint)
            return
    elif name not in sources:
        hint = nearest(name, sources) or f"sources are: {', '.join(sources)}"
        report.add(given.path, "unknown-place", f"there is no source {name!r}", hint, key=True)
        return
    if given.lines and not path_beside(report.file, given.lines.path).is_file():
        message = f"there is no file {str(path_beside(report.file, given.lines.path))!r}"
        hint = "its path is relative to this file's"
        report.add((*given.path, "file"), "missing-file", message, hint, severity="warning")
    for mistake in given.mistakes:
        report.add(given.path, "invalid-value", f"{QUIET}: {mistake}")
    fields = visible(pipeline.sources[name].fields())
    for batch in given.batches:
        for event in batch:
            if isinstance(event, str) and "message" not in fields.names:
                hint = f"write events as mappings; their fields are: {', '.join(fields.names)}"
                report.add(given.path, "type", f"source {name!r} does not read lines", hint)
                return
            if not isinstance(event, str):
                _check_names(flat_event(event, fields.names), given.path, fields, report, _LINE if fields.names == _LINES else "")


_LINES = ["message"]
_LINE = "fields here: message; an event is given as the source reads it: the whole line as a text"


def _check_expected(
    name: str, expected: ExpectedOutput, case: Case, pipeline: Pipeline, schemas: Mapping[str, Schema], report: Report
) -> None:
    if expected.path == (*case.path, "expect") and len(pipeline.sinks) > 1:
        hint = f"streams and sinks are: {', '.join(schemas)}"
        report.add(expected.path, "ambiguous-test", "the events name no stream or sink, and there are several sinks", hint)
    elif name not in schemas:
        hint = nearest(name, schemas) or f"streams and sinks are: {', '.join(schemas)}"
        report.add(expected.path, "unknown-place", f"there is no stream or sink {name!r}", hint, key=True)
    else:
        _check_fields(expected, schemas[name], report)


def _check_fields(expected: ExpectedOutput, fields: Schema, report: Report) -> None:
    for path, event in event_paths(expected, report):
        _check_names(flat_event(event, fields.names), path, fields, report)
    for at, name in enumerate(expected.fields or ()):
        if name not in fields.names:
            _unknown(name, (*expected.path, "fields", at), fields, report)


def event_paths(expected: ExpectedOutput, report: Report) -> Iterator[tuple[OptionPath, Mapping[str, object]]]:
    """Each event that a file expects, with its path."""
    short = (*expected.path, "events") not in report.document.locations
    base: OptionPath = expected.path if short else (*expected.path, "events")
    yield from (((*base, at), event) for at, event in enumerate(expected.events or ()))
    yield from (((*expected.path, "contains", at), event) for at, event in enumerate(expected.contains))


def _check_names(event: Mapping[str, object], path: OptionPath, fields: Schema, report: Report, hint: str = "") -> None:
    for name in event:
        if name not in fields.names:
            _unknown(name, (*path, *_find_written_keys(name, path, report)), fields, report, hint)


def _find_written_keys(name: str, path: OptionPath, report: Report) -> OptionPath:
    """The keys of a field in the file: its dotted name, or the first of its parts."""
    locations = report.document.locations
    return next(((key,) for key in (name, name.partition(".")[0]) if (*path, key) in locations), ())


def _unknown(name: str, path: OptionPath, fields: Schema, report: Report, hint: str = "") -> None:
    hint = nearest(name, fields.names) or hint or f"fields here: {', '.join(fields.names)}"
    report.add(path, "unknown-field", f"there is no field {name!r} here", hint, key=True)


def _check_now(text: str, path: OptionPath, report: Report) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        report.add(path, "invalid-value", f"{text!r} is not a time", "such as 2026-11-20T12:00:00Z")


def path_beside(file: str, path: str) -> Path:
    """A path that a file names, relative to the file's folder."""
    return Path(file).parent / path
