"""Where the values of fields are in a text, for parsers that do not say it."""

from __future__ import annotations

from typing import Any

import pytest

from etl.server.studio.marked_texts import locate_fields
from parsers.json.parser import Json


@pytest.mark.parametrize(
    ("text", "row", "marked"),
    [
        (
            "Nov 29 14:00:02 web2 sshd[2]: Failed",
            {"pid": 2, "host": "web2", "app": "sshd"},
            {"pid": "2", "host": "web2", "app": "sshd"},
        ),
        ("14 1 [4]", {"pid": 4, "n": 1}, {"pid": "4", "n": "1"}),
        ("a b a", {"x": "a", "y": "a"}, {"x": "a", "y": "a"}),
        ("key:value", {"x": "key:", "y": "value"}, {"x": "key:", "y": "value"}),
        ("true null", {"x": True, "y": None, "z": "", "other": "absent"}, {}),
    ],
)
def test_values_are_found_as_whole_words(text: str, row: dict[str, Any], marked: dict[str, str]) -> None:
    (spans,) = locate_fields(Json(fields={"x": "string"}), [text], [row])

    assert {span.field: text[span.start : span.end] for span in spans} == marked
    for one in spans:
        assert not (text[one.start].isalnum() and text[one.start - 1 : one.start].isalnum())
