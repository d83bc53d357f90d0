"""What is tried on a sample: nothing that cannot read it."""

from __future__ import annotations

import pytest

from etl.inference.candidates import may_open, may_read, parser_candidates, recipe_candidate
from etl.resources import recipes

PROSE = ["2026-11-20 06:25:03 INFO started", "2026-11-20 06:25:04 INFO took=3 ms"] * 10


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("json", ' {"a": 1}'),
        ("cef", "Nov 20 06:25:03 gate CEF:0|a|b|1|c|d|5|src=192.0.2.1"),
        ("leef", "LEEF:1.0|a|b|1|c|src=192.0.2.1"),
        ("xml", "<a/>"),
        ("key_value", "level=info msg=x"),
        ("url", "https://example.org/a?b=c"),
        ("user_agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ("weblog", '192.0.2.1 - - [20/Nov/2026:06:25:03 +0000] "GET / HTTP/1.1" 200 5'),
    ],
)
def test_a_parser_is_tried_where_lines_have_its_sign(name: str, line: str) -> None:
    assert may_read(name, [line])
    assert name in [one.name for one in parser_candidates([line])]
    assert not may_read(name, PROSE[:1])


@pytest.mark.parametrize("line", ['{"message": "x", "list": [1]}', "<Event><a/></Event>"])
def test_objects_and_elements_are_not_tried_as_lines_of_text(line: str) -> None:
    tried = {one.name for one in parser_candidates([line])}

    assert not tried & {"syslog", "w3c", "weblog", "url", "user_agent", "geoip", "timestamp"}


def test_pairs_in_few_lines_are_not_worth_a_try_unless_they_are_wanted() -> None:
    lines = PROSE[:1] * 9 + PROSE[1:2]

    assert "key_value" not in [one.name for one in parser_candidates(lines)]
    assert "key_value" in [one.name for one in parser_candidates(lines, "key_value")]


def test_a_recipe_of_objects_is_not_tried_on_lines_without_any() -> None:
    recipe = recipe_candidate("osquery", recipes()["osquery"])

    assert recipe is not None
    assert may_open(recipe, ['{"name": "x"}'])
    assert not may_open(recipe, PROSE)
