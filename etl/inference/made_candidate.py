"""Patterns generated from the lines, as a candidate and as text of a pipeline file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import Source, Step
from etl.catalogue import installed
from etl.config.model import Pipeline, Stream
from etl.inference.candidates import PARSER_SOURCE, PARSER_STREAM, Candidate
from etl.inference.grok.proposal import TIME, Proposal
from etl.testing.given_source import GivenSource
from etl.testing.yaml_writer import format_flow_mapping, format_scalar

NAME = "grok"
ABOUT = "Patterns made from these lines."


def candidate_of_proposal(made: Proposal) -> Candidate:
    """The candidate with the proposal's steps."""
    steps = tuple(_step(options) for options in steps_of(made))
    source = _source(made.multiline)
    stream = Stream(PARSER_STREAM, (PARSER_SOURCE,), steps)
    pipeline = Pipeline(NAME, {PARSER_SOURCE: source}, {PARSER_STREAM: stream}, {})
    fields = frozenset(name for step in steps for name in step.fields(source.fields()).names if not name.startswith("_"))
    return Candidate(NAME, ABOUT, pipeline, fields=fields, proposal=made)


def _source(multiline: str | None) -> Source:
    if multiline is None:
        return GivenSource(columns=pa.schema([("message", pa.string())]))
    found = installed().families["source"]["file"].model_validate({"path": "/dev/null", "multiline": {"start": multiline}})
    assert isinstance(found, Source)
    return found


def _step(options: Mapping[str, Any]) -> Step:
    found = installed().families["step"][options["type"]].model_validate(options)
    assert isinstance(found, Step)
    return found


def steps_of(made: Proposal) -> Iterator[dict[str, Any]]:
    """The steps with their options."""
    grok: dict[str, Any] = {"type": "grok", "patterns": [one.text for one in made.patterns]}
    if made.definitions:
        grok["pattern_definitions"] = made.definitions
    yield grok
    if made.formats:
        yield {"type": "timestamp", "field": TIME, "formats": list(made.formats)}


def source_lines(made: Proposal, origin: Path) -> Iterator[str]:
    """``source:`` of the pipeline file."""
    yield "source:"
    yield "  type: file"
    yield f"  path: {format_scalar(str(origin.absolute()))}"
    if made.multiline:
        yield f"  multiline: {format_flow_mapping({'start': made.multiline})}  # the first line of an event"


def step_lines(made: Proposal) -> Iterator[str]:
    """``steps:`` of the pipeline file; each pattern with the number of events that it was made for."""
    yield "steps:"
    yield "  - type: grok"
    if made.definitions:
        yield "    pattern_definitions:"
        yield from (f"      {name}: {_pattern(text)}" for name, text in made.definitions.items())
    yield "    patterns:  # tried in this order"
    for one in made.patterns:
        yield f"      - {_pattern(one.text)}  # {one.events:,} event{'' if one.events == 1 else 's'}"
    if made.formats:
        yield "  - type: timestamp"
        yield f"    formats: {format_scalar(list(made.formats))}"
    for note in made.notes:
        yield from textwrap.wrap(note, 120, initial_indent="    # ", subsequent_indent="    # ")


def _pattern(text: str) -> str:
    """In single quotes, where a backslash is one."""
    return "'" + text.replace("'", "''") + "'"
