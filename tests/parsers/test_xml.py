"""The parser `xml`: paths, attributes, repeated elements, the rest, and documents that mean harm."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.xml.parser import Xml

EVENT = """<?xml version="1.0" encoding="utf-16"?>
<Event xmlns="http://schemas.example/event" xmlns:x="urn:x">
  <System>
    <Provider Name="Auditing" x:Guid="{5}"/>
    <EventID Qualifiers="16384">4625</EventID>
    <TimeCreated SystemTime="2024-02-29T12:00:00.5Z"/>
    <Empty/>
  </System>
  <EventData>
    <Data Name="User">D&#xFC;rer &amp; <![CDATA[<Söhne>]]></Data>
    <Data Name="IpAddress">127.0.0.1</Data>
    <Data>-</Data>
  </EventData>
  <x:tags><tag>a</tag><tag>b</tag><tag/></x:tags>
</Event>"""


def run(step: Xml, *texts: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    batch = pa.RecordBatch.from_pydict({"message": pa.array(texts, pa.string())})
    events, rejects = step.open(batch.schema)(batch)
    assert events.schema == step.fields(batch.schema)
    assert events.num_rows + sum(reject.events.num_rows for reject in rejects) == len(texts)
    return events.to_pylist(), [reason for reject in rejects for reason in reject.reasons.to_pylist()]


def value(text: str, path: str, type_: str = "string", **options: Any) -> Any:
    events, reasons = run(Xml(fields={"v": type_}, paths={"v": path}, rest=None, **options), text)
    assert not reasons
    return events[0]["v"]


def rest(text: str, *paths: str, **options: Any) -> Any:
    fields = {f"f{n}": "string" for n in range(len(paths))}
    step = Xml(fields=fields, paths={f"f{n}": path for n, path in enumerate(paths)}, rest="rest", **options)
    (event,), _ = run(step, text)
    return None if event["rest"] is None else json.loads(event["rest"])


def reason(text: str | None, **options: Any) -> str:
    events, reasons = run(Xml(**options), text)
    assert not events
    return reasons[0]


# ── Paths ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "type_", "expected"),
    [
        ("System/EventID", "int", 4625),
        ("System/EventID", "string", "4625"),
        ("/Event/System/EventID", "int", 4625),
        ("/Other/System/EventID", "int", None),
        ("/*/System/EventID/@Qualifiers", "int", 16384),
        ("System/Provider/@Guid", "string", "{5}"),
        ("System/TimeCreated/@SystemTime", "timestamp", datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC)),
        ("System/Empty", "string", None),
        ("System/Nothing", "string", None),
        ("EventData/Data", "string", "Dürer & <Söhne>"),
        ("EventData/Data[@Name='IpAddress']", "string", "127.0.0.1"),
        ('EventData/Data[ @Name = "IpAddress" ]', "string", "127.0.0.1"),
        ("EventData/Data[2]", "string", "127.0.0.1"),
        ("EventData/Data[4]", "string", None),
        ("EventData/Data[@Name='User'][2]", "string", None),
        ("EventData/Data", "array<string>", ["Dürer & <Söhne>", "127.0.0.1", "-"]),
        ("EventData/Data/@Name", "array<string>", ["User", "IpAddress"]),
        ("//tag", "array<string>", ["a", "b", None]),
        ("//@Name", "string", "Auditing"),
        ("tags/tag[3]", "string", None),
        ("*[tag='b']/tag", "string", "a"),
        ("*/EventID", "long", 4625),
        ("tags", "string", "ab"),
        ("missing/tag", "array<int>", None),
        ("@none", "string", None),
    ],
)
def test_paths(path: str, type_: str, expected: Any) -> None:
    assert value(EVENT, path, type_) == expected


def test_elements_inside_are_taken_once() -> None:
    nested = "<r><a><b>1</b><a><b>2</b></a></a><b>3</b></r>"

    assert value(nested, "//a//b", "array<int>") == [1, 2]
    assert value(nested, "//b", "array<int>") == [1, 2, 3]
    assert value(nested, "//b[3]", "array<int>") == [3]
    assert value("<r>" + "<a>" * 90 + "<b/>" * 50_000 + "</a>" * 90 + "</r>", "//a//a//b[50000]") is None


def test_names_are_paths() -> None:
    events, _ = run(Xml(fields={"System.EventID": "int", "System.Provider.@Name": "string"}, rest=None), EVENT)

    assert events == [{"System.EventID": 4625, "System.Provider.@Name": "Auditing"}]


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("", 0),
        ("a//", 1),
        ("a/@k/b", 4),
        ("a[0]", 1),
        ("a[x]", 1),
        ("a b", 1),
        ("@a@b", 2),
        ("/a[1]/b", 0),
        ("./a", 0),
        ("@k[1]", 0),
        ("a/.", 1),
    ],
)
def test_bad_paths_are_found(path: str, at: int) -> None:
    (finding,) = Xml(fields={"f": "string"}, paths={"f": path}).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path, finding.at) == ("bad-path", ("paths", "f"), at)


# ── What fails ────────────────────────────────────────────────────────────────────────────────────


def test_entities_that_expand_or_fetch_are_refused() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    documents = [
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><a>&l9;</a>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///dev/zero">%p;]><a/>',
        f'<!DOCTYPE a [<!ENTITY x "{"x" * 10_000}">]><a>{"&x;" * 10_000}</a>',
    ]

    for document in documents:
        assert reason(document) == "has a document type ('a'), which is refused"


@pytest.mark.parametrize("depth", [1, 2, 100])
def test_depth(depth: int) -> None:
    assert reason("<a>" * (depth + 1) + "</a>" * (depth + 1), max_depth=depth) == f"is nested deeper than {depth} elements"
    assert run(Xml(max_depth=depth), "<a>" * depth + "</a>" * depth)[1] == []
    assert reason("<a>" * 20_000 + "</a>" * 20_000).startswith("is nested deeper")


def test_size_is_in_bytes() -> None:
    assert run(Xml(max_bytes=10), "<a>üü</a>", "<a>xxxx</a>", "<a>xxx</a>")[1] == ["is longer than 10 bytes"] * 2


def test_values_that_do_not_fit_fail_alone() -> None:
    events, reasons = run(
        Xml(fields={"n": "int", "l": "array<int>"}, rest=None), "<a><n>1</n></a>", "<a><n>x</n></a>", "<a><l>1</l><l>y</l></a>"
    )

    assert events == [{"n": 1, "l": None}]
    assert reasons == ["field 'n' is 'x', not int", "field 'l' is 'y', not int"]


def test_space_and_byte_order_mark_around_a_document() -> None:
    assert value('\ufeff \n<?xml version="1.0"?><a>x</a>\r\n', ".") == "x"


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"fields": {"a": "map<string,string>"}}, "unreadable-type", ("fields", "a")),
        ({"fields": {"a": "int", "a.b": "int"}}, "field-conflict", ("fields",)),
        ({"fields": {"a": "int"}, "rest": "a"}, "field-conflict", ("rest",)),
        ({"paths": {"a": "b"}}, "unknown-field", ("paths", "a")),
        ({"fields": {"message": "int"}, "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    (finding,) = Xml(**options).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)


# ── Laws ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | st.text(max_size=20) | st.text("<>/ab='\"&;![]x: \n", max_size=40), max_size=5))
def test_no_text_raises(texts: list[str | None]) -> None:
    run(Xml(), *texts)
    run(Xml(fields={"a": "int", "b": "array<double>"}, rest="r", namespaces="keep"), *texts)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(EVENT)), st.text(max_size=3))
def test_nor_does_a_document_that_was_cut_or_changed(at: int, inserted: str) -> None:
    run(Xml(fields={"System.EventID": "int"}, rest="r"), EVENT[:at], EVENT[:at] + inserted + EVENT[at:])


@pytest.mark.slow
def test_huge_texts() -> None:
    wide = "<a>" + "<b/>" * 100_000 + "</a>"
    long = "<a>" + "x" * 10_000_000 + "</a>"

    assert len(json.loads(run(Xml(), wide)[0][0]["xml"])["a"]["b"]) == 100_000
    assert reason(long) == "is longer than 1048576 bytes"
