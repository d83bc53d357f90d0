"""Web logs: names of formats, format strings, values that are missing, and what is no line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import Parsed, Schema
from parsers.weblog.parser import Weblog

FAILED = "failed"


@cache
def compiled(formats: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> tuple[Schema, Callable[[pa.Array], Parsed]]:
    step = Weblog(formats=formats, **dict(options))
    assert list(step.check(pa.schema([("message", pa.string())]))) == []
    return step.parsed(), step.compile()


def parse(line: str | None, *formats: str, **options: Any) -> Any:
    """The fields of a line that are not null, or why it failed."""
    schema, read = compiled(formats, tuple(options.items()))
    parsed = read(pa.array([line], pa.string()))
    assert schema == pa.schema([(n, pa.string() if c.type == pa.string_view() else c.type) for n, c in parsed.columns.items()])
    if parsed.failed is not None and parsed.failed[0].as_py():
        return parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons[0].as_py()
    return {name: column[0].as_py() for name, column in parsed.columns.items() if column[0].is_valid}


LINE = '10.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.0" 200 2326'
FIELDS = {
    "source.address": "10.0.0.1",
    "source.ip": "10.0.0.1",
    "user.name": "bob",
    "timestamp": datetime(2000, 10, 10, 20, 55, 36, tzinfo=UTC),
    "http.request.method": "GET",
    "url.original": "/a?b=1",
    "http.version": "1.0",
    "http.response.status_code": 200,
    "http.response.body.bytes": 2326,
}


def test_formats_are_tried_in_order() -> None:
    longer = {"http.request.referrer": "http://x/", "user_agent.original": "curl"}

    assert parse(LINE, "combined", "common") == FIELDS
    assert parse(LINE + ' "http://x/" "curl"', "combined", "common") == FIELDS | longer
    assert parse(LINE + ' "http://x/"', "combined", "common") == "is no line of 'combined', 'common'"
    assert parse(None, "common") == "is no line of 'common'"


@pytest.mark.parametrize(
    "format_",
    [
        '%h %l %u %t "%r" %>s %b',
        '%h %l %u %t \\"%r\\" %>s %b',
        'LogFormat "%h %l %u %t \\"%r\\" %>s %b" common',
        '%a %l %u [%{%d/%b/%Y:%H:%M:%S %z}t] "%r" %<s %B',
        '%h %l %u [%{%d/%b/%Y:%T}t %{%z}t] "%m %{url}n HTTP/%{version}n" %200,304s %b',
        '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent',
        "log_format main '$remote_addr - ${remote_user} [$time_local] '\n  '\"$request\" $status $body_bytes_sent';",
    ],
)
def test_format_strings(format_: str) -> None:
    notes = {"apache.access.notes.url": "url.original", "apache.access.notes.version": "http.version"}

    found = parse(LINE, format_)

    assert {notes.get(name, name): value for name, value in found.items()} == FIELDS


VALUES: list[tuple[str, str, Any]] = [
    ("%h", "example.com", {"source.address": "example.com"}),
    ("%h", "1.2.3.4.example.com", {"source.address": "1.2.3.4.example.com"}),
    ("%h", "fe80::1", {"source.address": "fe80::1", "source.ip": "fe80::1"}),
    ("%l %u %s", "- bob by night 200", {"user.name": "bob by night", "http.response.status_code": 200}),
    ("%D", "1500", {"event.duration": 1_500_000}),
    ("%T", "3", {"event.duration": 3_000_000_000}),
    ("%{ms}T", "3", {"event.duration": 3_000_000}),
    ("$request_time", "0.050", {"event.duration": 50_000_000}),
    ("%v:%p", "www.example.com:8080", {"destination.domain": "www.example.com", "destination.port": 8080}),
    ("%U%q %H", "/a/b?c=d HTTP/2", {"url.path": "/a/b", "url.query": "c=d", "http.version": "2"}),
    ("%U%q %H", "/a/b HTTP/2", {"url.path": "/a/b", "http.version": "2"}),
    ("%{X-Real-IP}i", "1.2.3.4", {"http.request.headers.x_real_ip": "1.2.3.4"}),
    ("[$http_x_request_id]", "[abc def]", {"http.request.headers.x_request_id": "abc def"}),
    ("$some_thing;", "x y;", {"nginx.access.some_thing": "x y"}),
    ("%{UNIQUE_ID}e %{sid}C", "a b", {"apache.access.env.unique_id": "a", "http.request.cookies.sid": "b"}),
    ("%{Server}o", "x/1", {"http.response.headers.server": "x/1"}),
    ("%%%s\t%b", "%200\t7", {"http.response.status_code": 200, "http.response.body.bytes": 7}),
    ("%s %s", "200 404", {"http.response.status_code": 200}),
    ('"%{User-agent}i"', r'"a \" \x41 \\"', {"user_agent.original": r"a \" \x41 \\"}),
    ('"%{User-agent}i"', '"-"', {}),
    ('"%{User-agent}i"', '""', {"user_agent.original": ""}),
    ("%{User-agent}i", "", {}),
    ("$msec", "1700000000.123", {"timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)}),
    ("%{msec}t", "1700000000123", {"timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)}),
    ("$time_iso8601", "2023-11-14T23:13:20+01:00", {"timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}),
    ("%{%F %T}t.%{usec_frac}t|%%", "2023-11-14 22:13:20.000007|%", {"timestamp": datetime(2023, 11, 14, 22, 13, 20, 7, UTC)}),
    ("$upstream_status", "502, 200 : 404", {"nginx.upstream.status_code": 404}),
    (
        "$upstream_addr $upstream_response_time",
        "10.0.0.1:80, unix:/s 0.1, 0.2",
        {"nginx.upstream.address": "10.0.0.1:80, unix:/s", "nginx.upstream.response_seconds": 0.2},
    ),
]


@pytest.mark.parametrize(("format_", "line", "expected"), VALUES)
def test_values(format_: str, line: str, expected: dict[str, Any]) -> None:
    assert parse(line, format_) == expected


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("GET / HTTP/1.1", {"http.request.method": "GET", "url.original": "/", "http.version": "1.1"}),
    ("GET /a b HTTP/2", {"http.request.method": "GET", "url.original": "/a b", "http.version": "2"}),
    ("GET /a", {"http.request.method": "GET", "url.original": "/a"}),
    (r"GET /\"x\" HTTP/1.0", {"http.request.method": "GET", "url.original": r"/\"x\"", "http.version": "1.0"}),
    (r"\x16\x03\x01", {"http.request.line": r"\x16\x03\x01"}),
    ("hello", {"http.request.line": "hello"}),
    ("", {"http.request.line": ""}),
    ("-", {}),
]


@pytest.mark.parametrize(("line", "expected"), REQUESTS)
def test_request_lines(line: str, expected: dict[str, Any]) -> None:
    assert parse(f'"{line}" 200', '"%r" %s') == expected | {"http.response.status_code": 200}


def test_escapes_are_undone_where_that_gives_text() -> None:
    for written, text in [
        (r"\x41\xc3\xa9\"\\\t", 'Aé"\\\t'),
        (r"\xff\x41", r"\xff\x41"),
        (r"\q", r"\q"),
        ("plain", "plain"),
    ]:
        assert parse(f'"{written}"', '"%{User-Agent}i"', unescape=True) == {"user_agent.original": text}


def test_times_that_are_none() -> None:
    assert parse("[soon] 1", "%t %b") == "field 'timestamp' is 'soon', not a time in httpdate"
    assert parse("[30/Feb/2023:00:00:00 +0000] 1", "%t %b").startswith("field 'timestamp' is '30/Feb/2023")
    assert parse("[-] 1", "%t %b") == {"http.response.body.bytes": 1}
    assert parse("- 1", "%t %b") == {"http.response.body.bytes": 1}


def test_numbers_that_do_not_fit() -> None:
    assert parse("9" * 30, "%b") == f"field 'http.response.body.bytes' is '{'9' * 30}', not a number of 64 bits"
    assert parse("9" * 18, "%D").startswith("field 'event.duration'")
    assert parse("x", "%b") == "is no line of '%b'"


def test_formats_and_zone_of_times() -> None:
    hour = {"timestamp": datetime(2021, 6, 3, 7, 30, 50, tzinfo=UTC)}

    assert parse("[2021-06-03 09:30:50]", "%t", time_formats=("yyyy-MM-dd HH:mm:ss",), timezone="Europe/Paris") == hour
    assert parse("2021-06-03T09:30:50 x", "%{begin:%s}t %v", time_formats=("%FT%T",), timezone="Europe/Paris") == hour | {
        "destination.domain": "x"
    }


def test_apache_errors() -> None:
    fields = {"apache.error.module": "cgid", "log.level": "error", "process.pid": 24935, "process.thread.id": 3065550}
    time = {"timestamp": datetime(2015, 5, 9, 17, 30, 1, 5, tzinfo=UTC)}
    start = "[Sat May 09 17:30:01.000005 2015] [cgid:error] [pid 24935:tid 3065550] "
    client = {"source.address": "::1", "source.ip": "::1", "source.port": 5000}

    assert parse(start + "a [b] c", "apache_error") == time | fields | {"message": "a [b] c"}
    assert parse(start + "[client ::1:5000] AH1: x\n y", "apache_error") == time | fields | client | {"message": "AH1: x\n y"}
    assert parse(start + "(13)Permission denied: [client ::1:5000] AH1: x", "apache_error") == time | fields | client | {
        "error.message": "(13)Permission denied",
        "message": "AH1: x",
    }
    assert parse("[Sat May 09 17:30:01 2015] [notice] caught SIGTERM", "apache_error") == {
        "timestamp": datetime(2015, 5, 9, 17, 30, 1, tzinfo=UTC),
        "log.level": "notice",
        "message": "caught SIGTERM",
    }
    assert parse("[-] [-] [-] [-] -", "apache_error") == {}


def test_a_field_is_null_where_another_format_matched() -> None:
    step = Weblog(formats=("combined", "nginx_error"))

    parsed = step.compile()(
        pa.array([LINE + ' "" "-"', "2021/06/17 19:25:59 [notice] 1#1: started", LINE], pa.string_view()).slice(0, 3)
    )

    assert parsed.failed.to_pylist() == [False, False, True]
    assert parsed.columns["http.request.referrer"].to_pylist() == ["", None, None]
    assert parsed.columns["http.request.line"].to_pylist() == [None, None, None]
    assert parsed.columns["message"].to_pylist() == [None, "started", None]


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"formats": ["combine"]}, "unknown-format", ("formats", 0)),
        ({"formats": ["common", "%h %Y"]}, "bad-pattern", ("formats", 1)),
        ({"formats": ["%h %"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{hours}T"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%{%Q}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{%T}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["$host $"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{x}e %{x.y}e"], "timestamp": "source"}, None, ()),
        ({"time_formats": ["%Q"]}, "bad-time-format", ("time_formats", 0)),
        ({"time_formats": ["yyyy"]}, "bad-time-format", ("time_formats", 0)),
        ({"timezone": "Europe/Pariss"}, "unknown-timezone", ("timezone",)),
        ({"timestamp": "source"}, "field-conflict", ("formats",)),
        ({"timestamp": "message", "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str | None, path: tuple[str, ...]) -> None:
    step = Weblog(**options)

    findings = list(step.check(pa.schema([("message", pa.string())])))

    assert [(finding.code, finding.path) for finding in findings] == ([(code, path)] if code else [])
    step.parsed()


PRESETS = Weblog(
    formats=("combined", "common", "vhost_combined", "apache_error", "nginx_main", "nginx_ingress", "nginx_error"),
    on_error="keep",
    unescape=True,
)
TEXTS = st.text(max_size=20) | st.lists(
    st.sampled_from([*LINE.split(" "), '""', '"', "[", "]", "-", "\\", "\x00", "\n", ", client: ", "[client ", ": ", "1#1"]),
    max_size=14,
).map(" ".join)


@settings(max_examples=20, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_any_text_is_read_or_fails(texts: list[str]) -> None:
    batch = pa.record_batch({"message": pa.array(texts, pa.string_view()), "_offset": pa.array(range(len(texts)), pa.int64())})

    events, rejects = PRESETS.open(batch.schema)(batch)

    assert events.column("_offset").to_pylist() == list(range(len(texts)))
    assert not rejects


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20) | st.lists(st.sampled_from([*'%$hutrsbqTD{}<>! "[]\\', "%{", "}t", "}i", "$a"])).map("".join))
def test_any_format_is_read_or_refused(text: str) -> None:
    step = Weblog(formats=(text or "x",))

    if not list(step.check(pa.schema([("message", pa.string())]))):
        step.compile()(pa.array([LINE, "", None]))


def test_huge_and_hostile_texts() -> None:
    texts = [f'{LINE} "{"x" * 2_000_000}" "-"', f'{LINE} "{"x" * 2_000_000}', '"' * 100_000, "[" * 100_000, "\x00"]

    parsed = Weblog().compile()(pa.array(texts))

    assert parsed.failed.to_pylist() == [False, True, True, True, True]
    assert len(parsed.columns["http.request.referrer"][0].as_py()) == 2_000_000


HTTPLOG = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"


@pytest.mark.parametrize("format_", ["haproxy_http", HTTPLOG, f"log-format '{HTTPLOG}'", HTTPLOG.replace(" ", "\\ ")])
@pytest.mark.parametrize(
    ("captured", "expected"), [("", {}), (" {a|b} {c}", {"request": "a|b", "response": "c"}), (" {a}", {"request": "a"})]
)
def test_haproxy_formats_are_read(format_: str, captured: str, expected: dict[str, str]) -> None:
    front = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] in~ app/s1 10/0/30/-1/+109 -1 +2750 - - ---- 1/1/1/1/+2 0/0"
    line = f'{front}{captured} "<BADREQ>"'

    found = parse(line, format_)

    assert {n: found[f"haproxy.http.{n}.captured_headers"] for n in expected} == expected
    assert (found["source.ip"], found["source.port"], found["haproxy.frontend_name"]) == ("10.0.1.2", 33317, "in~")
    assert (found["haproxy.backend_name"], found["haproxy.server_name"]) == ("app", "s1")
    assert found["timestamp"] == datetime(2009, 2, 6, 12, 14, 14, 655000, tzinfo=UTC)
    assert (found["event.duration"], found["http.response.bytes"], found["http.response.status_code"]) == (109_000_000, 2750, -1)
    assert found["haproxy.connections.retries"] == 2
    assert found["http.request.line"] == "<BADREQ>"


def test_haproxy_flags_and_expressions() -> None:
    found = parse('GET /a 200 "?x=1" shop 17 50%', "%HM %HP %ST %{+Q}HQ %[capture.req.hdr(0)] %Tt 50%%")

    assert (found["http.request.method"], found["url.path"], found["url.query"]) == ("GET", "/a", "x=1")
    assert (found["haproxy.sample.capture_req_hdr_0"], found["event.duration"]) == ("shop", 17_000_000)


def test_haproxy_addresses_and_quoting_of_all() -> None:
    found = parse('2001:db8::1:5000 "GET / HTTP/2.0" 200 "web"', "%{+Q}o %{-Q}ci:%cp %r %ST %ft")

    assert (found["source.ip"], found["source.port"], found["url.original"]) == ("2001:db8::1", 5000, "/")
    assert found["haproxy.frontend_name"] == "web"


def test_an_unknown_per_cent_sign_in_a_haproxy_format_is_found() -> None:
    (finding,) = Weblog(formats=("%ci:%cp % x",)).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.at) == ("bad-pattern", 8)
