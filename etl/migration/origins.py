"""Which tool a configuration is of, and its import."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from etl.migration.draft import NoCounterpartError
from etl.migration.report import ImportReport
from etl.migration.sampling import Member

MAX_HEAD = 1 << 16
"""Bytes of a file from which its tool is recognised."""


@dataclass(frozen=True)
class ImportRequest:
    """What a user wants to import."""

    files: Sequence[Path]
    pipeline: str | None = None
    """The pipeline to import, where a file has several."""
    timezone: str = "UTC"
    sample: Path | None = None
    members: Mapping[str, Member] | None = None
    """Members of the JSON lines of the sample."""

    @property
    def zone(self) -> str:
        return f"${{TIMEZONE:-{self.timezone}}}"

    @property
    def samples(self) -> Mapping[str, Mapping[str, Member]]:
        return {"message": self.members} if self.members is not None else {}

    @property
    def name(self) -> str:
        return clean_pipeline_name(self.files[0].stem)


@dataclass(frozen=True)
class Imported:
    """A pipeline file, and what was carried over."""

    text: str
    report: ImportReport
    noun: str
    """What the report counts."""


def clean_pipeline_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "imported"


def import_configuration(request: ImportRequest) -> Imported:
    """The pipeline of a configuration. Raises NoCounterpartError if the files are none that is known here."""
    head = request.files[0].read_bytes()[:MAX_HEAD].decode("utf-8", "replace")
    for patterns, run in _KINDS:
        if _has_in_order(head, patterns):
            return run(request)
    return _ingest(request)


def _has_in_order(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether each pattern has a match after that of the one before. Each looks at the text once."""
    at = 0
    for pattern in patterns:
        found = pattern.search(text, at)
        if found is None:
            return False
        at = found.end()
    return True


def _ingest(request: ImportRequest) -> Imported:
    from etl.migration.ingest.documents import IngestFiles
    from etl.migration.ingest.pipeline import IngestImport
    from etl.migration.rendering import render

    read = IngestFiles()
    for file in request.files:
        read.add(file)
    read.add_called()
    main = request.pipeline or read.main
    if main not in read.pipelines:
        raise NoCounterpartError(f"there is no pipeline {main!r}; the files have {', '.join(read.pipelines)}")
    ingest = IngestImport(read.pipelines, read.locate, request.zone, request.samples)
    draft = ingest.run(main)
    ingest.report.remarks += draft.remarks
    name = clean_pipeline_name(main if main != "pipeline" else request.files[0].resolve().parent.name)
    description = str(read.pipelines[main].get("description", "")).strip()
    source = {"type": "file", "path": f"${{LOG:-{request.sample or f'/var/log/{name}.log'}}}"}
    text = render(name, description, source, draft, {"type": "file", "path": f"${{OUT:-{name}.jsonl}}"})
    return Imported(text, ingest.report, "processors")


def _logstash(request: ImportRequest) -> Imported:
    from etl.migration.logstash.importer import LogstashImport, read_configurations

    configuration, files, text = read_configurations(request.files)
    one = LogstashImport(configuration, files, text, request.name, request.zone, request.samples)
    return Imported(one.run().text(), one.report, "plugins and options")


def _fluent_bit(request: ImportRequest) -> Imported:
    from etl.migration.fluent_bit.configuration import FluentFiles
    from etl.migration.fluent_bit.importer import FluentBitImport

    files = FluentFiles()
    for file in request.files:
        files.add(file)
    one = FluentBitImport(files, request.name, request.zone, request.samples)
    return Imported(one.run().text(), one.report, "sections and rules")


def _vector(request: ImportRequest) -> Imported:
    from etl.migration.vector.importer import VectorImport, read_configuration

    if len(request.files) > 1:
        raise NoCounterpartError(f"{request.files[1]}:1:1: a configuration of Vector is one file")
    file = request.files[0]
    one = VectorImport(read_configuration(file), str(file), request.name, request.zone, request.samples)
    return Imported(one.run(), one.report, "components")


def _filebeat(request: ImportRequest) -> Imported:
    from etl.migration.filebeat.configuration import FilebeatFiles
    from etl.migration.filebeat.importer import FilebeatImport

    files = FilebeatFiles()
    for file in request.files:
        files.add(file)
    one = FilebeatImport(files, request.name, request.zone, request.samples)
    return Imported(one.run().text(), one.report, "inputs, processors and outputs")


def _telegraf(request: ImportRequest) -> Imported:
    from etl.migration.telegraf.importer import TelegrafImport

    one = TelegrafImport(request.files[0], request.name, request.zone)
    return Imported(one.run().text(), one.report, "plugins")


def _rsyslog(request: ImportRequest) -> Imported:
    from etl.migration.rsyslog.importer import RsyslogImport, read_configurations

    one = RsyslogImport(read_configurations(request.files), request.name, request.zone)
    return Imported(one.run(), one.report, "inputs, statements and actions")


_SOURCES, _SINKS = (re.compile(rf"^\"?{name}\"?:[ \t]*(?:[#{{].*)?$", re.MULTILINE) for name in ("sources", "sinks"))

_KINDS: Sequence[tuple[Sequence[re.Pattern[str]], Callable[[ImportRequest], Imported]]] = (
    ([re.compile(r"\A(?:\s|#[^\n]*\n|\ufeff)*(?:input|filter|output)\s*\{")], _logstash),
    ([re.compile(r"^[ \t]*\[(?:SERVICE|INPUT|FILTER|OUTPUT|PARSER)\]", re.MULTILINE | re.IGNORECASE)], _fluent_bit),
    ([re.compile(r"^[ \t]*\[\[inputs\.", re.MULTILINE)], _telegraf),
    ([re.compile(r"^\[sources\.", re.MULTILINE)], _vector),
    ([_SOURCES, _SINKS], _vector),
    ([_SINKS, _SOURCES], _vector),
    ([re.compile(r"^filebeat(?:\.[\w.]+)?:", re.MULTILINE)], _filebeat),
    ([re.compile(r"\A(?:\s|#[^\n]*\n|\ufeff)*-[ \t]+(?:type|id|enabled):", re.MULTILINE)], _filebeat),
    (
        [
            re.compile(r"^pipeline:[ \t]*(?:#.*)?$", re.MULTILINE),
            re.compile(r"^[ \t]+(?:inputs|filters|outputs):", re.MULTILINE),
        ],
        _fluent_bit,
    ),
    (
        [
            re.compile(
                r"^[ \t]*(?:(?:module|global|input|action|ruleset|template|include)\([ \t]*[a-z]\w*[ \t]*="
                r"|\$(?:ModLoad|IncludeConfig|template|WorkDirectory)[ \t]"
                r"|(?:\*|[a-z]+)(?:,[a-z]+)*\.(?:[=!]*[a-z]+|\*)[^\s:]*[ \t]+(?:-?/|@|[|?~:]|action\())",
                re.MULTILINE | re.IGNORECASE,
            )
        ],
        _rsyslog,
    ),
)
"""How the configurations of a tool look, and their import: texts that stand one after the other."""
