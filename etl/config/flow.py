"""The components' own checks, each in front of the fields that reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from etl.api import Finding, FrameSource, Sink, Source, Step
from etl.config.known_fields import ABOUT_OTHERS, NOTHING_KNOWN, Fields, common_findings, missed_field, outgoing, source_fields
from etl.config.layout import Feed, Layout
from etl.config.model import OptionPath
from etl.config.report import Report
from etl.config.schemas import case_findings, merge, nesting_findings, union_findings
from etl.config.variants import Built

T = TypeVar("T")


def check_flow(layout: Layout, order: Sequence[str], built: Mapping[OptionPath, Built], report: Report) -> None:
    """Ask every component for its findings, sources first."""
    known: dict[str, Fields] = {}
    for name, part in layout.sources.items():
        known[name] = _source(built.get(part.path), part.path, report)
    for name in order:
        stream = layout.streams[name]
        fields = _joined(stream.feeds, known, layout.meant, stream.path, report)
        for part in stream.steps:
            fields = _step(built.get(part.path), part.path, fields, report)
        known[name] = fields
    for sink in layout.sinks.values():
        made = built.get(sink.part.path)
        fields = _joined(sink.feeds, known, layout.meant, sink.part.path, report)
        if made and isinstance(made.component, Sink):
            _ask(made, sink.part.path, lambda sink, f=fields: sink.check(f.schema), fields, report)  # type: ignore[misc]


def _source(made: Built | None, path: OptionPath, report: Report) -> Fields:
    if made is None or not isinstance(made.component, (Source, FrameSource)):
        return _caused(NOTHING_KNOWN, path)
    _ask(made, path, lambda source: source.check(), Fields(pa.schema([])), report)
    given = _guarded(path, lambda: source_fields(made), NOTHING_KNOWN, report)
    return _caused(given, path)


def _step(made: Built | None, path: OptionPath, incoming: Fields, report: Report) -> Fields:
    if made is None or not isinstance(made.component, Step):
        return _caused(NOTHING_KNOWN, path, incoming)
    findings = _ask(made, path, lambda step: step.check(incoming.schema), incoming, report)
    given = _guarded(path, lambda: outgoing(made, incoming, findings), NOTHING_KNOWN, report)
    for finding in nesting_findings(incoming.schema, given.schema):
        report.find(path, finding)
    for finding in case_findings(made.component, incoming.schema):
        if all(
            problem.message != finding.message for problem in report.problems
        ):  # of many steps behind one another the first says it
            report.find(path, finding)
    return _caused(given, path, incoming)


def _caused(fields: Fields, path: OptionPath, incoming: Fields | None = None) -> Fields:
    """Open fields say why they are: because of the component at ``path``, or of those in front of it."""
    causes = incoming.causes if incoming and incoming.causes else frozenset({path})
    return replace(fields, causes=causes) if fields.open else fields


def _joined(
    feeds: Sequence[Feed], known: Mapping[str, Fields], meant: Mapping[str, str], path: OptionPath, report: Report
) -> Fields:
    inputs = {feed.name: known.get(meant.get(feed.name, feed.name), NOTHING_KNOWN) for feed in feeds}
    if len(inputs) > 1:
        for finding in union_findings({name: fields.schema for name, fields in inputs.items()}):
            report.find((*path, "from"), finding)
    is_open = not inputs or any(fields.open for fields in inputs.values())
    causes = frozenset[OptionPath]().union(*(fields.causes for fields in inputs.values()))
    return Fields(merge(fields.schema for fields in inputs.values()), is_open, causes)


def _ask(
    made: Built, path: OptionPath, check: Callable[[Any], Iterable[Finding]], incoming: Fields, report: Report
) -> Sequence[Finding]:
    """Report a component's findings, except consequences of errors known already; all that it found."""
    nothing: list[Finding] = []
    found = _guarded(path, lambda: common_findings(made, check), nothing, report)
    for finding in found:
        place = (*path, *finding.path)
        consequence = report.is_broken(place) if finding.path else not made.whole
        if not made.whole and finding.code in ABOUT_OTHERS:
            consequence = consequence or finding.code != "bad-rule" or bool(report.broken_below(place))
        if incoming.open and (name := missed_field(finding)):
            report.unchecked |= dict.fromkeys((cause, name) for cause in incoming.causes)
        elif not consequence and not (incoming.open and finding.code == "no-fields"):
            report.find(path, finding)
    return found


def _guarded(path: OptionPath, ask: Callable[[], T], otherwise: T, report: Report) -> T:
    """A component whose check breaks is reported; the lint goes on."""
    try:
        return ask()
    except Exception as error:
        report.fail(path, "check-failed", f"the check of this component failed: {type(error).__name__}: {error}")
        return otherwise
