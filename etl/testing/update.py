"""``etl test --update``: what came out becomes what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.api import EtlError
from etl.config.case_file import Suite
from etl.config.cases import Case, Expected
from etl.config.document import parse
from etl.testing.edits import Edit, edited
from etl.testing.pairs import unequal
from etl.testing.trial import LETTERS, Found, Outcome
from etl.testing.verdict import compared, event_path, letters_for

LETTER_FIELDS = ("code", "event")
"""What is written of a dead letter that nobody expected."""


def edits(suite: Suite, case: Case, outcome: Outcome) -> Iterator[Edit]:
    """What has to change in the file for the test to pass; nothing for ``contains``, which says more than what came out."""
    if case.shows:
        yield Edit((*case.path, "expect"), {name: _all(found.rows) for name, found in outcome.events.items()})
    for name, expected in case.expected.items():
        yield from _edits(suite, expected, outcome.events[name])
    if case.dead_letters:
        letters = _short(letters_for(outcome.letters, case.dead_letters), case.dead_letters)
        yield from _edits(suite, case.dead_letters, letters)
    elif outcome.letters.rows:
        yield Edit((*case.path, LETTERS), _all(_named(outcome.letters.rows, LETTER_FIELDS)))


def _edits(suite: Suite, expected: Expected, found: Found) -> Iterator[Edit]:
    if expected.count is not None and expected.count != len(found.rows):
        at = (*expected.path, "count")
        if at in suite.locations:
            yield Edit(at, len(found.rows))
        else:
            yield Edit(expected.path, _all(found.rows) if expected.count == 0 else len(found.rows))
    if expected.events is not None:
        wanted, came = compared(expected, found)
        pairs = unequal(wanted, came, found.ordered)
        if all(pair.expected is not None and pair.found is not None for pair in pairs):
            yield from (Edit(event_path(suite, expected, pair.expected or 0), came[pair.found or 0]) for pair in pairs)
        else:
            whole = (*expected.path, "events")
            yield Edit(whole if whole in suite.locations else expected.path, _all(came))


def _short(letters: Found, expected: Expected) -> Found:
    """Dead letters with the fields that the test names, or the usual ones: nobody knows the time of the next run."""
    if expected.fields or any(expected.events or ()):
        return letters
    return replace(letters, rows=_named(letters.rows, LETTER_FIELDS))


def _all(rows: Iterable[Mapping[str, Any]]) -> Any:
    return list(rows) or "none"


def _named(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names if name in row} for row in rows]


def write(file: str, changes: list[Edit]) -> None:
    """Change a file in place. Raises EtlError when the result would not be YAML any more."""
    path = Path(file)
    data = path.read_bytes()
    text = edited(data.decode("utf-8-sig"), changes)
    if parse(text).flaws:
        raise EtlError(f"{file}: the events that came out cannot be written into this file; write the test in block style")
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    path.write_bytes(mark + text.encode())
