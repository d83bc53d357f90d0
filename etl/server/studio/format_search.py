"""Finds what reads pasted lines, as ``etl infer`` does, and drafts the pipeline and its test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etl.api import EtlError
from etl.inference.fields import find_fields
from etl.inference.match import Match
from etl.inference.pipeline_file import pipeline_text
from etl.inference.sample import Sample, open_sample
from etl.inference.search import find_matches
from etl.server.studio.pasted_lines import pasted_lines
from etl.server.studio.plain_events import browser_value

MAX_CANDIDATES = 8
"""Maximum number of recipes and parsers that the page lists."""


def open_file(file: Path) -> dict[str, str]:
    """The file that the page opens with: a pipeline to edit, or the first lines of a log, compressed or not."""
    about = {"name": file.name, "path": str(file.absolute())}
    if file.suffix in (".yaml", ".yml"):
        return {**about, "kind": "pipeline", "text": file.read_text("utf-8", "replace")}
    with open_sample(file) as sample:
        return {**about, "kind": "lines", "text": "".join(f"{line}\n" for line in sample.lines)}


def find_format(text: str, requested: str | None = None, origin: str = "lines.log") -> dict[str, Any]:
    """What reads these lines, the best first, and a pipeline of the best one, or of the ``requested`` format.

    ``origin`` is the file that the pipeline's source reads. Raises EtlError if nothing reads a line.
    """
    with pasted_lines(text) as lines, open_sample(lines.path) as sample:
        found = find_matches(sample, requested)
        if not found:
            raise EtlError(f"no recipe and no parser reads a line such as {sample.lines[0][:120]!r}; write a pattern for it")
        chosen = next((one for one in found if one.candidate.name == requested), found[0])
        return {
            "candidates": [_candidate(one) for one in found[:MAX_CANDIDATES]],
            "chosen": chosen.candidate.name,
            "yaml": _draft(chosen, sample, Path(origin)),
            "unread": [browser_value(line) for line in chosen.unread],
            "fields": [{"name": one.name, "type": one.type, "nulls": one.nulls} for one in find_fields(chosen)],
            "notes": _notes(chosen),
        }


def _draft(match: Match, sample: Sample, origin: Path) -> str:
    """The pipeline's text without a test: the page makes one of what it shows."""
    text = pipeline_text(match, origin)
    first, _, rest = text.partition("\n")
    return rest if first.startswith("# yaml-language-server:") else text


def _candidate(one: Match) -> dict[str, Any]:
    return {
        "name": one.candidate.name,
        "kind": one.candidate.kind,
        "about": one.candidate.about,
        "events": one.events,
        "read": one.read,
        "rejected": one.rejected,
        "fields": round(one.filled, 1),
    }


def _notes(one: Match) -> Sequence[str]:
    return one.candidate.proposal.notes if one.candidate.proposal else ()
