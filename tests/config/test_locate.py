"""Characters of a scalar's text → places in the file."""

from __future__ import annotations

import pytest

from etl.config.document.parser import parse
from etl.config.document.text_locations import location_at


@pytest.mark.parametrize(
    ("text", "expected", "location"),
    [
        ("a: xy%z\n", "%", (1, 6)),
        ("a: 'it''s %'\n", "%", (1, 11)),
        ('a: "\\\\d \\u00e9 %"\n', "%", (1, 16)),
        ("a: |\n  one\n\n  two %\n", "%", (4, 7)),
        ("b: 1\na: |-\n    one\n      two %\n", "%", (4, 11)),
        ("a: >\n  one\n  two %\n", "%", (1, 4)),
        ("a: one\n  two %\n", "%", (1, 4)),
    ],
)
def test_location_at(text: str, expected: str, location: tuple[int, int]) -> None:
    document = parse(text)

    assert location_at(document, document.locations[("a",)], document.value["a"].index(expected)) == location


def test_outside_of_the_text() -> None:
    document = parse("a: x\n")

    assert location_at(document, document.locations[("a",)], 99) == (1, 4)
