"""One case of filebeat's: its lines through a recipe's own steps, and the events that filebeat made of them.

A group of recipes lists its rows in a module of its own (``filebeat_rows_a.py`` …), as a tuple ``ROWS``.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from etl.api import OFFSET
from etl.config.cases.case import Case, CaseInput, ExpectedOutput, Lines
from etl.config.cases.case_file import Suite, inspect_tests
from etl.resources import recipes
from etl.testing.capture import read_captured
from etl.testing.trial import build_test_plan, needs_spark, run_without_spark
from etl.testing.values import is_equal, to_plain

Event = Mapping[str, Any]

SHIPPERS = (
    "input.type",
    "service.type",
    "event.module",
    "event.dataset",
    "fileset.name",
    "log.offset",
    "log.flags",
    "log.file.path",
)
"""Fields that the shipper adds, not the parser: left out on both sides, as the NOTICE names them."""

TABLES = ("geo", "as", "user_agent")
"""Members that come from tables outside (MaxMind's, browsers'): left out on both sides, as the NOTICE allows."""


RUN_ZONE = ("event.timezone", "-02:00")
"""The zone of the machine that filebeat ran on, which it notes in each event; left out as a field of the shipper's."""

ARRAYS = ("event.category", "event.type", "event.action")
"""Fields that are arrays in ECS, and that some modules give as a value."""


@dataclass(frozen=True)
class Row:
    """A fileset and the recipe that reads it. Every field but the first two has a reason in the comment beside it."""

    fileset: str
    recipe: str
    cases: str = "*"
    """Which of its cases, by the name of the log without its ending; the first row that fits a case takes it."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Choices of the recipe; ``Etc/GMT+2`` is the zone of filebeat's run."""
    place: str | None = None
    """The stream or sink whose events are compared; none means all sinks, of which there is one."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Our fields (or prefixes of them) and filebeat's names for them."""
    objects: Mapping[str, str] = field(default_factory=dict)
    """Our text fields that hold a JSON object, and the prefix of its members at filebeat ('' for none)."""
    more: Sequence[str] = ()
    """Fields (or prefixes) that only we have: left out of ours where filebeat's event has them not."""
    left_out: Sequence[str] = ()
    """Fields (or prefixes) left out on both sides, each with its reason in a comment."""
    texts: Sequence[str] = ()
    """Fields whose numbers some of filebeat's modules give as text; in ECS they are numbers."""
    no_time: bool = False
    """Whether the expected events have no @timestamp (reader_settings.json: timestamp_absent_for_datasets)."""
    exceptions: Mapping[str, str] = field(default_factory=dict)
    """``<log>@<offset>`` of events that differ on purpose, and why. They count as differing all the same."""

    def takes(self, log: str) -> bool:
        """Whether this row is about a log."""
        return log.startswith(f"{self.fileset}/") and fnmatch(Path(log).stem, self.cases)


@dataclass(frozen=True)
class Compared:
    """What came of one case: differing events by offset, with the fields that differ as (name, expected, found)."""

    log: str
    one_line: bool
    expected: int
    wrong: Mapping[int, Sequence[tuple[str, Any, Any]]]
    row: Row

    @property
    def equal(self) -> int:
        """Events that are equal as a whole."""
        return max(0, self.expected - len(self.wrong))

    def __str__(self) -> str:
        return f"{self.log}: {self.equal} of {self.expected}"


def compared(folder: Path, entry: Mapping[str, Any], row: Row) -> Compared:
    """Run a case's log through the recipe and compare whole events, paired by their offset in the file."""
    theirs = {event["log.offset"]: event for event in json.loads((folder / entry["expected"]).read_text())}
    ours = dict(events_of(row, folder / entry["log"]))
    wrong = {offset: tuple(differences(row, event, ours.get(offset))) for offset, event in theirs.items()}
    if len(theirs) < 100:  # the file has no other events: those that we find beside them are wrong
        wrong |= {offset: (("event", None, offset),) for offset in ours if offset not in theirs}
    return Compared(
        entry["log"],
        entry["one_line_one_event"],
        len(theirs),
        {offset: fields for offset, fields in wrong.items() if fields},
        row,
    )


def events_of(row: Row, log: Path) -> Iterator[tuple[int, Event]]:
    """Offset and event, flat, of all that the recipe's own steps make of a log; no Spark is started."""
    tests = suite(row.recipe, tuple(sorted(row.env.items())))
    place = row.place or next(iter(tests.pipeline.sinks))
    given = {name: CaseInput((), lines=Lines(str(log.resolve()))) for name in tests.pipeline.sources}
    case = Case("filebeat", (), given, {place: ExpectedOutput(())}, now="2026-11-20T12:00Z")
    with tempfile.TemporaryDirectory() as name:
        plan = build_test_plan(replace(tests, cases=(case,)), case, Path(name))
        assert not needs_spark(plan), f"{row.recipe} hands events to Spark"
        run_without_spark(plan)
        folder = Path(name) / place
        for batch in read_captured(folder) if folder.is_dir() else ():
            for found in batch.to_pylist():
                yield found[OFFSET], {key: to_plain(value) for key, value in found.items() if key != OFFSET and value is not None}


@cache
def suite(recipe: str, choices: tuple[tuple[str, str], ...]) -> Suite:
    """A recipe with its choices made."""
    found = inspect_tests(recipes()[recipe], {**os.environ, **dict(choices)})
    assert found.suite is not None, [str(problem) for problem in found.problems]
    return found.suite


def differences(row: Row, theirs: Event, ours: Event | None) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ: name, value in theirs and in ours."""
    if ours is None:
        yield "event", theirs.get("message", True), None
        return
    expected = _compared_fields(row, theirs)
    found = _compared_fields(row, _renamed(row, ours))
    for name in sorted({*expected, *found}):
        if name not in expected and _under(name, row.more):
            continue
        if not _alike(row, name, expected.get(name), found.get(name)):
            yield name, expected.get(name), found.get(name)


def _renamed(row: Row, ours: Event) -> Event:
    """Our event under filebeat's names, its JSON objects unfolded."""
    event: dict[str, Any] = {}
    for name, value in ours.items():
        if name in row.objects:
            event |= dict(_members(row.objects[name], json.loads(value)))
        else:
            event[_new_name({"timestamp": "@timestamp", **row.renamed}, name)] = value
    return event


def _new_name(names: Mapping[str, str], name: str) -> str:
    """The longest prefix that is named decides."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        stem = ".".join(parts[:count])
        if stem in names:
            return ".".join([names[stem], *parts[count:]])
    return name


def _members(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Members of an object by dotted names."""
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for name, member in value.items():
        yield from _members(f"{prefix}.{name}" if prefix else name, member)


def _compared_fields(row: Row, event: Event) -> Event:
    """The fields that count; null and empty ones do not."""
    absent = (*SHIPPERS, *row.left_out, *(("@timestamp",) if row.no_time else ()))
    return {
        name: value
        for name, value in event.items()
        if not _under(name, absent)
        and (name, value) != RUN_ZONE
        and not {*name.split(".")} & {*TABLES}
        and value not in (None, [], {})
    }


def _under(name: str, prefixes: Sequence[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _alike(row: Row, name: str, theirs: Any, ours: Any) -> bool:
    """Equality, with what filebeat's way of writing values loses."""
    if name in row.texts and isinstance(theirs, str) and isinstance(ours, int):
        return theirs == str(ours)
    if name == "event.duration" and isinstance(theirs, int) and isinstance(ours, int):
        return math.isclose(theirs, ours, rel_tol=1e-7)  # computed there in floats of 32 bits
    if _MILLIS.match(str(theirs)) and _MICROS.match(str(ours)):
        ours = ours[:23] + "Z"  # it keeps milliseconds
    if name in ARRAYS:
        theirs, ours = ([value] if isinstance(value, str) else value for value in (theirs, ours))
    return is_equal(_sorted(theirs), _sorted(ours))


_MILLIS = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}(Z|[+-]\d\d:\d\d)$")
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z$")


def _sorted(value: Any) -> Any:
    """Lists have no order at filebeat."""
    return sorted(value, key=str) if isinstance(value, list) else value
