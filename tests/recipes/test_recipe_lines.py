"""Lines of vendors' formats through the recipes: every header before every body, and whole lines.

Cases are ``lines/<recipe>.yaml``: ``headers`` and ``bodies`` (their product is read) and ``lines``, each a ``text`` and the
fields that it gives. A field that is ``null`` there must be missing; fields that are not named are not compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from filebeat_case import suite

from etl.api import OFFSET
from etl.config.cases.case import Case, CaseInput, ExpectedOutput, Lines
from etl.testing.capture import read_captured
from etl.testing.trial import build_test_plan, run_without_spark
from etl.testing.values import to_plain

FOLDER = Path(__file__).parent / "lines"
NOW = "2026-11-21T00:00Z"
"""The time of the tests, for dates without a year."""

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A line and fields of its event."""

    text: str
    expected: Fields


@cache
def lines_of(recipe: str) -> tuple[Line, ...]:
    """The product of headers and bodies, and the whole lines."""
    given = yaml.load((FOLDER / f"{recipe}.yaml").read_text(), Loader=yaml.CSafeLoader)
    return (*_combined(given), *(Line(one["text"], one.get("fields", {})) for one in given.get("lines", ())))


def _combined(given: Mapping[str, Any]) -> Iterator[Line]:
    for header, body in product(given.get("headers", ()), given.get("bodies", ())):
        yield Line(header["text"] + body["text"], {**header.get("fields", {}), **body.get("fields", {})})


def events_of(recipe: str, lines: tuple[Line, ...]) -> list[Fields | None]:
    """The event of each line; None where the recipe rejects it."""
    tests = suite(recipe, ())
    sink = next(iter(tests.pipeline.sinks))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "input"
        raw = [line.text.encode() + b"\n" for line in lines]
        path.write_bytes(b"".join(raw))
        given = {source: CaseInput((), lines=Lines(str(path))) for source in tests.pipeline.sources}
        case = Case("lines", (), given, {sink: ExpectedOutput(())}, now=NOW)
        run_without_spark(build_test_plan(replace(tests, cases=(case,)), case, Path(name)))
        found = {event[OFFSET]: event for batch in read_captured(Path(name) / sink) for event in batch.to_pylist()}
    offsets = [sum(map(len, raw[:at])) for at in range(len(raw))]
    return [{key: to_plain(value) for key, value in found[at].items()} if at in found else None for at in offsets]


def differing(line: Line, event: Fields | None) -> str | None:
    """Return a message with the fields that differ from the expected ones; None if there are none."""
    if event is None:
        return f"{line.text}\n    is rejected"
    wrong = {name: (value, event.get(name)) for name, value in line.expected.items() if event.get(name) != to_plain(value)}
    return f"{line.text}\n    expected and found: {wrong}" if wrong else None


@pytest.mark.slow
@pytest.mark.parametrize("recipe", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_lines_of_a_format_give_their_fields(recipe: str) -> None:
    lines = lines_of(recipe)

    events = events_of(recipe, lines)

    wrong = [text for line, event in zip(lines, events, strict=True) if (text := differing(line, event))]
    assert not wrong, f"{len(wrong)} of {len(lines)} lines:\n" + "\n".join(wrong[:8])
