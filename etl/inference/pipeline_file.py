"""Writing a pipeline file that reads the sampled file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from etl.inference.candidates import REST, Candidate
from etl.inference.fields import FoundField, fields_block, find_fields
from etl.inference.grok.proposal import Proposal
from etl.inference.made_candidate import source_lines, step_lines
from etl.inference.match import Match
from etl.resources import folder, schema_file
from etl.testing.edits import Edit, apply_edits
from etl.testing.yaml_writer import format_scalar


def recipe_text(path: Path) -> str:
    """A recipe's text for any folder: relative paths are made absolute."""
    text = path.read_text("utf-8")
    text = text.replace("$schema=../schemas/pipeline.schema.json", f"$schema={schema_file().as_uri()}", 1)
    return text.replace("file: ../samples/", f"file: {folder('samples')}/")


def pipeline_text(match: Match, origin: Path) -> str:
    """A pipeline with the recipe or parser, and ``origin`` as its source."""
    candidate = match.candidate
    if candidate.proposal is not None:
        return "\n".join(_proposal_lines(match, candidate.proposal, origin)) + "\n"
    if candidate.recipe is None:
        return "\n".join(_parser_lines(match, origin)) + "\n"
    text = recipe_text(candidate.recipe)
    return apply_edits(text, [Edit((*_source_path(text, candidate), "path"), str(origin.absolute()))])


def _source_path(text: str, candidate: Candidate) -> tuple[str, ...]:
    short = "source" in yaml.load(text, Loader=yaml.CSafeLoader)
    return ("source",) if short else ("sources", next(iter(candidate.pipeline.sources)))


def _proposal_lines(match: Match, made: Proposal, origin: Path) -> Iterator[str]:
    yield f"# yaml-language-server: $schema={schema_file().as_uri()}"
    yield f"# Made from {origin.name}: reads {match.read:,} of its first {match.events:,} events. Rename the fields as you like."
    yield from source_lines(made, origin)
    yield from step_lines(made)
    yield "sink:"
    yield "  type: console"


def _parser_lines(match: Match, origin: Path) -> Iterator[str]:
    parser = match.candidate.parser
    assert parser is not None
    yield f"# yaml-language-server: $schema={schema_file().as_uri()}"
    yield f"# {parser.type} reads {match.read:,} of the first {match.events:,} events of {origin.name}."
    yield "source:"
    yield "  type: file"
    yield f"  path: {format_scalar(str(origin.absolute()))}"
    yield "steps:"
    yield f"  - type: {parser.type}"
    yield from (f"    {name}: {format_scalar(value)}" for name, value in match.candidate.options.items())
    yield from _options(match)
    for step in match.candidate.then:
        yield f"  - {format_scalar(step)}"
    yield "sink:"
    yield "  type: console"


def _options(match: Match) -> Iterator[str]:
    """The parser's ``fields`` with the fields found, if it has the option; undeclared members go to the rest."""
    parser = match.candidate.parser
    assert parser is not None
    options = {field.alias or name for name, field in type(parser).model_fields.items()}
    if not {"fields", REST} <= options:
        return
    fields = [one for one in find_fields(match) if one.name != getattr(parser, REST)]
    if "fields" in type(parser).model_json_schema().get("required", ()) or _came_in_rest(match, fields):
        yield from fields_block(fields, "    ", comments=False)
        yield f"    rest: {getattr(parser, REST) or REST}"


def _came_in_rest(match: Match, fields: list[FoundField]) -> bool:
    return any(one.name not in match.candidate.fields for one in fields)
