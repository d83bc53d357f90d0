"""Generating a test for the pipeline of a sample: some of its lines, and the events that they become."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from etl.config.cases.case_file import inspect_tests
from etl.inference.match import Match
from etl.inference.sample import Sample
from etl.plan.query_plan import Plan
from etl.testing import update
from etl.testing.trial import run_case
from etl.testing.yaml_writer import format_scalar

NAME = "lines of the sample"
MAX_LINES = 3
"""Lines in the test of a parser; patterns generated from the lines get one for each."""
LONGEST = 2_000
"""Characters of a line in a test."""


def add_test(text: str, match: Match, sample: Sample) -> str:
    """The pipeline file with a passing test; a recipe has tests of its own."""
    if match.candidate.recipe is not None:
        return text
    lines = list(_lines(match, sample))
    if not lines:
        return text
    tests = [f"tests:\n  {NAME}:\n"]
    if _lacks_year(match):
        tests.append(f"    now: {datetime.now(UTC):%Y-%m-%dT%H:%MZ}  # for dates without a year\n")
    tests += ["    input:\n", *(f"      - {format_scalar(line)}\n" for line in lines)]
    return _with_expected_events(text, text + "".join(tests))


def _lines(match: Match, sample: Sample) -> Iterator[str]:
    made = match.candidate.proposal
    events: Sequence[str] = [one.example for one in made.patterns if one.example] if made else sample.lines[:MAX_LINES]
    yield from (line for event in events if len(event) <= LONGEST for line in event.split("\n"))


def _lacks_year(match: Match) -> bool:
    made = match.candidate.proposal
    if made is None:
        return "syslog" in match.candidate.types
    return any("y" not in text and text[:3] not in ("iso", "epo") for text in made.formats)


def _with_expected_events(text: str, tested: str) -> str:
    """The file with the actual events as expected ones; without a test if they cannot be written."""
    with tempfile.TemporaryDirectory(prefix="etl-init-") as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(tested, "utf-8")
        suite = inspect_tests(file, {}, ()).suite
        if suite is None or not suite.cases:
            return text
        case = suite.cases[0]
        update.write(str(file), list(update.edits(suite, case, run_case(suite, case, _refuse_spark))))
        return file.read_text("utf-8")


def _refuse_spark(plan: Plan, folder: Path, drain: bool) -> None:
    raise AssertionError("a parser and a console need no Spark")
