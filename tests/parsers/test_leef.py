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
HEADER = {"observer.vendor": "v", "observer.product": "p", "observer.version": "1", "event.code": "42"}


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
    ("text", "expected"),
    [
        (ONE, {}),
        (ONE + "src=1.1.1.1\tsrcPort=5\tx=a=b c\t\ty=", {"source.ip": "1.1.1.1", "source.port": "5", "x": "a=b c", "y": ""}),
        (ONE + "a=1\talone\tb=2\r\n", {"a": "1", "alone": True, "b": "2"}),
        (ONE + " a =1\t\t", {"a": "1"}),
        (ONE + "^|a=1^b=2", {"^|a": "1^b=2"}),
        (TWO + "a=1\tb=2", {"a": "1", "b": "2"}),
        (TWO + "|a=1\tb=2", {"a": "1", "b": "2"}),
        (TWO + "^|a=1^b=2\t^", {"a": "1", "b": "2\t"}),
        (TWO + "x|ax1=1xb=2", {"a": True, "1": "1", "b": "2"}),
        (TWO + "x09|a=1\tb=2", {"a": "1", "b": "2"}),
        (TWO + "0x5E|a=1^b=2", {"a": "1", "b": "2"}),
        (TWO + "X5e|a=1^b=2", {"a": "1", "b": "2"}),
        (TWO + "xA6|a=1¦b=2", {"a": "1", "b": "2"}),
        (TWO + "x2192|a=1→b=2", {"a": "1", "b": "2"}),
        (TWO + "→|a=1→b=2", {"a": "1", "b": "2"}),
        (TWO + "😀|a=1😀b=2", {"a": "1", "b": "2"}),
        (TWO + "\\t|a=1\tb=2", {"a": "1", "b": "2"}),
        (TWO + "a=1|2\tb=2", {"a": "1|2", "b": "2"}),
        (TWO + "x123456|=1", {"x123456|": "1"}),
        (f"<13>Jan 18 11:07:53 host {TWO}^|a=1", {"log.syslog.header": "<13>Jan 18 11:07:53 host", "a": "1"}),
        (r"LEEF:1.0|v\|w|p|1|42|", {"observer.vendor": "v|w"}),
        (ONE + "ключ=значение", {"ключ": "значение"}),
        (ONE + "a=1\ta=2", {"a": ["1", "2"]}),
    ],
)
def test_events(text: str, expected: dict[str, Any]) -> None:
    assert event(text) == HEADER | expected


@pytest.mark.parametrize("delimiter", ["^", "x5E", "0x5e"])
def test_a_delimiter_for_all_events(delimiter: str) -> None:
    assert event(ONE + "a=1^b=2\t", delimiter=delimiter) == HEADER | {"a": "1", "b": "2\t"}
    assert event(TWO + "#|a=1^b=2#", delimiter=delimiter) == HEADER | {"a": "1", "b": "2#"}


def test_names_as_written() -> None:
    assert event(ONE + "src=1", naming="written") == {
        "leefVersion": "1.0",
        "vendor": "v",
        "product": "p",
        "version": "1",
        "eventID": "42",
        "src": "1",
    }


def test_declared_fields() -> None:
    found = event(
        ONE + "devTime=Jan 28 2015 02:00:36 GMT+00:00\tsev=5\tsrc=1", fields={"@timestamp": "timestamp", "event.severity": "int"}
    )

    assert found is not None
    assert found["@timestamp"].isoformat() == "2015-01-28T02:00:36+00:00"
    assert (found["event.severity"], found["source.ip"]) == (5, "1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is null"),
        ("LEEF:x|a|b|c|d|", "has no 'LEEF:' with a version behind it"),
        ("LEEF:1.0|a|b|c|d", "has fewer than 5 fields, each ended by '|', behind 'LEEF:'"),
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
