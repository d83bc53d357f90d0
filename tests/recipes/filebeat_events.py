"""Runs imported pipelines over Filebeat's logs, and compares their events with Filebeat's."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from filebeat_case import Row, differences

from etl.api import OFFSET
from etl.config.cases.case import Case, CaseInput, ExpectedOutput, Lines
from etl.config.cases.case_file import inspect_tests
from etl.expressions.quoting import quoted_text
from etl.migration.draft import Draft, DraftStep
from etl.migration.rendering import render
from etl.testing.capture import read_captured
from etl.testing.trial import build_test_plan, needs_spark, run_without_spark
from etl.testing.values import to_plain

LEFT_OUT = ("event.ingested", "host.name", "ecs.version", "event.created")
"""Fields that the expected events leave out (reader_settings.json), or that are the time of reading."""


def write_pipeline(file: Path, draft: Draft, settings: Mapping[str, Any]) -> Path:
    """Write the pipeline with what the shipper does before: it joins lines and leaves some out."""
    source: dict[str, Any] = {"type": "file", "path": "x.log"}
    if joined := settings.get("multiline"):
        source["multiline"] = {"start" if joined["negate"] else "continue": joined["pattern"]}
    if excluded := settings.get("exclude_lines"):
        patterns = (quoted_text(one.replace("^{", "^\\{")) for one in excluded)
        where = " and ".join(f"not regexp_like(message, {pattern})" for pattern in patterns)
        draft.steps.insert(0, DraftStep({"type": "filter", "where": where}))
    text = render("imported", "", source, draft, {"type": "file", "path": "o.jsonl"})
    file.write_text(text + "tests: {a case: {input: [a], expect: []}}\n", "utf-8")
    return file


def count_equal(file: Path, log: Path, expected: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> int:
    """How many of the expected events the pipeline makes of a log, equal as a whole."""
    row = Row("", "", no_time=not any("@timestamp" in event for event in expected))
    found = dict(events_of(file, log, environment))
    equal = 0
    for event in expected:
        theirs = {name: value for name, value in event.items() if name not in LEFT_OUT}
        ours = found.get(event["log.offset"])
        ours = None if ours is None else {name: value for name, value in ours.items() if name not in LEFT_OUT}
        equal += not list(differences(row, theirs, ours))
    return equal


def events_of(file: Path, log: Path, environment: Mapping[str, str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Offset and event of all that a pipeline makes of a log, without Spark."""
    checked = inspect_tests(file, environment)
    assert checked.suite is not None, [str(problem) for problem in checked.problems]
    given = {"log": CaseInput((), lines=Lines(str(log.resolve())))}
    case = Case("filebeat", (), given, {"events": ExpectedOutput(())}, now="2026-11-20T12:00Z")
    with tempfile.TemporaryDirectory() as name:
        plan = build_test_plan(replace(checked.suite, cases=(case,)), case, Path(name))
        assert not needs_spark(plan), f"{file.name} hands events to Spark"
        run_without_spark(plan)
        folder = Path(name) / "events"
        rows = [row for batch in (read_captured(folder) if folder.is_dir() else ()) for row in batch.to_pylist()]
    return [(row[OFFSET], {k: to_plain(v) for k, v in row.items() if k != OFFSET and v is not None}) for row in rows]
