"""Comparing a test's expectations with the output: differences, each with its location in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etl.config.cases.case import Case, ExpectedOutput, flat_event
from etl.config.cases.case_file import Suite
from etl.config.model import OptionPath
from etl.testing.event_pairs import Pair, find_unequal_pairs, likeness
from etl.testing.trial import LETTERS, CapturedEvents, Outcome
from etl.testing.values import is_equal
from etl.testing.yaml_writer import format_flow_mapping, format_scalar

MAX_SHOWN_EVENTS = 5
"""Maximum number of events listed in a message."""


@dataclass(frozen=True)
class Difference:
    """One difference: its location, a message, and lines that begin with ``-`` (expected) or ``+`` (found)."""

    location: str
    text: str
    lines: tuple[str, ...] = ()


def differences(suite: Suite, case: Case, outcome: Outcome) -> list[Difference]:
    """All differences from the test's expectations."""
    found = [
        difference
        for name, expected in case.expected.items()
        for difference in _differences_of(suite, name, expected, outcome.events[name])
    ]
    if not case.shows:
        letters = case.dead_letters or ExpectedOutput(case.path, count=0)  # without expectation, no dead letters are expected
        found += _differences_of(suite, LETTERS, letters, with_letter_fields(outcome.letters, letters))
    return found


def comparable_rows(expected: ExpectedOutput, found: CapturedEvents) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The expected events and the events found, with the compared fields only."""
    names = found.schema.names
    expected_rows = [flat_event(event, names) for event in expected.events or ()]
    compared_fields = set(expected.fields or names)
    return [_only(row, compared_fields) for row in expected_rows], [_only(row, compared_fields) for row in found.rows]


def _only(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}


def with_letter_fields(found: CapturedEvents, expected: ExpectedOutput) -> CapturedEvents:
    """Dead letters with the fields that the test names, as others such as the time differ in each run."""
    named = {name for event in expected.events or () for name in event}
    if expected.fields or not named:
        return found
    return CapturedEvents([_only(row, named) for row in found.rows], found.schema, found.ordered)


def _differences_of(suite: Suite, name: str, expected: ExpectedOutput, found: CapturedEvents) -> Iterator[Difference]:
    if expected.count is not None and expected.count != len(found.rows):
        text = f"{name}: expected {_events(expected.count, name)}, found {len(found.rows)}"
        yield Difference(suite.location(expected.path), text, _list_rows(found.rows, name))
    if expected.events is not None:
        expected_rows, came = comparable_rows(expected, found)
        for pair in find_unequal_pairs(expected_rows, came, found.ordered):
            yield _pair(suite, name, expected, pair, expected_rows, came)
    for at, event in enumerate(expected.contains):
        yield from _find_contained(
            suite, name, (*expected.path, "contains", at), flat_event(event, found.schema.names), found.rows
        )


def _pair(
    suite: Suite,
    name: str,
    expected: ExpectedOutput,
    pair: Pair,
    expected_rows: Sequence[dict[str, Any]],
    came: Sequence[dict[str, Any]],
) -> Difference:
    if pair.expected is None:
        assert pair.found is not None
        text = f"{name}: an event that is not expected"
        return Difference(suite.location(expected.path), text, (f"+ {_shown(came[pair.found], name)}",))
    location = suite.location(event_path(suite, expected, pair.expected))
    row = expected_rows[pair.expected]
    if pair.found is None:
        return Difference(location, f"{name}[{pair.expected}] is missing", (f"- {_shown(row, name)}",))
    return Difference(location, f"{name}[{pair.expected}]", tuple(_fields(row, came[pair.found])))


def event_path(suite: Suite, expected: ExpectedOutput, number: int) -> OptionPath:
    """The path of an expected event in the file."""
    longer = (*expected.path, "events")
    return (*(longer if longer in suite.locations else expected.path), number)


def _fields(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """The fields of two events that differ."""
    for name in dict.fromkeys([*expected, *found]):
        if not is_equal(expected.get(name), found.get(name)):
            yield from (f"- {name}: {format_scalar(expected[name])}" for _ in (1,) if expected.get(name) is not None)
            yield from (f"+ {name}: {format_scalar(found[name])}" for _ in (1,) if found.get(name) is not None)


def _find_contained(
    suite: Suite, name: str, path: OptionPath, event: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    if any(likeness(event, row) == len(event) for row in rows):
        return
    likest = max(rows, key=lambda row: likeness(event, row), default=None)
    lines = [f"- {format_flow_mapping(event)}"] if likest is None else _fields(event, _only(likest, set(event)))
    text = f"{name}: there is no such event" + ("" if likest is None else "; the one most like it")
    yield Difference(suite.location(path), text, tuple(lines))


def _list_rows(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    more = [f"  … {len(rows) - MAX_SHOWN_EVENTS} more"] if len(rows) > MAX_SHOWN_EVENTS else []
    return (*(f"+ {_shown(row, name)}" for row in rows[:MAX_SHOWN_EVENTS]), *more)


def _shown(row: Mapping[str, Any], name: str) -> str:
    about = ("at", "code", "reason", "event")
    return format_flow_mapping({key: row[key] for key in about if key in row} if name == LETTERS else row)


def _events(count: int, name: str) -> str:
    return f"{count or 'no'} {'dead letter' if name == LETTERS else 'event'}{'' if count == 1 else 's'}"
