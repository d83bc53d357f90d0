"""Syslog lines: what RFC 5424 and RFC 3164 say, what senders make of it, and what is no syslog line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.syslog.parser import Syslog
from parsers.syslog.priorities import FACILITIES, SEVERITIES

NEW_YEAR = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
SHORT = {"log.syslog.": "", "host.hostname": "host", "event.sequence": "sequence"}
BAD = "bad"


COMPILED: dict[str, Any] = {}
"""By options: a parser is compiled once a task, and here once a test run."""


def parse(lines: Any, now: datetime = NEW_YEAR, **options: Any) -> Any:
    column = lines if isinstance(lines, pa.Array) else pa.array(lines, pa.string())
    key = f"{now} {options}"
    if key not in COMPILED:
        COMPILED[key] = Syslog(**options).compile_at(int(now.timestamp() * 1_000_000))
    return COMPILED[key](column)


def rows(parsed: Any) -> list[Any]:
    """The fields of each row that are not null, by short names; `BAD` where it failed."""
    table = pa.table({name: pa.chunked_array([column]) for name, column in parsed.columns.items()}).to_pylist()
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(table)
    return [BAD if bad else _short(row) for row, bad in zip(table, failed, strict=True)]


def _short(row: dict[str, Any]) -> dict[str, Any]:
    event = {}
    for name, value in row.items():
        for long, short in SHORT.items():
            name = name.replace(long, short)
        if value is not None and not name.startswith(("facility", "severity")):
            event[name] = value.replace(tzinfo=None).isoformat(" ") if isinstance(value, datetime) else value
    return event


def read(line: str, **options: Any) -> Any:
    return rows(parse([line], **options))[0]


def reason(line: str, **options: Any) -> str:
    parsed = parse([line], **options)
    assert parsed.failed.to_pylist() == [True]
    return parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons[0].as_py()


# ── RFC 5424 ──────────────────────────────────────────────────────────────────────────────────────

NEW = "<165>1 2003-10-11T22:14:15.003Z web1 evntslog 12 ID47"
NEW_FIELDS = {
    "timestamp": "2003-10-11 22:14:15.003000",
    "host": "web1",
    "priority": 165,
    "version": "1",
    "appname": "evntslog",
    "procid": "12",
    "msgid": "ID47",
}

DATED = {"priority": 14, "version": "1"}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("format_", ["auto", "rfc5424"])
@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (f"{NEW} - An event", {**NEW_FIELDS, "message": "An event"}),
        (f"{NEW} -", NEW_FIELDS),
        (f"{NEW} - ", NEW_FIELDS),
        (f"{NEW} -  two", {**NEW_FIELDS, "message": " two"}),
        (f'{NEW} [a][b c="d"]', {**NEW_FIELDS, "structured_data": '{"a":{},"b":{"c":"d"}}'}),
        (f'{NEW} [a b="\\"\\\\\\]"] x', {**NEW_FIELDS, "structured_data": '{"a":{"b":"\\"\\\\]"}}', "message": "x"}),
        (f'{NEW} [a b="\n\x00"] x\ny', {**NEW_FIELDS, "structured_data": '{"a":{"b":"\\u000a\\u0000"}}', "message": "x\ny"}),
        ("<0>999 - - - - - - x", {"priority": 0, "version": "999", "message": "x"}),
        ("<1>1 - - a-b -- - -", {"priority": 1, "version": "1", "appname": "a-b", "procid": "--"}),
        ("<14>1 2003-08-24T05:14:15.000003-07:00 - - - - -", {**DATED, "timestamp": "2003-08-24 12:14:15.000003"}),
        ("<14>1 2003-08-24T00:14:15+23:59 - - - - -", {**DATED, "timestamp": "2003-08-23 00:15:15"}),
    ],
)
def test_rfc5424(line: str, fields: dict[str, Any], format_: str, strict: bool) -> None:
    assert read(line, format=format_, strict=strict) == fields


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (f"93 {NEW} - An event", {**NEW_FIELDS, "message": "An event"}),
        (f"{NEW} - \ufeffAn event", {**NEW_FIELDS, "message": "An event"}),
        (f"{NEW} State changed", {**NEW_FIELDS, "message": "State changed"}),
        (f"{NEW} -dash", {**NEW_FIELDS, "message": "-dash"}),
        (NEW, NEW_FIELDS),
        (f'{NEW} [a b= "c"  d = "e" ]', {**NEW_FIELDS, "structured_data": '{"a":{"b":"c","d":"e"}}'}),
        (f'{NEW} [a b="\\n"]', {**NEW_FIELDS, "structured_data": '{"a":{"b":"\\\\n"}}'}),
        (f"{NEW} [{'i' * 128}]", {**NEW_FIELDS, "structured_data": '{"' + "i" * 128 + '":{}}'}),
        ("<034>1 2003-10-11t22:14:15,5z - - - - -", {"priority": 34, "version": "1", "timestamp": "2003-10-11 22:14:15.500000"}),
        (f"<1>1 - - {'a' * 49} - - -", {"priority": 1, "version": "1", "appname": "a" * 49}),
        ("<1>1 2003-10-11T22:14:15 - - - - -", {"priority": 1, "version": "1", "timestamp": "2003-10-11 20:14:15"}),
    ],
)
def test_rfc5424_in_the_wild(line: str, fields: dict[str, Any]) -> None:
    assert read(line, timezone="Europe/Berlin") == fields
    assert read(line, strict=True, format="rfc5424") in (BAD, {**fields, "message": "\ufeffAn event"})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "<165>",
        "<165>1",
        "<192>1 - - - - - -",
        "165>1 - - - - - -",
        f'{NEW} [a b="c]"]',
        f'{NEW} [a b=""c"]',
        f'{NEW} [ a b="c"]',
        f'{NEW} [a b="c"d="e"]',
        f"{NEW} [a b=c]",
        f'{NEW} [a b="c"',
        f'{NEW} [a ="c"]',
        f"{NEW} []",
        f'{NEW} [a b="c"]x',
        f"{NEW} [{'i' * 129}]",
        f"<1>1 - {'h' * 256} - - - -",
        "<1>1 2003-02-30T22:14:15Z - - - - -",
        "<1>1 2003-02-01T24:00:00Z - - - - -",
        "<1>1 2003-02-01T23:59:60Z - - - - -",
        "<1>1 2003-02-01T00:00:00+24:00 - - - - -",
        "<1>1 9999-12-31T23:59:59-01:00 - - - - -",
        "<1>1 -  - - - -",
    ],
)
def test_malformed_rfc5424(line: str) -> None:
    assert read(line, format="rfc5424") == BAD
    assert read(line, format="rfc5424", strict=True) == BAD


@pytest.mark.parametrize(
    "line",
    [
        "<1>1000 - - - - - -",
        "<01>1 - - - - - -",
        "<1>1 2003-02-01T00:00:00.1234567Z - - - - -",
        "<1>1 2003-02-01T00:00:00z - - - - -",
        "<1>1 - h\u00f6st - - - -",
        f"<1>1 - - - {'p' * 129} - -",
        f"<1>1 - - - - {'m' * 33} -",
        f"{NEW} [{'i' * 33}]",
        f'{NEW} [a b="\\n"]',
        f"{NEW} [a][b][a]",
        f"{NEW} [a]{''.join(f'[e{n}]' for n in range(70))}[a]",
    ],
)
def test_strictly_malformed_rfc5424(line: str) -> None:
    assert read(line, format="rfc5424", strict=True) == BAD


def test_strict_text_is_utf8_where_it_says_so() -> None:
    lines = [
        b"<1>1 - - - - - - \xef\xbb\xbf\xc3(",
        b"<1>1 - - - - - - \xc3(",
        b'<1>1 - - - - - [a b="\xff"]',
        b'<1>1 - - - - - [a b="e"] x',
    ]

    parsed = parse(pa.array(lines, pa.binary()).view(pa.string()), strict=True)

    assert parsed.failed.to_pylist() == [True, False, True, False]


# ── RFC 3164 ──────────────────────────────────────────────────────────────────────────────────────

SU = {"timestamp": "2025-10-11 22:14:15", "host": "web1", "priority": 34, "appname": "su", "message": "no"}


def su(**other: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SU, **other}.items() if value is not None}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("format_", ["auto", "rfc3164"])
@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("<34>Oct 11 22:14:15 web1 su: no", su()),
        ("<34>Oct  1 22:14:15 web1 su: no", su(timestamp="2025-10-01 22:14:15")),
        ("<34>Oct 11 22:14:15 web1 su[12]: no", su(procid="12")),
        ("<34>Oct 11 22:14:15 web1 su:no", su()),
        ("<34>Oct 11 22:14:15 web1 Use the force: Luke", su(appname=None, message="Use the force: Luke")),
        ("<34>Oct 11 22:14:15 10.0.0.99 no", su(host="10.0.0.99", appname=None)),
    ],
)
def test_rfc3164(line: str, fields: dict[str, Any], format_: str, strict: bool) -> None:
    assert read(line, format=format_, strict=strict) == fields


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("Oct 11 22:14:15 web1 su: no", su(priority=None)),
        ("<34>Oct 1 22:14:15 web1 su: no", su(timestamp="2025-10-01 22:14:15")),
        ("<34>Oct 01 22:14:15 web1 su: no", su(timestamp="2025-10-01 22:14:15")),
        ("<34> Oct 11 22:14:15 web1 su: no", su()),
        ("34 <34>Oct 11 22:14:15 web1 su: no", su()),
        ("<34>Oct 11 2019 22:14:15 web1 su: no", su(timestamp="2019-10-11 22:14:15")),
        ("<34>Oct 11 22:14:15 2019 web1 su: no", su(timestamp="2019-10-11 22:14:15")),
        ("<34>2019 Oct 11 22:14:15 web1 su: no", su(timestamp="2019-10-11 22:14:15")),
        ("<34>Oct 11 22:14:15.25 web1 su: no", su(timestamp="2025-10-11 22:14:15.250000")),
        ("<34>Oct 11 22:14:15. web1 su: no", su()),
        ("<34>Oct 11 22:14:15 EST web1 su: no", su(timestamp="2025-10-12 03:14:15")),
        ("<34>Oct 11 22:14:15 -0730 web1 su: no", su(timestamp="2025-10-12 05:44:15")),
        ("<34>2019-10-11T22:14:15+02:00 web1 su: no", su(timestamp="2019-10-11 20:14:15")),
        ("2019-10-11T22:14:15.123456789Z web1 su: no", su(timestamp="2019-10-11 22:14:15.123456", priority=None)),
        ("<34>2019-10-11 22:14:15 web1 su: no", su(timestamp="2019-10-11 22:14:15")),
        ("<34>Oct 11 22:14:15 su: no", su(host=None)),
        ("<34>Oct 11 22:14:15 su[9]: no", su(host=None, procid="9")),
        ("<34>Oct 11 22:14:15 - su: no", su(host=None)),
        ("<34>Oct 11 22:14:15 2001:db8::1 su: no", su(host="2001:db8::1")),
        ("<34>Oct 11 22:14:15 10.0.0.1:514 su: no", su(host="10.0.0.1:514")),
        ("<34>Oct 11 22:14:15 web1 postfix/smtpd[9]: no", su(appname="postfix/smtpd", procid="9")),
        ("<34>Oct 11 22:14:15 web1 sshd(pam_unix)[9]: no", su(appname="sshd(pam_unix)", procid="9")),
        ("<34>Oct 11 22:14:15 web1 polkitd(authority=local)[9]: no", su(appname="polkitd(authority=local)", procid="9")),
        ("<34>Oct 11 22:14:15 polkitd(authority=local): no", su(host=None, appname="polkitd(authority=local)")),
        ("<34>Oct 11 22:14:15 web1 f(a=b) c: no", su(appname=None, message="f(a=b) c: no")),
        ("<34>Oct 11 22:14:15 web1 Google Chrome[9]: no", su(appname="Google Chrome", procid="9")),
        ("<34>Oct 11 22:14:15 web1 su:", su(message=None)),
        ("<34>Oct 11 22:14:15", su(host=None, appname=None, message=None)),
        ("<34>su: no", su(timestamp=None, host=None)),
        ("<34>su: 2019-10-11T22:14:15Z no", su(timestamp=None, host=None, message="2019-10-11T22:14:15Z no")),
        ("<34>no", su(timestamp=None, host=None, appname=None)),
        (
            "<34>Oct 11 22:14:15 last message repeated 2 times",
            su(host=None, appname=None, message="last message repeated 2 times"),
        ),
        ("<34>Oct 11 22:14:15 Message forwarded from web1: su[9]: no", su(procid="9")),
        ("<34>Oct 11 22:14:15 web1 CEF:0|a|b|c", su(appname=None, message="CEF:0|a|b|c")),
        ("<34>Oct 11 22:14:15 LEEF:1.0|a|b|c", su(host=None, appname=None, message="LEEF:1.0|a|b|c")),
        ('<34>{"a":"b: c"}', su(timestamp=None, host=None, appname=None, message='{"a":"b: c"}')),
        ("<34>date=2019-10-11 msg=a:b", su(timestamp=None, host=None, appname=None, message="date=2019-10-11 msg=a:b")),
    ],
)
def test_rfc3164_in_the_wild(line: str, fields: dict[str, Any]) -> None:
    assert read(line) == fields
    assert read(line, format="rfc3164") == fields


IOS = {"priority": 189, "timestamp": "2025-04-29 13:58:40.411000", "appname": "%SYS-5-CONFIG_I", "message": "Configured"}


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("<189>29: *Apr 29 13:58:40.411: %SYS-5-CONFIG_I: Configured", {**IOS, "sequence": 29}),
        ("<189>000029: .Apr 29 13:58:40.411 UTC: %SYS-5-CONFIG_I: Configured", {**IOS, "sequence": 29}),
        ("<189>29: edge1: Apr 29 13:58:40.411: %SYS-5-CONFIG_I: Configured", {**IOS, "sequence": 29, "host": "edge1"}),
        ("<189>edge1: 2025 Apr 29 13:58:40.411 UTC: %SYS-5-CONFIG_I: Configured", {**IOS, "host": "edge1"}),
        ("<189>: 2025 Apr 29 13:58:40.411 XYZ: %SYS-5-CONFIG_I: Configured", IOS),
        ("<189>Apr 29 13:58:40.411 PST: %SYS-5-CONFIG_I: Configured", {**IOS, "timestamp": "2025-04-29 21:58:40.411000"}),
        ("<189>Apr 29 13:58:40.411 XYZ: %SYS-5-CONFIG_I: Configured", IOS),
        ("<189>Apr 29 2025 13:58:40.411: %SYS-5-CONFIG_I: Configured", IOS),
        ("<189>Apr 29 2025 13:58:40.411 edge1 : %SYS-5-CONFIG_I: Configured", {**IOS, "host": "edge1"}),
        ("<189>29: 1w2d: %SYS-5-CONFIG_I: Configured", {k: v for k, v in IOS.items() if k != "timestamp"} | {"sequence": 29}),
    ],
)
def test_cisco(line: str, fields: dict[str, Any]) -> None:
    assert read(line) == fields


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no syslog line",
        "<>Oct 11 22:14:15 web1 su: no",
        "<192>Oct 11 22:14:15 web1 su: no",
        "<34Oct 11 22:14:15 web1 su: no",
        "<34>Oct 32 22:14:15 web1 su: no",
        "<34>Feb 30 22:14:15 web1 su: no",
        "<34>Oct 11 25:14:15 web1 su: no",
        "CEF:0|a|b|c",
    ],
)
def test_no_rfc3164(line: str) -> None:
    assert read(line) == BAD
    assert read(line, strict=True) == BAD


def test_a_first_word_can_name_the_program_and_not_the_host() -> None:
    line = "<34>Oct 11 22:14:15 kernel oom killer"

    assert read(line) == su(host="kernel", appname=None, message="oom killer")
    assert read(line, tag="word") == su(host="kernel", appname="oom", message="killer")
    assert read(line, tag="word", not_hosts="^kernel$") == su(host=None, appname="kernel", message="oom killer")
    assert read(line, not_hosts=".") == su(host=None, appname=None, message="kernel oom killer")


def test_only_lines_with_such_a_host_are_read_again() -> None:
    lines = ["Oct 11 22:14:15 web1 su: no", "Oct 11 22:14:15 kernel oom: a message that is long", f"{NEW} - x", "nothing", None]

    found = rows(parse(lines, not_hosts="kernel"))

    long = "kernel oom: a message that is long"
    assert found[:2] == [su(priority=None), su(priority=None, host=None, appname=None, message=long)]
    assert found[2:] == [{**NEW_FIELDS, "message": "x"}, BAD, BAD]


# ── Years ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("now", "date", "timezone", "expected"),
    [
        ("2026-01-01T00:30", "Dec 31 23:59:59", "UTC", "2025-12-31 23:59:59"),
        ("2026-01-01T00:30", "Jan  1 00:29:59", "UTC", "2026-01-01 00:29:59"),
        ("2025-12-31T23:50", "Jan  1 00:05:00", "UTC", "2026-01-01 00:05:00"),  # a clock ahead of ours
        ("2025-12-31T23:50", "Jan  2 00:05:00", "UTC", "2025-01-02 00:05:00"),
        ("2025-12-31T23:30", "Jan  1 08:25:00", "Asia/Tokyo", "2025-12-31 23:25:00"),  # it is 2026 there
        ("2026-01-01T00:30", "Dec 31 19:29:00", "America/New_York", "2026-01-01 00:29:00"),
        ("2026-03-01T00:00", "Feb 29 12:00:00", "UTC", "2024-02-29 12:00:00"),
    ],
)
def test_a_date_without_a_year_is_in_the_nearest_past(now: str, date: str, timezone: str, expected: str) -> None:
    clock = datetime.fromisoformat(now).replace(tzinfo=UTC)

    assert read(f"<34>{date} web1 su: no", now=clock, timezone=timezone)["timestamp"] == expected


def test_the_year_can_be_given() -> None:
    assert read("<34>Dec 31 22:14:15 web1 su: no", year=1999)["timestamp"] == "1999-12-31 22:14:15"
    assert read("<34>Feb 29 22:14:15 web1 su: no", year=1999) == BAD


# ── Priorities ────────────────────────────────────────────────────────────────────────────────────


def test_facility_and_severity_are_numbers_and_names() -> None:
    parsed = parse([f"<{n}>su: x" for n in range(192)] + ["Oct 11 22:14:15 web1 su: x"])

    of = {name: parsed.columns[f"log.syslog.{name}"].to_pylist() for name in ("facility.code", "facility.name", "severity.code")}
    assert of["facility.code"] == [n // 8 for n in range(192)] + [None]
    assert of["facility.name"] == [FACILITIES[n // 8] for n in range(192)] + [None]
    assert of["severity.code"] == [n % 8 for n in range(192)] + [None]
    assert parsed.columns["log.syslog.severity.name"].to_pylist() == [SEVERITIES[n % 8] for n in range(192)] + [None]
    assert (FACILITIES[10], SEVERITIES[3]) == ("authpriv", "err")


# ── Structured data ───────────────────────────────────────────────────────────────────────────────


def test_declared_parameters_are_fields_and_the_others_rest() -> None:
    lines = [
        f'{NEW} [origin ip="10.0.0.1" software="x"][meta seq="7"] m',
        f'{NEW} [meta seq="8"] m',
        f'{NEW} [origin ip="a\\"b"][empty]',
        f"{NEW} - m",
        "<34>Oct 11 22:14:15 web1 su: no",
    ]

    parsed = parse(lines, fields={"origin.ip": "string", "meta.seq": "int"}, rest="labels")

    assert parsed.failed is None
    assert parsed.columns["origin.ip"].to_pylist() == ["10.0.0.1", None, 'a"b', None, None]
    assert parsed.columns["meta.seq"].to_pylist() == [7, 8, None, None, None]
    assert parsed.columns["labels"].to_pylist() == ['{"origin":{"software":"x"}}', None, '{"empty":{}}', None, None]


def test_a_path_leads_to_the_element_whose_name_and_parameter_it_spells() -> None:
    parsed = parse(
        [f'{NEW} [data@18372.4 key="a"][data@18372 x.y="b"]'], fields={"data@18372.4.key": "string", "data@18372.x.y": "string"}
    )

    assert parsed.columns["data@18372.4.key"].to_pylist() == ["a"]
    assert parsed.columns["data@18372.x.y"].to_pylist() == ["b"]


def test_repeated_parameters_are_an_array() -> None:
    line = f'{NEW} [origin ip="1" ip="2" n="x\\]" ip="3"][origin n="y"]'

    parsed = parse([line], fields={"origin.ip": "string"})

    assert parsed.columns["origin.ip"].to_pylist() == ["1"]
    assert parsed.columns["log.syslog.structured_data"].to_pylist() == ['{"origin":{"ip":["2","3"],"n":["x]","y"]}}']


def test_very_many_parameters() -> None:
    params = {f"p{n}": str(n) for n in range(500)}
    line = f"{NEW} [a{''.join(map(_param, params.items()))}] x"

    for strict in (False, True):
        parsed = parse([line], strict=strict, fields={"a.p499": "int"})
        assert parsed.failed is None
        assert parsed.columns["a.p499"].to_pylist() == [499]
        assert parsed.columns["log.syslog.structured_data"][0].as_py().count(":") == 500


def test_rest_can_be_dropped() -> None:
    parsed = parse([f'{NEW} [a b="c"] x', f"{NEW} [a b=] x"], rest=None)

    assert "log.syslog.structured_data" not in parsed.columns
    assert parsed.failed.to_pylist() == [False, True]


NAMES = st.text("abAB09@._-#\\", min_size=1, max_size=6)
VALUES = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=4), max_size=3),
    st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_structured_data_survives(events: list[dict[str, dict[str, str]]], strict: bool) -> None:
    import json

    written = ["".join(f"[{name}{''.join(map(_param, params.items()))}]" for name, params in event.items()) for event in events]

    parsed = parse([f"{NEW} {text} x" for text in written], strict=strict)

    assert parsed.failed is None
    found = parsed.columns["log.syslog.structured_data"].to_pylist()
    assert [json.loads(text) for text in found] == events


def _param(pair: tuple[str, str]) -> str:
    name, value = pair
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")
    return f' {name}="{escaped}"'


# ── What fails ────────────────────────────────────────────────────────────────────────────────────


def test_reasons_say_what_was_found() -> None:
    assert reason("x") == "begins neither with a priority in angle brackets nor with a time"
    assert reason("x", format="rfc5424").startswith("is not '<priority>version time")
    assert reason("<1>1 - x y z") == "begins as RFC 5424, and its header or structured data is malformed"
    assert reason("<1>Feb 30 00:00:00 a b: c") == "field 'timestamp' is 'Feb 30 00:00:00', not a time that exists"
    assert reason(f'{NEW} [a b="]"]') == "structured data is malformed at its byte 6"
    assert reason(f"<1>1 - {'h' * 256} - - - -") == "host.hostname is longer than 255 bytes"
    assert reason(f'{NEW} [a b="x"]', fields={"a.b": "int"}) == "field 'a.b' is 'x', not int"


def test_a_line_that_fails_keeps_its_text_in_message() -> None:
    lines = ["nothing", f'{NEW} [a b="]"] x', "<1>Feb 30 00:00:00 a b: c", f"{NEW} - fine", None]
    batch = pa.RecordBatch.from_pydict({"line": lines, "_offset": [1, 2, 3, 4, 5]})

    kept = Syslog(field="line", on_error="keep").open(batch.schema)(batch).events
    sent = Syslog(field="line").open(batch.schema)(batch)

    assert kept.column("message").to_pylist() == [*lines[:3], "fine", None]
    assert kept.column("host.hostname").to_pylist() == [None, None, None, "web1", None]
    assert sent.events.column("message").to_pylist() == ["fine"]
    assert [(reject.code, reject.events.column("line").to_pylist()) for reject in sent.rejects] == [
        ("syslog-failed", [*lines[:3], None])
    ]


def test_the_message_takes_the_place_of_the_line() -> None:
    batch = pa.RecordBatch.from_pydict({"message": ["<34>su: no", "nothing"], "_offset": [1, 2]})

    kept = Syslog(on_error="keep").open(batch.schema)(batch).events
    dropped = Syslog(on_error="drop").open(batch.schema)(batch)

    assert kept.column("message").to_pylist() == ["no", "nothing"]
    assert dropped.events.column("message").to_pylist() == ["no"]
    assert dropped.rejects == ()


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_columns_of_any_kind(type_: pa.DataType) -> None:
    lines = ["skipped", f'{NEW} [a b="c"] x', None, "<34>Oct 11 22:14:15 web1 su: no"]

    assert rows(parse(pa.array(lines, type_)[1:])) == [
        {**NEW_FIELDS, "structured_data": '{"a":{"b":"c"}}', "message": "x"},
        BAD,
        su(),
    ]
    assert rows(parse(pa.array([], type_))) == []


@pytest.mark.parametrize(
    "options", [{}, {"strict": True}, {"format": "rfc5424"}, {"format": "rfc3164"}, {"fields": {"a.b": "int"}}]
)
def test_columns_have_the_types_that_were_promised(options: dict[str, Any]) -> None:
    parser = Syslog(**options)
    for lines in ([f'{NEW} [a b="1"]', "x"], ["<34>su: no"], [None], []):
        columns = parse(lines, **options).columns

        assert list(columns) == parser.parsed().names
        types = [pa.string() if column.type == pa.string_view() else column.type for column in columns.values()]
        assert types == parser.parsed().types


def test_fields_are_those_of_the_format() -> None:
    assert "event.sequence" not in Syslog(format="rfc5424").parsed().names
    assert "log.syslog.structured_data" not in Syslog(format="rfc3164").parsed().names
    assert {"event.sequence", "log.syslog.structured_data", "log.syslog.msgid"} <= set(Syslog().parsed().names)


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"tag": "word", "fields": {"a.b": "int"}}])
@pytest.mark.parametrize(
    "line",
    [
        "x" * 10_000_000,
        "<34>" * 1_000_000,
        "<34>Oct 11 22:14:15 " + "h" * 5_000_000,
        f"{NEW} " + "[a]" * 500_000,
        f"{NEW} " + '[a b="' + "\\" * 3_000_000,
        f"{NEW} [a " + 'b="c" ' * 300_000 + "]",
        f"{NEW} " + "[" * 1_000_000,
    ],
)
def test_huge_lines(line: str, options: dict[str, Any]) -> None:
    parsed = parse([line, f"{NEW} - x"], **options)

    assert parsed.failed is None or not parsed.failed[1].as_py()
    assert parsed.columns["message"][1].as_py() == "x"


PIECES = (
    *("<34>", "<165>1 ", "Oct 11 22:14:15 ", "2003-10-11T22:14:15.003Z ", "web1 ", "su", "[12]", ": ", "- ", '[a b="', 'c"]'),
    *("\\", "]", "\x00", "\n", "\ufeff", "%A-1-B", "29: ", "*", "é"),
)
LINES = st.one_of(
    st.none(), st.binary(max_size=40), st.lists(st.sampled_from(PIECES), max_size=12).map(lambda parts: "".join(parts).encode())
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"strict": True},
    {"tag": "word", "not_hosts": "w"},
    {"format": "rfc5424", "fields": {"a.b": "int"}},
    {"format": "rfc3164"},
]


@pytest.mark.slow
@given(st.lists(LINES, max_size=6), st.sampled_from(OPTIONS))
@settings(deadline=None, max_examples=250)
def test_no_bytes_raise_and_no_row_is_lost(lines: list[bytes | None], options: dict[str, Any]) -> None:
    parsed = parse(pa.array(lines, pa.binary()).view(pa.string()), **options)

    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(lines)
    assert all(len(column) == len(lines) for column in parsed.columns.values())
    message = parsed.columns["message"]
    raw = message.cast(pa.binary_view() if message.type == pa.string_view() else pa.binary()).to_pylist()
    assert [text for text, bad in zip(raw, failed, strict=True) if bad] == [
        line for line, bad in zip(lines, failed, strict=True) if bad
    ]
    assert all(line is not None for line, bad in zip(lines, failed, strict=True) if not bad)


# ── Lint ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"timezone": "Europe/Berlim"}, "unknown-timezone", ("timezone",)),
        ({"not_hosts": "("}, "bad-pattern", ("not_hosts",)),
        ({"keep_field": True}, "keep-conflict", ("keep_field",)),
        ({"fields": {"a.b": "array<string>"}}, "unreadable-type", ("fields", "a.b")),
        ({"fields": {"log.syslog.priority": "int"}}, "field-conflict", ("fields", "log.syslog.priority")),
        ({"fields": {"message.x": "int"}}, "field-conflict", ("fields",)),
        ({"rest": "message"}, "field-conflict", ("rest",)),
        ({"fields": {"a.b": "int"}, "rest": "a.b"}, "field-conflict", ("rest",)),
        ({"format": "rfc3164", "fields": {"a.b": "int"}}, "no-structured-data", ("fields",)),
        ({"field": "line"}, "unknown-field", ("field",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    found = list(Syslog(**options).check(pa.schema([("message", pa.string())])))

    assert [(finding.code, finding.path) for finding in found] == [(code, path)]


def test_good_options_have_no_findings() -> None:
    options = {"fields": {"origin.ip": "string", "meta.seq": "bigint"}, "not_hosts": "^kernel$", "timezone": "Europe/Berlin"}

    assert list(Syslog(**options).check(pa.schema([("message", pa.string())]))) == []
