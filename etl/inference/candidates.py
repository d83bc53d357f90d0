"""Candidates for a sample: recipes, and parsers that need no options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from etl.api import Parser, Source, Step, visible
from etl.catalogue import installed, type_name
from etl.config.loader import inspect
from etl.config.model import Pipeline, Stream
from etl.config.schema import summary
from etl.config.stream_schemas import step_schemas
from etl.inference.csv_columns import CsvTable
from etl.inference.grok.proposal import Proposal
from etl.plan.segments import runs_on_arrow
from etl.testing.given_source import GivenSource

PARSER_STREAM, PARSER_SOURCE = "steps", "main"
"""What the stream and source of the short form are called."""

DELIMITERS = (",", ";", "\t", "|")
_COLUMN = re.compile(r"[A-Za-z_@#][\w .()\-/%]*")
"""What the name of a column looks like."""

REST = "rest"
"""The field that takes what a parser has no declared field for."""
PLACEHOLDER = "_"
"""The field declared for a parser that requires at least one."""


@dataclass(frozen=True)
class Candidate:
    """A recipe, or a parser alone. ``pipeline`` has the steps that run on Arrow, up to the first that does not."""

    name: str
    about: str
    pipeline: Pipeline
    recipe: Path | None = None
    parser: Parser | None = None
    fields: frozenset[str] = field(default_factory=frozenset)
    """The fields that its parsers make."""
    details: frozenset[str] = field(default_factory=frozenset)
    """Fields of parsers that pass on events which they cannot parse."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that the parser needs for this sample."""
    then: tuple[Mapping[str, Any], ...] = ()
    """Options of the steps after the parser."""
    proposal: Proposal | None = None
    """The patterns generated from the lines, if it is such a candidate."""

    @property
    def kind(self) -> str:
        """``recipe``, ``parser``, or ``made`` (generated from the lines)."""
        return "recipe" if self.recipe else "made" if self.proposal else "parser"

    @property
    def types(self) -> frozenset[str]:
        """The types of its parsers."""
        return frozenset(
            step.type for stream in self.pipeline.streams.values() for step in stream.steps if isinstance(step, Parser)
        )

    @property
    def opening(self) -> frozenset[str]:
        """The types of the parsers that get unparsed lines."""
        streams = [stream for stream in self.pipeline.streams.values() if set(stream.inputs) <= set(self.pipeline.sources)]
        firsts = (next((step for step in stream.steps if isinstance(step, Parser)), None) for stream in streams)
        return frozenset(step.type for step in firsts if step)


@cache
def recipe_candidate(name: str, path: Path) -> Candidate | None:
    """A recipe as a candidate; None if it does not parse the lines of a single file source, or needs Spark for that."""
    checked = inspect(path, _PlaceholderEnvironment())
    return _recipe(name, path, checked.pipeline) if checked.pipeline is not None else None


def parser_candidates(lines: Sequence[str] = ("",), requested: str | None = None) -> Iterator[Candidate]:
    """The parser ``requested``, and parsers that need no options and may read the lines; the first line may name columns."""
    for component in installed().families["step"].values():
        name = type_name(component)
        if (
            issubclass(component, Parser)
            and (name == requested or may_read(name, lines))
            and (found := _minimal_parser(component, lines[0]))
        ):
            yield _parser(*found)


SIGNS: Mapping[str, tuple[re.Pattern[str], float]] = {
    "json": (re.compile(r"\s*\{"), 0.0),
    "cef": (re.compile(r".*?CEF:"), 0.0),
    "leef": (re.compile(r".*?LEEF:"), 0.0),
    "xml": (re.compile(r"\s*<"), 0.0),
    "key_value": (re.compile(r".*?\w="), 0.5),
}
"""Parser → a pattern of the lines that it reads, and the share of lines that must match it for the parser to be tried.

Kernels are compiled at a parser's first use, which takes seconds: parsers that cannot read the lines are not tried.
"""

ALONE: Mapping[str, tuple[re.Pattern[str], float]] = {
    **SIGNS,
    "w3c": (re.compile(r"#|\d{4}-\d\d-\d\d[ \t]\d\d:\d\d"), 0.0),
    "timestamp": (re.compile(r"\s*(?:\d|[A-Z][a-z]{2})"), 0.5),
    "syslog": (re.compile(r"(?!\s*(?:\{|<[A-Za-z?!]))"), 0.5),
    "weblog": (re.compile(r"(?!\s*[{<]).*\["), 0.5),
    "url": (re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?/"), 0.5),
    "user_agent": (re.compile(r"\s*[\w.-]+/\d"), 0.5),
    "geoip": (re.compile(r"\s*[0-9a-fA-F]*[.:][0-9a-fA-F.:]+\s*$"), 0.5),
}
"""As `SIGNS`, for parsers alone: in a recipe, options may replace what the lines lack."""

LOOKED_AT = 1_000
"""Lines that are tested."""


def may_read(name: str, lines: Sequence[str]) -> bool:
    """Whether enough lines match the parser's pattern; a parser without one, as of another package, may always read them."""
    if name not in ALONE:
        return True
    sign, min_share = ALONE[name]
    having = sum(1 for line in lines[:LOOKED_AT] if sign.match(line))
    return having > 0 and having >= min_share * len(lines[:LOOKED_AT])


def may_open(candidate: Candidate, lines: Sequence[str]) -> bool:
    """Whether one of a recipe's first parsers may read some of the lines."""
    known = [SIGNS[name][0] for name in candidate.opening if name in SIGNS]
    return (
        not known or len(known) < len(candidate.opening) or any(sign.match(line) for sign in known for line in lines[:LOOKED_AT])
    )


def table_candidate(table: CsvTable) -> Candidate:
    """The parser `csv` for delimited values without a header, with guessed names."""
    steps = installed().families["step"]
    parser = steps["csv"].model_validate({"type": "csv", **table.options()})
    assert isinstance(parser, Parser)
    found = _parser(parser, table.options())
    if table.time_format is None:
        return replace(found, about=TABLE)
    timestamp = {"type": "timestamp", "formats": [table.time_format]}
    timed = steps["timestamp"].model_validate(timestamp)
    assert isinstance(timed, Step)
    stream = replace(found.pipeline.streams[PARSER_STREAM], steps=(parser, timed))
    pipeline = replace(found.pipeline, streams={PARSER_STREAM: stream})
    return replace(found, about=TABLE, pipeline=pipeline, then=(timestamp,))


TABLE = "Delimited values without a header; names and types are guessed from what is in the columns."


class _PlaceholderEnvironment(dict[str, str]):
    """An environment for files whose variables have no default."""

    def get(self, name: str, default: Any = None) -> Any:
        return default

    def __contains__(self, name: object) -> bool:
        return True


def _recipe(name: str, path: Path, pipeline: Pipeline) -> Candidate | None:
    only = next(iter(pipeline.sources.values())) if len(pipeline.sources) == 1 else None
    if not isinstance(only, Source) or only.type != "file":
        return None
    streams = row_wise(pipeline)
    parsers = [step for stream in streams.values() for step in stream.steps if isinstance(step, Parser)]
    if not parsers:
        return None
    given = set(visible(only.fields()).names)
    parsed = frozenset(name for parser in parsers for name in parser.parsed_fields().names) - given
    sure = {name for parser in parsers if parser.on_error != "keep" for name in parser.parsed_fields().names}
    about = pipeline.description or ""
    return Candidate(name, about, replace(pipeline, streams=streams), path, fields=parsed, details=parsed - sure)


def row_wise(pipeline: Pipeline) -> dict[str, Stream]:
    """The streams with the steps that run on Arrow: those before the first Spark step."""
    found: dict[str, Stream] = {}
    whole = set(pipeline.sources)
    for stream in pipeline.streams.values():
        if not set(stream.inputs) <= whole:
            continue
        steps = _leading_arrow_steps(stream.steps, step_schemas(pipeline, stream.name))
        if len(steps) == len(stream.steps):
            whole.add(stream.name)
        if steps or len(steps) == len(stream.steps):
            found[stream.name] = replace(stream, steps=steps)
    return found


def _leading_arrow_steps(steps: tuple[Step, ...], schemas: Any) -> tuple[Step, ...]:
    for number, (step, incoming) in enumerate(zip(steps, schemas, strict=False)):
        if not runs_on_arrow(step, incoming):
            return steps[:number]
    return steps


def _minimal_parser(component: type[Parser], first: str) -> tuple[Parser, Mapping[str, Any]] | None:
    """The parser with the first valid options, and those options that a pipeline must set."""
    for given, needed in _options(component, first):
        try:
            return component.model_validate({"type": type_name(component), **given}), needed
        except ValidationError:
            continue
    return None


def _options(component: type[Parser], first: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Options to try: the first line as the header of columns; none; no declared field, and everything in the rest."""
    if {"header", "delimiter"} <= component.model_fields.keys():
        for delimiter in DELIMITERS:
            cells = [cell.strip('" ') for cell in first.split(delimiter)]
            if len(cells) > 1 and len(set(cells)) == len(cells) and all(map(_COLUMN.fullmatch, cells)):
                given = {"header": first, "delimiter": delimiter}
                yield given, given
        return  # without names it has no fields
    yield {}, {}
    if "rest" in component.model_fields:
        yield {"fields": {PLACEHOLDER: "string"}, "rest": REST}, {}


def _parser(parser: Parser, options: Mapping[str, Any]) -> Candidate:
    source = GivenSource(columns=pa.schema([("message", pa.string())]))
    stream = Stream(PARSER_STREAM, (PARSER_SOURCE,), (parser,))
    pipeline = Pipeline(parser.type, {PARSER_SOURCE: source}, {PARSER_STREAM: stream}, {})
    fields = frozenset(parser.parsed_fields().names) - {"message"}
    return Candidate(parser.type, summary(type(parser)), pipeline, parser=parser, fields=fields, options=options)
