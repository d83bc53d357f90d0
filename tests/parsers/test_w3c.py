"""W3C extended logs: lists of fields, directives in the stream, blanks written as plus."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.w3c.parser import W3c

IIS = (
    "2023-01-02 03:04:05 10.0.0.1 GET /a+b x=1+2 443 CORP\\bob 192.168.1.7 Mozilla/5.0+(Windows+NT+10.0) "
    "https://example.com/?q=a+b 200 0 64 15"
)
FIELDS = {
    "timestamp": datetime(2023, 1, 2, 3, 4, 5, tzinfo=UTC),
    "destination.address": "10.0.0.1",
    "destination.ip": "10.0.0.1",
    "http.request.method": "GET",
    "url.path": "/a+b",
    "url.query": "x=1+2",
    "destination.port": 443,
    "user.name": "CORP\\bob",
    "source.address": "192.168.1.7",
    "source.ip": "192.168.1.7",
    "user_agent.original": "Mozilla/5.0 (Windows NT 10.0)",
    "http.request.referrer": "https://example.com/?q=a+b",
    "http.response.status_code": 200,
    "iis.access.sub_status": 0,
    "iis.access.win32_status": 64,
    "event.duration": 15_000_000,
}


def parse(line: str | None, *fields: str, **options: Any) -> Any:
    """The fields of a line that are not null, or why it failed."""
    step = W3c(fields=fields or ("iis",), **options)
    assert list(step.check(pa.schema([("message", pa.string())]))) == []
    parsed = step.compile()(pa.array([line], pa.string()))
    types = [(name, pa.string() if c.type == pa.string_view() else c.type) for name, c in parsed.columns.items()]
    assert step.parsed() == pa.schema(types)
    if parsed.failed is not None and parsed.failed[0].as_py():
        return parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons[0].as_py()
    return {name: column[0].as_py() for name, column in parsed.columns.items() if column[0].is_valid}


def test_iis() -> None:
    assert parse(IIS) == FIELDS
    assert parse(IIS + "\r") == FIELDS
    assert parse(IIS, plus=False) == FIELDS | {"user_agent.original": "Mozilla/5.0+(Windows+NT+10.0)"}
    assert parse("- - - - - - - - - - - - - - -") == {}


@pytest.mark.parametrize(
    ("fields", "line", "expected"),
    [
        (
            "#Fields: date time c-ip cs-uri-stem",
            "2023-01-02 03:04:05.25 ::1 /",
            {
                "timestamp": datetime(2023, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC),
                "source.address": "::1",
                "source.ip": "::1",
                "url.path": "/",
            },
        ),
        ("time cs-method date", "03:04:05 GET 2023-01-02", None),
        ("c-ip s-port", "fe80::1%0 -", {"source.address": "fe80::1%0", "source.ip": "fe80::1"}),
        ("c-ip s-port", "unknown -", {"source.address": "unknown"}),
        (
            "cs(User-Agent) sc(Content-Type)",
            '"a b" c+d',
            {"user_agent.original": "a b", "http.response.headers.content_type": "c d"},
        ),
        ("x-edge-location time-taken", "FRA2 0.123", {"w3c.x_edge_location": "FRA2", "event.duration": 123_000_000}),
        ("cs-version sc-bytes", "HTTP/1.1\t77", {"http.version": "1.1", "http.response.bytes": 77}),
        ("cs-method cs-method-2 x-%", "a b c", {"http.request.method": "a", "w3c.cs_method_2": "b", "w3c.x_": "c"}),
        ("cs-host cs(Cookie)", "é k=v;+w", {"destination.domain": "é", "iis.access.cookie": "k=v; w"}),
    ],
)
def test_lists_of_fields(fields: str, line: str, expected: dict[str, Any] | None) -> None:
    alone = {"w3c.time": "03:04:05", "http.request.method": "GET", "w3c.date": "2023-01-02"}

    assert parse(line, fields) == (alone if expected is None else expected)


def test_several_lists() -> None:
    assert parse(IIS, "iis7", "iis", "iis_all") == FIELDS
    assert parse("::1 GET", "c-ip", "c-ip cs-method") == {
        "source.address": "::1",
        "source.ip": "::1",
        "http.request.method": "GET",
    }
    assert parse("1 2 3", "c-ip", "c-ip s-port") == "has 3 words, not the values of 1 fields: c-ip or of 2 fields: c-ip s-port"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 2 3", "has 3 words, not the values of 2 fields: date time"),
        ("", "has 0 words, not the values of 2 fields: date time"),
        (None, "message is null"),
        ("today now", "has 2 words, not the values of 2 fields: date time"),
        ("2023-02-30 00:00:00", "field 'timestamp' is '2023-02-30 00:00:00', not a time in"),
    ],
)
def test_what_is_no_line(line: str | None, reason: str) -> None:
    assert parse(line, "date time").startswith(reason)


def test_numbers_that_are_none() -> None:
    assert parse("x", "sc-status").startswith("has 1 words")
    assert parse("9" * 20, "sc-status") == f"field 'http.response.status_code' is '{'9' * 20}', not a number of 64 bits"


@pytest.mark.parametrize("type_", [pa.string(), pa.string_view()])
def test_directives_are_dropped_and_other_fields_reported(type_: pa.DataType) -> None:
    lines = [
        "\ufeff#Software: IIS",
        "#Fields: c-ip sc-status",
        "::1 200",
        "#Fields: c-ip",
        "a b c",
        None,
        "#Fields: sc-status c-ip",
        "::2 404",
    ]
    batch = pa.record_batch({"message": pa.array(lines, type_), "_offset": range(8)})
    step = W3c(fields=["#Fields: c-ip  sc-status ", "c-ip"])

    events, rejects = step.open(batch.schema)(batch)

    assert events.column("_offset").to_pylist() == [2, 7]
    assert [(reject.code, reject.events.column("_offset").to_pylist()) for reject in rejects] == [
        ("w3c-failed", [4, 5]),
        ("w3c-other-fields", [6]),
    ]
    assert rejects[1].reasons == "the lines here have the values of 2 fields: c-ip sc-status or of 1 fields: c-ip"


def test_kept_lines_are_not_directives() -> None:
    batch = pa.record_batch({"message": ["#Fields: date", "bad", "::1"], "_offset": [0, 1, 2]})

    events, rejects = W3c(fields=["c-ip sc-status"], on_error="keep").open(batch.schema)(batch)

    assert (events.column("message").to_pylist(), list(rejects)) == (["bad", "::1"], [])


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"fields": ["iis", "iiss"]}, "unknown-format", ("fields", 1)),
        ({"fields": ["#Fields:"]}, "no-field", ("fields", 0)),
        ({"fields": ["c-ip c-ip"]}, "field-conflict", ("fields", 0)),
        ({"fields": ["c-ip date time"], "timestamp": "source"}, "field-conflict", ("fields",)),
        ({"timestamp": "message", "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    step = W3c(**options)

    (finding,) = step.check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)
    step.parsed()


TEXTS = st.text(max_size=20) | st.lists(st.sampled_from([*IIS.split(" "), "-", '"', "#", "\x00", "\n", "+"]), max_size=16).map(
    " ".join
)


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_any_text_is_read_or_fails(texts: list[str]) -> None:
    batch = pa.record_batch({"message": pa.array(texts, pa.string_view()), "_offset": pa.array(range(len(texts)), pa.int64())})

    events, rejects = W3c(fields=["date time c-ip cs(User-Agent) sc-status", "iis"]).open(batch.schema)(batch)

    rows = [*events.column("_offset").to_pylist(), *(row for r in rejects for row in r.events.column("_offset").to_pylist())]
    assert sorted(rows) == [row for row, text in enumerate(texts) if not text.startswith("#")]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20) | st.lists(st.sampled_from(["date", "time", "c-ip", "cs(", "x)", "cs(a)", "\x00"])).map(" ".join))
def test_any_list_is_read_or_refused(text: str) -> None:
    step = W3c(fields=[text or "x"])

    if not list(step.check(pa.schema([("message", pa.string())]))):
        step.compile()(pa.array([IIS, "", None]))


def test_huge_and_hostile_texts() -> None:
    texts = ["::1 " + "x" * 3_000_000, "x " * 100_000, '"' * 100_000, "::1 \x00", "::1 " + "+" * 100_000]

    parsed = W3c(fields=["c-ip cs(User-Agent)"]).compile()(pa.array(texts))

    assert parsed.failed.to_pylist() == [False, True, True, False, False]
    assert [text and len(text) for text in parsed.columns["user_agent.original"].to_pylist()] == [
        3_000_000,
        None,
        None,
        1,
        100_000,
    ]
