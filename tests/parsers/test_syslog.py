"""Syslog lines: what RFC 5424 and RFC 3164 say, what senders make of it, and what is not a syslog line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.syslog.line_reader import FACILITIES, SEVERITIES
from parsers.syslog.parser import Syslog

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


# ── RFC 3164 ──────────────────────────────────────────────────────────────────────────────────────

SU = {"timestamp": "2025-10-11 22:14:15", "host": "web1", "priority": 34, "appname": "su", "message": "no"}


def su(**other: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SU, **other}.items() if value is not None}


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

        assert list(columns) == parser.parsed_fields().names
        types = [pa.string() if column.type == pa.string_view() else column.type for column in columns.values()]
        assert types == parser.parsed_fields().types


def test_fields_are_those_of_the_format() -> None:
    assert "event.sequence" not in Syslog(format="rfc5424").parsed_fields().names
    assert "log.syslog.structured_data" not in Syslog(format="rfc3164").parsed_fields().names
    assert {"event.sequence", "log.syslog.structured_data", "log.syslog.msgid"} <= set(Syslog().parsed_fields().names)


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"tag": "word", "fields": {"a.b": "int"}}])
@pytest.mark.parametrize(
    "line",
    [
        "x" * 10_000_000,
        "<34>" * 1_000_000,
        "<34>Oct 11 22:14:15 " + "h" * 5_000_000,
        f"{NEW} " + "[a]" * 500_000,
        f"{NEW} " + '[a b="' + "\\" * 3_000_000,
        pytest.param(f"{NEW} [a " + 'b="c" ' * 300_000 + "]", marks=pytest.mark.slow),
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
