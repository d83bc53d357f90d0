"""The parser `leef`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.leef.parser import Leef

ONE, TWO = "LEEF:1.0|v|p|1|42|", "LEEF:2.0|v|p|1|42|"


def event(text: str | None, **options: Any) -> dict[str, Any] | None:
    """All fields of an event that has them, without its version; None when it fails."""
    parsed = Leef(**options).compile()(pa.array([text], pa.string()))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    fields = {name: column[0].as_py() for name, column in parsed.columns.items()}
    rest = json.loads(fields.pop("leef.attributes") or "{}")
    fields.pop("leef.version", None)
    return {name: value for name, value in fields.items() if value is not None} | rest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is null"),
        ("LEEF:x|a|b|c|d|", "has no 'LEEF:' with a version after it"),
        ("LEEF:1.0|a|b|c|d", "has fewer than 5 fields, each ended by '|', after 'LEEF:'"),
        (ONE + "a=1\nb=2", "has a line break inside"),
        (ONE + "sev=high", "field 'event.severity' is 'high', not int"),
    ],
)
def test_reasons(text: str | None, reason: str) -> None:
    parsed = Leef(fields={"event.severity": "int"}).compile()(pa.array([text, ONE + "a=1"], pa.string()))

    assert parsed.failed.to_pylist() == [True, False]
    assert parsed.reasons[0].as_py() == reason
    assert parsed.columns["leef.attributes"].to_pylist() == [None, '{"a":"1"}']


@pytest.mark.parametrize("delimiter", ["ab", "x", "0x", "x12345"])
def test_a_delimiter_that_is_none(delimiter: str) -> None:
    findings = list(Leef(delimiter=delimiter).check(pa.schema([("message", pa.string())])))

    assert [finding.code for finding in findings] == ([] if len(delimiter) == 1 else ["bad-delimiter"])


PIECES = st.sampled_from(["LEEF:1.0|", ONE, TWO, "^|", "x5E|", "x09|", "|", "=", "\t", "^", "a=1", "\n", "é", "\0", "\\", " "])
ANY = st.lists(st.one_of(PIECES, st.characters(codec="utf-8")), max_size=15).map("".join)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(ANY, ANY.map(ONE.__add__), ANY.map(TWO.__add__)), max_size=8))
def test_no_text_raises_and_a_row_does_not_depend_on_its_neighbours(texts: list[str]) -> None:
    parse = Leef(fields={"a": "array<string>"}).compile()

    together = parse(pa.array(texts, pa.string()))

    for row, text in enumerate(texts):
        alone = parse(pa.array([text]))
        assert (together.failed is not None and together.failed[row].as_py()) == (alone.failed is not None)
        for name, column in together.columns.items():
            assert column[row].as_py() == alone.columns[name][0].as_py()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=5))
def test_no_bytes_raise(texts: list[bytes]) -> None:
    column = pa.array([*texts, *(TWO.encode() + text for text in texts)], pa.binary()).view(pa.string())

    assert {len(found) for found in Leef().compile()(column).columns.values()} == {2 * len(texts)}
