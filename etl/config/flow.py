"""The components' own checks, each in front of the fields that reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from etl.api import Finding, FrameSource, Parser, Schema, Sink, Source, Step
from etl.config.build import Built
from etl.config.layout import Feed, Layout
from etl.config.model import Path
from etl.config.report import Report
from etl.config.schemas import merge, nesting_findings, union_findings

ABOUT_FIELDS = frozenset({"unknown-field", "wrong-type", "field-conflict", "union-type-conflict", "not-boolean"})
"""Findings that mean nothing where the fields are guessed."""


T = TypeVar("T")


@dataclass(frozen=True)
class Fields:
    """What reaches a place. Not ``certain`` behind components with errors."""

    schema: Schema
    certain: bool


_NOTHING_KNOWN = Fields(pa.schema([]), certain=False)


def check_flow(layout: Layout, order: Sequence[str], built: Mapping[Path, Built], report: Report) -> None:
    """Ask every component for its findings, sources first."""
    known: dict[str, Fields] = {}
    for name, part in layout.sources.items():
        known[name] = _source(built.get(part.path), part.path, report)
    for name in order:
        stream = layout.streams[name]
        fields = _joined(stream.feeds, known, stream.path, report)
        for part in stream.steps:
            fields = _step(built.get(part.path), part.path, fields, report)
        known[name] = fields
    for sink in layout.sinks.values():
        made = built.get(sink.part.path)
        fields = _joined(sink.feeds, known, sink.part.path, report)
        if made and isinstance(made.component, Sink):
            component = made.component
            _ask(made, sink.part.path, lambda c=component, f=fields: c.check(f.schema), fields.certain, report)  # type: ignore[misc]


def check_targets(layout: Layout, built: Mapping[Path, Built], report: Report) -> None:
    """Report sinks that would write to the same place."""
    first: dict[str, str] = {}
    parts = {name: sink.part for name, sink in layout.sinks.items()}
    for name, part in (parts | ({"dead_letters": layout.dead_letters} if layout.dead_letters else {})).items():
        made = built.get(part.path)
        for target in set(_targets(made)):
            other = first.setdefault(target, name)
            if other != name:
                message = f"sinks {other!r} and {name!r} both write to {target!r}"
                report.add(part.path, "shared-target", message, "give each its own, or one sink a list of streams", key=True)


def _targets(made: Built | None) -> Iterable[str]:
    try:
        return list(made.component.targets()) if made and isinstance(made.component, Sink) else []
    except Exception:  # a target that cannot be told from these options; the sink's own check says so
        return []


def _source(made: Built | None, path: Path, report: Report) -> Fields:
    if made is None or not isinstance(made.component, (Source, FrameSource)):
        return _NOTHING_KNOWN
    component = made.component
    _ask(made, path, component.check, True, report)
    schema = _guarded(path, component.fields, pa.schema([]), report)
    return Fields(schema, made.whole and not report.is_broken(path))


def _step(made: Built | None, path: Path, incoming: Fields, report: Report) -> Fields:
    if made is None or not isinstance(made.component, Step):
        return Fields(incoming.schema, certain=False)
    component = made.component
    wrong = _ask(made, path, lambda: component.check(incoming.schema), incoming.certain, report)
    outgoing = _guarded(path, lambda: component.fields(incoming.schema), incoming.schema, report)
    if incoming.certain:
        for finding in nesting_findings(incoming.schema, outgoing):
            report.find(path, finding)
    guessed = wrong and isinstance(component, Parser)
    return Fields(outgoing, incoming.certain and made.whole and not guessed and path not in report.broken)


def _joined(feeds: Sequence[Feed], known: Mapping[str, Fields], path: Path, report: Report) -> Fields:
    inputs = {feed.name: known.get(feed.name, _NOTHING_KNOWN) for feed in feeds}
    certain = bool(inputs) and all(fields.certain for fields in inputs.values())
    if certain and len(inputs) > 1:
        for finding in union_findings({name: fields.schema for name, fields in inputs.items()}):
            report.find((*path, "from"), finding)
    return Fields(merge(fields.schema for fields in inputs.values()), certain)


def _ask(made: Built, path: Path, check: Callable[[], Iterable[Finding]], certain: bool, report: Report) -> bool:
    """Report a component's findings, except consequences of errors known already, as what is said of a whole component of
    which options were left out may be; whether one was an error."""
    wrong = False
    nothing: list[Finding] = []
    for finding in _guarded(path, lambda: list(check()), nothing, report):
        consequence = report.is_broken((*path, *finding.path)) if finding.path else not made.whole
        if not consequence and (certain or finding.code not in ABOUT_FIELDS):
            report.find(path, finding)
            wrong |= finding.severity == "error"
    return wrong


def _guarded(path: Path, ask: Callable[[], T], otherwise: T, report: Report) -> T:
    """A component whose check breaks is reported; the lint goes on."""
    try:
        return ask()
    except Exception as error:
        report.fail(path, "check-failed", f"the check of this component failed: {type(error).__name__}: {error}")
        return otherwise
