"""The components' own checks, each with its input fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from traceback import extract_tb
from typing import Any, TypeVar

import pyarrow as pa

from etl.api import Finding, FrameSource, JoiningStep, Schema, Sink, Source, Step, change_key, is_changing
from etl.config.checks.known_fields import (
    ABOUT_OTHERS,
    NOTHING_KNOWN,
    Fields,
    common_findings,
    missed_field,
    output_fields,
    source_fields,
)
from etl.config.layout import InputRef, Layout, StreamPart
from etl.config.model import OptionPath
from etl.config.options.variants import ComponentVariant
from etl.config.report import Report
from etl.config.stream_schemas import case_findings, change_findings, merge, nesting_findings, union_findings

T = TypeVar("T")


def check_flow(layout: Layout, order: Sequence[str], built: Mapping[OptionPath, ComponentVariant], report: Report) -> None:
    """Report the findings of every component, sources first."""
    known: dict[str, Fields] = {}
    for name, part in layout.sources.items():
        known[name] = _check_source(built.get(part.path), part.path, report)
    for name in order:
        stream = layout.streams[name]
        first = _joining_step(stream, built)
        fields = _join_inputs(stream.inputs, known, layout.likely_names, stream.path, report, first)
        for part in stream.steps:
            fields = _check_step(built.get(part.path), part.path, fields, report)
        if report.is_broken((*stream.path, "steps")):
            fields = _add_causes(NOTHING_KNOWN, stream.path)
        known[name] = fields
    for sink in layout.sinks.values():
        made = built.get(sink.part.path)
        fields = _join_inputs(sink.inputs, known, layout.likely_names, sink.part.path, report)
        if made and isinstance(made.component, Sink) and sink.part.path not in report.document.incomplete:
            find = partial(_sink_findings, incoming=fields.schema, is_union=len(sink.inputs) > 1)
            _report_findings(made, sink.part.path, find, fields, report)


def _sink_findings(sink: Sink, incoming: Schema, is_union: bool) -> Iterator[Finding]:
    yield from sink.check(incoming)
    if is_changing(incoming):
        found = list(sink.check_changes(incoming))
        yield from [_SEVERAL_CHANGELOGS] if found and is_union and change_key(incoming) is None else found


_SEVERAL_CHANGELOGS = Finding(
    "changing-results",
    "the rows of several streams change, and those with the same key would replace and remove each other: "
    "give each stream a sink of its own, or join the streams by the key",
)


def _step_findings(step: Step, incoming: Schema) -> Iterator[Finding]:
    found = list(step.check(incoming))
    yield from found
    if is_changing(incoming) and not (step.takes_changes() and any(finding.severity == "error" for finding in found)):
        yield from change_findings(step, incoming)  # what computes a step is known for one without errors


def _check_source(made: ComponentVariant | None, path: OptionPath, report: Report) -> Fields:
    if made is None or not isinstance(made.component, (Source, FrameSource)) or path in report.document.incomplete:
        return _add_causes(NOTHING_KNOWN, path)
    _report_findings(made, path, lambda source: source.check(), Fields(pa.schema([])), report)
    given = _call_guarded(path, lambda: source_fields(made), NOTHING_KNOWN, report)
    return _add_causes(given, path)


def _check_step(made: ComponentVariant | None, path: OptionPath, incoming: Fields, report: Report) -> Fields:
    if made is None or not isinstance(made.component, Step) or path in report.document.incomplete:
        return _add_causes(NOTHING_KNOWN, path, incoming)
    findings = _report_findings(made, path, lambda step: _step_findings(step, incoming.schema), incoming, report)
    given = _call_guarded(path, lambda: output_fields(made, incoming, findings), NOTHING_KNOWN, report)
    for finding in nesting_findings(incoming.schema, given.schema):
        report.add_finding(path, finding)
    for finding in case_findings(made.component, incoming.schema):
        if all(problem.message != finding.message for problem in report.problems):  # only the first of several steps reports it
            report.add_finding(path, finding)
    return _add_causes(given, path, incoming)


def _add_causes(fields: Fields, path: OptionPath, incoming: Fields | None = None) -> Fields:
    """If fields are partly unknown, add which components cause it: those upstream, else the one at ``path``."""
    causes = incoming.causes if incoming and incoming.causes else frozenset({path})
    return replace(fields, causes=causes) if fields.open or fields.possible else fields


def _joining_step(stream: StreamPart, built: Mapping[OptionPath, ComponentVariant]) -> tuple[JoiningStep, OptionPath] | None:
    """The first step of a stream if it tells the stream's inputs apart, and its path."""
    made = built.get(stream.steps[0].path) if stream.steps else None
    return (made.component, stream.steps[0].path) if made and isinstance(made.component, JoiningStep) else None


def _join_inputs(
    refs: Sequence[InputRef],
    known: Mapping[str, Fields],
    meant: Mapping[str, str],
    path: OptionPath,
    report: Report,
    joining: tuple[JoiningStep, OptionPath] | None = None,
) -> Fields:
    """The fields of a stream's or sink's inputs together. ``meant`` maps a misspelt name to the most likely one."""
    inputs = {ref.name: known.get(meant.get(ref.name, ref.name), NOTHING_KNOWN) for ref in refs}
    schemas = {name: fields.schema for name, fields in inputs.items()}
    if joining is not None:
        for finding in joining[0].check_inputs(schemas):
            report.add_finding(joining[1], finding)
    elif len(inputs) > 1:
        for finding in union_findings(schemas):
            report.add_finding((*path, "from"), finding)
    is_open = not inputs or any(fields.open for fields in inputs.values())
    causes = frozenset[OptionPath]().union(*(fields.causes for fields in inputs.values()))
    possible = frozenset[str]().union(*(fields.possible for fields in inputs.values()))
    schema = joining[0].united(schemas) if joining else merge(schemas.values())
    return Fields(schema, is_open, causes, possible)


def _report_findings(
    made: ComponentVariant, path: OptionPath, check: Callable[[Any], Iterable[Finding]], incoming: Fields, report: Report
) -> Sequence[Finding]:
    """Report a component's findings, except consequences of reported errors; returns all findings."""
    nothing: list[Finding] = []
    found = _call_guarded(path, lambda: common_findings(made, check), nothing, report)
    for finding in found:
        at = (*path, *finding.path)
        consequence = report.is_broken(at) if finding.path else not made.whole
        if made.has_unknown and finding.path:  # an unknown option may be the one whose default is checked
            consequence = consequence or (*path, finding.path[0]) not in report.document.locations
        if not made.whole and finding.code in ABOUT_OTHERS:
            consequence = consequence or finding.code != "bad-rule" or bool(report.broken_below(at))
        name, reported = missed_field(finding), report.document.unknown_fields
        if reported and (finding.code == "arrow-only" or (name and name.startswith(reported))):
            continue  # a type that is not known has no Arrow form
        if name and incoming.may_have(name):
            report.unchecked |= dict.fromkeys((cause, name) for cause in incoming.causes)
        elif not consequence and not (incoming.open and finding.code == "no-fields"):
            report.add_finding(path, finding)
    return found


def _call_guarded(path: OptionPath, compute: Callable[[], T], otherwise: T, report: Report) -> T:
    """The result of ``compute``; an exception in a component's check is reported, and the check of the file continues."""
    try:
        return compute()
    except Exception as error:
        report.fail(path, "check-failed", f"the check of this component failed: {_describe_error(error)}")
        return otherwise


def _describe_error(error: Exception) -> str:
    """The class and message of an error; for a method that a component lacks, its name."""
    if isinstance(error, NotImplementedError) and not error.args:
        return f"its class does not define {extract_tb(error.__traceback__)[-1].name!r}"
    return f"{type(error).__name__}: {error}"
