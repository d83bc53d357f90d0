"""``etl test --update``: the actual output becomes the expectation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.api import EtlError
from etl.config.cases.case import Case, ExpectedOutput
from etl.config.cases.case_file import Suite
from etl.config.document.parser import parse
from etl.testing.case_comparison import comparable_rows, event_path, with_letter_fields
from etl.testing.edits import Edit, apply_edits
from etl.testing.event_pairs import find_unequal_pairs
from etl.testing.trial import LETTERS, CapturedEvents, Outcome

LETTER_FIELDS = ("code", "event")
"""Fields written of a dead letter that the test did not expect."""


def edits(suite: Suite, case: Case, outcome: Outcome) -> Iterator[Edit]:
    """The edits of the file that make the test pass; none for ``contains``, which cannot be derived from the output."""
    if case.shows:
        yield Edit((*case.path, "expect"), {name: _all(found.rows) for name, found in outcome.events.items()})
    for name, expected in case.expected.items():
        yield from _edits(suite, expected, outcome.events[name])
    if case.dead_letters:
        letters = _short(with_letter_fields(outcome.letters, case.dead_letters), case.dead_letters)
        yield from _edits(suite, case.dead_letters, letters)
    elif outcome.letters.rows:
        yield Edit((*case.path, LETTERS), _all(_name_rows(outcome.letters.rows, LETTER_FIELDS)))


def _edits(suite: Suite, expected: ExpectedOutput, found: CapturedEvents) -> Iterator[Edit]:
    if expected.count is not None and expected.count != len(found.rows):
        at = (*expected.path, "count")
        if at in suite.locations:
            yield Edit(at, len(found.rows))
        else:
            yield Edit(expected.path, _all(found.rows) if expected.count == 0 else len(found.rows))
    if expected.events is not None:
        expected_rows, came = comparable_rows(expected, found)
        pairs = find_unequal_pairs(expected_rows, came, found.ordered)
        if all(pair.expected is not None and pair.found is not None for pair in pairs):
            yield from (Edit(event_path(suite, expected, pair.expected or 0), came[pair.found or 0]) for pair in pairs)
        else:
            whole = (*expected.path, "events")
            yield Edit(whole if whole in suite.locations else expected.path, _all(came))


def _short(letters: CapturedEvents, expected: ExpectedOutput) -> CapturedEvents:
    """Dead letters with the fields that the test names, or `LETTER_FIELDS`: times differ in each run."""
    if expected.fields or any(expected.events or ()):
        return letters
    return replace(letters, rows=_name_rows(letters.rows, LETTER_FIELDS))


def _all(rows: Iterable[Mapping[str, Any]]) -> Any:
    return list(rows) or "none"


def _name_rows(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names if name in row} for row in rows]


def write(file: str, changes: list[Edit]) -> None:
    """Change a file in place. Raises EtlError when the result would not be YAML any more."""
    path = Path(file)
    data = path.read_bytes()
    text = apply_edits(data.decode("utf-8-sig"), changes)
    if parse(text).flaws:
        raise EtlError(f"{file}: the actual events cannot be written into this file; write the test in block style")
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    path.write_bytes(mark + text.encode())
