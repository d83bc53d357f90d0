"""Probes of the systems that a pipeline uses: `etl lint --connect` and `etl run --require-healthy`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import ComponentError, Finding, LookupTable, Schema, Sink, Source
from etl.config.build import secrets
from etl.config.document.parser import read
from etl.config.environment import substitute
from etl.config.layout import Layout, Part, lay_out
from etl.config.model import OptionPath, Pipeline
from etl.config.overrides import override
from etl.config.problems import Problem
from etl.config.report import Report
from etl.config.stream_schemas import merge, schemas_of
from etl.delivery.dead_letters import SCHEMA

LIMIT_SECONDS = 10.0
"""Seconds that all probes together may take; they run in parallel."""

Probe = Callable[[], Iterable[Finding]]


@dataclass
class _ProbeThread(threading.Thread):
    """One probe in a daemon thread, which may still run when its time is up."""

    path: OptionPath
    probe: Probe
    findings: list[Finding] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__init__(name="probe", daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        self.findings = _run_probe(self.probe)


def probe_pipeline(
    pipeline: Pipeline, env: Mapping[str, str], overrides: Sequence[str] = (), seconds: float = LIMIT_SECONDS
) -> list[Problem]:
    """Findings of the tables, sources and sinks of a checked pipeline about their systems, in file order. Writes nothing."""
    report = Report(pipeline.file, read(Path(pipeline.file).read_bytes()))
    threads = [_ProbeThread(path, probe) for path, probe in _collect_probes(pipeline, _lay_out(report, env, overrides), report)]
    for one in threads:
        one.start()
    end = time.monotonic() + seconds
    for one in threads:
        one.join(max(0.0, end - time.monotonic()))
        late = [Finding("no-answer", f"no answer within {seconds:g} s")]
        for finding in late if one.findings is None else one.findings:
            report.add_finding(one.path, finding)
    return report.sorted()


def _lay_out(report: Report, env: Mapping[str, str], overrides: Sequence[str]) -> Layout:
    """The parts of the file, with the values of this run."""
    root = report.document.value
    assert isinstance(root, dict)
    root = substitute({key: value for key, value in root.items() if key != "tests"}, env, report)
    override(root, overrides, report)
    return lay_out(root, report)


def _collect_probes(pipeline: Pipeline, layout: Layout, report: Report) -> Iterator[tuple[OptionPath, Probe]]:
    """Every part with its probe; secrets in its options are masked in the report."""
    for part, component, probe in _collect_parts(pipeline, layout):
        for _, secret in secrets(type(component), part.options):
            report.mask(secret, "***")
        yield part.path, probe


def _collect_parts(pipeline: Pipeline, layout: Layout) -> Iterator[tuple[Part, Source | Sink | LookupTable, Probe]]:
    fields = schemas_of(pipeline)
    for name, table in pipeline.tables.items():
        yield layout.tables[name], table, table.probe
    for name, source in pipeline.sources.items():
        if isinstance(source, Source):
            yield layout.sources[name], source, source.probe
    for name, output in pipeline.sinks.items():
        if name in layout.sinks:  # one that the file does not have is the console
            incoming = merge([fields[feed] for feed in output.inputs])
            yield layout.sinks[name].part, output.sink, _make_sink_probe(output.sink, incoming)
    if pipeline.dead_letters is not None and layout.dead_letters is not None:
        yield layout.dead_letters, pipeline.dead_letters, _make_sink_probe(pipeline.dead_letters, SCHEMA)


def _make_sink_probe(sink: Sink, fields: Schema) -> Probe:
    return lambda: sink.probe(fields)


def _run_probe(probe: Probe) -> list[Finding]:
    try:
        return list(probe())
    except OSError as error:
        return [Finding("unreachable", str(error) or type(error).__name__)]
    except ComponentError as error:
        return [Finding("not-ready", str(error))]
    except Exception as error:
        return [Finding("probe-failed", f"the probe of this component failed: {type(error).__name__}: {error}")]
