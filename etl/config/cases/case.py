"""Tests of a pipeline as data: input and expected output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from etl.config.model import OptionPath
from etl.config.nested_values import as_mapping
from etl.options import parse_duration

Json: TypeAlias = dict[str, Any]

Event: TypeAlias = str | Mapping[str, Any]
"""A line, or the fields of an event by name."""

NONE = "none"
"""The word of a file for an expected output without events."""

FILE = "file"

QUIET = "quiet"
"""The only key of an item of an input that is a time without events."""


@dataclass(frozen=True)
class Lines:
    """The lines of a file, beside the file that names it."""

    path: str


@dataclass(frozen=True)
class CaseInput:
    """What one source reads: the events of each micro-batch, or a file."""

    path: OptionPath
    batches: tuple[tuple[Event, ...], ...] = ()
    """Those of a time without events are empty."""
    pauses: Mapping[int, timedelta] = field(default_factory=dict)
    """Number of a micro-batch → the time without events before it."""
    mistakes: tuple[str, ...] = ()
    """Times without events that are not durations, as messages."""
    lines: Lines | None = None


@dataclass(frozen=True)
class ExpectedOutput:
    """The expected events of one stream or sink; what is None is not compared.

    ``events`` are all events, in order where the output has one; each with all of its fields, or ``fields`` only.
    ``contains`` are some of the events, each with these fields and maybe others.
    """

    path: OptionPath
    count: int | None = None
    events: tuple[Mapping[str, Any], ...] | None = None
    fields: tuple[str, ...] | None = None
    contains: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Case:
    """One test. ``expected`` is by stream or sink. Without ``expected`` and ``dead_letters`` it shows its output."""

    name: str
    path: OptionPath
    given: Mapping[str, CaseInput]
    expected: Mapping[str, ExpectedOutput]
    dead_letters: ExpectedOutput | None = None
    now: str | None = None
    drain: bool = True
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """Rows that stand in for those of a table, by its name."""

    @property
    def shows(self) -> bool:
        """Whether it has no expectations, and its output is printed."""
        return not self.expected and self.dead_letters is None


def cases_of(tests: object, sources: Sequence[str], leaves: Sequence[str]) -> list[Case]:
    """The tests of a file that fits the schema. ``leaves`` are the sinks that an ``expect`` without a name may mean."""
    return [_case(name, test, sources, leaves) for name, test in as_mapping(tests).items()]


def _case(name: str, test: Json, sources: Sequence[str], leaves: Sequence[str]) -> Case:
    path: OptionPath = ("tests", name)
    letters = test.get("dead_letters")
    return Case(
        name,
        path,
        dict(_read_inputs(test["input"], (*path, "input"), sources)),
        dict(_read_expected(test.get("expect"), (*path, "expect"), leaves)),
        None if letters is None else _expectation(letters, (*path, "dead_letters")),
        test.get("now"),
        test.get("drain", True),
        {name: tuple(rows) for name, rows in as_mapping(test.get("tables")).items()},
    )


def _read_inputs(value: object, path: OptionPath, sources: Sequence[str]) -> Iterator[tuple[str, CaseInput]]:
    if not isinstance(value, dict):
        yield (sources[0] if sources else ""), _read_batches(value, path)
        return
    for name, item in value.items():
        at = (*path, name)
        yield name, CaseInput(at, lines=Lines(item[FILE])) if isinstance(item, dict) else _read_batches(item, at)


def _read_batches(value: Any, path: OptionPath) -> CaseInput:
    """The micro-batches of an input: a text is its lines; inner lists are micro-batches, and so are the items between them, and
    each time without events."""
    items = value.splitlines() if isinstance(value, str) else value
    batches: list[list[Event]] = []
    pauses: dict[int, timedelta] = {}
    mistakes: list[str] = []
    open_ = False
    for item in items:
        whole = [] if isinstance(item, dict) and item.keys() == {QUIET} else item if isinstance(item, list) else None
        if isinstance(item, dict) and whole is not None:
            try:
                pauses[len(batches)] = parse_duration(item[QUIET])
            except ValueError as error:
                mistakes.append(str(error))
        if open_ and whole is None:
            batches[-1].append(item)
        else:
            batches.append([item] if whole is None else list(whole))
        open_ = whole is None
    return CaseInput(path, tuple(map(tuple, batches)), pauses, mistakes=tuple(mistakes))


def _read_expected(value: object, path: OptionPath, leaves: Sequence[str]) -> Iterator[tuple[str, ExpectedOutput]]:
    if isinstance(value, dict):
        yield from ((name, _expectation(item, (*path, name))) for name, item in value.items())
    elif value is not None:
        yield (leaves[0] if leaves else ""), _expectation(value, path)


def _expectation(value: Any, path: OptionPath) -> ExpectedOutput:
    if value == NONE or isinstance(value, int):
        return ExpectedOutput(path, count=0 if value == NONE else value)
    if isinstance(value, list):
        return ExpectedOutput(path, events=tuple(value))
    events, fields = value.get("events"), value.get("fields")
    return ExpectedOutput(
        path,
        value.get("count"),
        None if events is None else tuple(events),
        None if fields is None else tuple(fields),
        tuple(value.get("contains", ())),
    )


def flat_event(event: Mapping[str, Any], names: Iterable[str], prefix: str = "") -> dict[str, Any]:
    """Dotted or nested members → values by field, as deep as the fields are: a struct inside a list stays a struct."""
    known = set(names)
    found: dict[str, Any] = {}
    for key, value in event.items():
        name = f"{prefix}{key}"
        if name in known or not isinstance(value, dict):
            found[name] = value
        else:
            found |= flat_event(value, known, f"{name}.")
    return found
