"""Trying a pipeline on some events: the real steps between events that are given, or the first of its sources, and captures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import EtlError, FrameSource, Limit, ReceivingSource, Rejects, Source, visible
from etl.config.cases.case import Case, Event, ExpectedOutput, cases_of
from etl.config.cases.case_check import checked_cases, output_schemas
from etl.config.document.yaml_document import Document
from etl.config.model import Pipeline
from etl.config.problems import ConfigError
from etl.config.report import Report
from etl.sdk.call_site import Site
from etl.sdk.events import Events, html_table
from etl.sdk.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.testing.trial import Outcome

Input = Sequence[Event | Sequence[Event] | Mapping[str, Any]] | str | Mapping[str, Any]
"""Events of a test: a list, or a text of several lines, for the only source; else a mapping of sources to these."""

SAMPLE_BYTES = 4 << 20
"""Bytes of a source that a sample reads at most."""


@dataclass(frozen=True)
class Trial:
    """What came out: the events of each sink or stream, and the dead letters."""

    outputs: Mapping[str, Events]
    dead_letters: Events

    @property
    def events(self) -> Events:
        """The events of the only output. Raises EtlError if there are several."""
        if len(self.outputs) != 1:
            raise EtlError(f"there are several outputs: name one of {', '.join(map(repr, self.outputs))}, such as result[name]")
        return next(iter(self.outputs.values()))

    def __getitem__(self, name: str) -> Events:
        if name not in self.outputs:
            raise KeyError(f"there is no output {name!r}; there are: {', '.join(map(repr, self.outputs))}")
        return self.outputs[name]

    def __str__(self) -> str:
        several = len(self.outputs) > 1 or bool(self.dead_letters)
        parts = [f"{f'{name}:{chr(10)}' if several else ''}{events}" for name, events in self.outputs.items()]
        return "\n\n".join([*parts, *([f"dead letters:\n{self.dead_letters}"] if self.dead_letters else [])])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        shown = [*self.outputs.values(), *([self.dead_letters] if self.dead_letters else [])]
        return "".join(events._repr_html_() for events in shown) or html_table((), ())


def try_events(
    pipeline: Pipeline,
    events: Input,
    site: Site,
    observe: Sequence[str] = (),
    now: str | None = None,
    drain: bool = True,
    tables: Mapping[str, Any] | None = None,
) -> Trial:
    """Run the pipeline on these events, as ``etl test`` does. Raises ConfigError for events that it cannot have."""
    from etl.config.cases.case_file import Suite
    from etl.sdk.session import run_plan
    from etl.testing.trial import run_case

    case = _case(pipeline, {"input": _plain_input(events), "now": now, "drain": drain, "tables": tables or {}}, site, observe)
    outcome = run_case(Suite(site.file, pipeline, (case,), {}), case, run_plan)
    return _trial(outcome, pipeline, case.expected or pipeline.sinks)


def try_sample(pipeline: Pipeline, read: int, observe: Sequence[str] = (), drain: bool = True) -> Trial:
    """Run the pipeline on the first events of its sources. Writes nothing, and remembers nothing."""
    from etl.sdk.session import run_plan
    from etl.testing.trial import build_capture_plan, run_capture_plan

    requested = list(observe) or list(pipeline.sinks)
    sampled = replace(pipeline, sources={name: _sample(name, source, read) for name, source in pipeline.sources.items()})
    with tempfile.TemporaryDirectory(prefix="etl-sample-") as name:
        folder = Path(name)
        plan = build_capture_plan(sampled, requested, folder)
        return _trial(run_capture_plan(plan, sampled, requested, folder, drain, run_plan), pipeline, requested)


def _plain_input(events: Input) -> Any:
    return events if isinstance(events, str) else plain(events)


def _case(pipeline: Pipeline, test: Mapping[str, Any], site: Site, observe: Sequence[str]) -> Case:
    given = {key: value for key, value in test.items() if value is not None}
    report = Report(site.file, Document("", {}))
    _check_shape(given, pipeline, site)
    checked_cases({"test": given}, pipeline, report)
    known = output_schemas(pipeline)
    for name in observe:
        if name not in known:
            report.add((), "unknown-place", f"there is no stream or sink {name!r}", f"there are: {', '.join(known)}")
    if report.errors:
        line, column = site.locate(())
        raise ConfigError([replace(problem, line=line, column=column, path="test") for problem in report.errors])
    [case] = cases_of({"test": given}, list(pipeline.sources), list(pipeline.sinks))
    return replace(case, expected={name: ExpectedOutput(()) for name in observe})


def _check_shape(given: Mapping[str, Any], pipeline: Pipeline, site: Site) -> None:
    """Raises TypeError for an input that is neither a text, a list nor a mapping of such."""
    events = given.get("input")
    lists = events.values() if isinstance(events, dict) else [events]
    for one in lists:
        if not isinstance(one, (str, list, dict)) or (isinstance(one, dict) and set(one) != {"file"}):
            names = ", ".join(map(repr, pipeline.sources))
            raise TypeError(f"events are a list, or a mapping of sources ({names}) to lists, and not {one!r}")
        for number, event in enumerate(one if isinstance(one, list) else (), 1):
            wrong = [part for part in (event if isinstance(event, list) else [event]) if not isinstance(part, (str, dict))]
            if wrong:
                raise TypeError(f"event {number} is {wrong[0]!r}: an event is a text, or a mapping of fields to values")


def _trial(outcome: Outcome, pipeline: Pipeline, requested: Any) -> Trial:
    schemas = output_schemas(pipeline)
    outputs = {
        name: Events(outcome.events[name].rows, _names(outcome.events[name].rows, schemas[name]), name) for name in requested
    }
    letters = [{name: row[name] for name in ("at", "code", "reason", "event") if name in row} for row in outcome.letters.rows]
    return Trial(outputs, Events(letters, ("at", "code", "reason", "event"), "dead letters"))


def _names(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[str]:
    """The fields known before the run, and those that only the events have."""
    return list(dict.fromkeys([*schema.names, *(name for row in rows for name in row)]))


def _sample(name: str, source: Source | FrameSource, read: int) -> Source:
    """A source with the first events of another."""
    from etl.testing.given_source import GivenSource

    cure = "give events: .show(events=[…]) or .test([…])"
    if isinstance(source, FrameSource):
        raise EtlError(f"source {name!r} is read by Spark itself, of which a sample is not taken; {cure}")
    if isinstance(source, ReceivingSource):
        raise EtlError(f"source {name!r} ({source.type}) receives events that come once, of which a sample is not taken; {cure}")
    missing = [one for one in source.probe() if one.code == "missing-input"] if source.probes_here else []
    for one in missing:
        raise EtlError(f"source {name!r}: {one.message}{f'; {one.hint}' if one.hint else ''}")
    return GivenSource(columns=visible(source.fields()), batches=(tuple(_first_events(source, read)),))


def _first_events(source: Source, read: int) -> Iterator[pa.RecordBatch | Rejects]:
    """The first events of a source, ``read`` at most."""
    start = source.start()
    end = source.latest(start, Limit(SAMPLE_BYTES, max_events=read, bounded=True))
    for split in source.splits(start, end, 1):
        for found in source.read(split):
            if isinstance(found, Rejects):
                yield found
                continue
            yield found.slice(0, read)
            read -= found.num_rows
            if read <= 0:
                return
