"""Lines of an attacker's making through every recipe: nothing raises, and a line is an event or a dead letter.

Lines are those of the samples with pieces put in or cut off: quotes, escapes, control characters, half of JSON.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filebeat_case import suite
from running import ROOT

from etl.config.cases.case import Case, CaseInput, ExpectedOutput
from etl.config.model import Pipeline
from etl.resources import recipes
from etl.testing.capture import read_captured
from etl.testing.trial import build_test_plan, needs_spark, run_without_spark

pytestmark = pytest.mark.slow

PIECES = (
    '"',
    "\\",
    "'",
    '"],"x":["',
    "\x00",
    "\x1b[31m",
    "\t",
    "\u2028",
    "é",
    "{",
    "}}",
    "[",
    "%s",
    "|",
    "=",
    ";",
    " ",
    "9" * 400,
    "\\u12",
    "$1",
)
"""What is put into lines."""

CHANGED_LINES = 150


def changed(line: str, chance: random.Random) -> str:
    """The line with a piece in place of nothing or of some characters, or cut off."""
    at = chance.randrange(len(line) + 1)
    kept = line[at + chance.choice((0, 0, 1, 5, 40)) :] if chance.random() < 0.9 else ""
    return line[:at] + chance.choice(PIECES) + kept


def hostile(name: str) -> list[str]:
    """Changed lines of the recipe's samples; the same in every run."""
    chance = random.Random(name)
    samples = sorted((ROOT / "samples").glob(f"{name}.*")) or [ROOT / "samples" / "ssh-auth.log"]
    lines = [line for path in samples for line in path.read_text(errors="replace").splitlines() if line]
    return [changed(chance.choice(lines), chance) for _ in range(CHANGED_LINES)]


def row_wise(pipeline: Pipeline, case: Case, lines: Path) -> str | None:
    """A place whose events need no Spark: a sink, else a stream; the last there is."""
    tests = suite(pipeline.name, ())
    for place in (*pipeline.sinks, *reversed(pipeline.streams)):
        tried = replace(case, expected={place: ExpectedOutput(())})
        if not needs_spark(build_test_plan(replace(tests, cases=(tried,)), tried, lines, empty=True)):
            return place
    return None


def count(folder: Path) -> int:
    """Captured events."""
    return sum(batch.num_rows for batch in read_captured(folder)) if folder.is_dir() else 0


def keeps_all(pipeline: Pipeline) -> bool:
    """Whether each line must come out: nothing filters (w3c: directives), drops or gathers lines, and none goes two ways."""
    steps = [step for stream in pipeline.streams.values() for step in stream.steps]
    filters = any(step.type in ("filter", "rules", "w3c") or getattr(step, "on_error", "") == "drop" for step in steps)
    gathers = any(getattr(source, "multiline", None) for source in pipeline.sources.values())
    return not filters and not gathers and len(pipeline.streams) == 1


@pytest.mark.parametrize("name", recipes())
def test_nothing_raises_and_no_line_is_lost(name: str, tmp_path: Path) -> None:
    tests = suite(name, ())
    given: Mapping[str, Any] = {source: CaseInput((), batches=(tuple(hostile(name)),)) for source in tests.pipeline.sources}
    empty: dict[str, Any] = dict.fromkeys(tests.pipeline.tables, ())
    case = Case("hostile", (), given, {}, now="2026-11-20T12:00Z", tables=empty)
    place = row_wise(tests.pipeline, case, tmp_path)
    assert place is not None
    case = replace(case, expected={place: ExpectedOutput(())})

    with tempfile.TemporaryDirectory() as folder:
        run_without_spark(build_test_plan(replace(tests, cases=(case,)), case, Path(folder)))
        letters, events = (count(Path(folder) / end) for end in ("dead_letters", place))

    lines = CHANGED_LINES * len(given)
    assert events + letters <= lines
    assert events + letters == lines or not keeps_all(tests.pipeline)
