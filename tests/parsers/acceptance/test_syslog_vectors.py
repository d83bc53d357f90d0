"""Syslog lines of other projects' tests, with what these make of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from parsers.decode.parser import Decode
from parsers.syslog.parser import Syslog

NOW = datetime(2019, 2, 8, 8, 37, 49, tzinfo=UTC)
"""The time at which syslog-ng's lines were read."""

ZONE = "MET"
"""Where: MET-1METDST, without the names of its days of change."""

NEW_YEARS_EVE = datetime(2024, 12, 31, tzinfo=UTC)
"""At which the nearest past year of any date is the current one, as vrl has it."""

SYSLOG_NG_EXCEPTIONS = {
    "lib/tests/test_msgparse.c#55": "syslog-ng cuts a message id at 32 bytes; lenient, we keep it whole",
}


def vectors(acceptance: Path, name: str) -> Iterator[dict[str, Any]]:
    for text in (acceptance / "syslog" / name).read_text().splitlines():
        vector = json.loads(text)
        vector["raw"] = vector["line"].encode() if "line" in vector else base64.b64decode(vector["line_b64"])
        yield vector


COMPILED: dict[str, Any] = {}
"""By options."""


def parse(raw: bytes, parser: Syslog, now: datetime) -> dict[str, Any] | None:
    """The fields of a line; None when it fails."""
    key = f"{now} {parser!r}"
    if key not in COMPILED:
        COMPILED[key] = parser.compile_at(int(now.timestamp() * 1_000_000))
    parsed = COMPILED[key](pa.array([raw], pa.binary()).view(pa.string()))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    return {name: _value(column) for name, column in parsed.columns.items()}


def _value(column: pa.Array) -> Any:
    if pa.types.is_string(column.type) or column.type == pa.string_view():
        raw = column.cast(pa.binary_view() if column.type == pa.string_view() else pa.binary())[0].as_py()
        return None if raw is None else raw.decode("utf-8", "surrogateescape")
    return column[0].as_py()


def wrong_ones(found: Iterator[tuple[str, Any, Any]], exceptions: Mapping[str, str]) -> tuple[int, list[Any]]:
    """How many are as expected, and the others that no exception names."""
    passed, wrong = 0, []
    for source, ours, expected in found:
        passed += ours == expected
        if ours != expected and source not in exceptions:
            wrong.append((source, ours, expected))
    return passed, wrong


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


# ── go-syslog: strict ─────────────────────────────────────────────────────────────────────────────


def as_go_syslog(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if fields is None:
        return None
    rest = fields.get("log.syslog.structured_data")
    return {
        "priority": fields["log.syslog.priority"],
        "facility": fields["log.syslog.facility.code"],
        "severity": fields["log.syslog.severity.code"],
        "version": fields.get("log.syslog.version"),
        "timestamp": fields["timestamp"],
        "hostname": fields["host.hostname"],
        "appname": fields["log.syslog.appname"],
        "procid": fields["log.syslog.procid"],
        "msgid": fields.get("log.syslog.msgid"),
        "structured_data": None if rest is None else json.loads(rest),
        "message": fields["message"],
    }


def go_syslog_expects(expected: dict[str, Any] | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    full = {"version": None, "structured_data": None, **expected}
    if "message_b64" in full:
        full["message"] = base64.b64decode(full.pop("message_b64")).decode("utf-8", "surrogateescape")
    if "timestamp_no_year" in full:
        day = datetime.strptime(f"2023 {full.pop('timestamp_no_year')}", "%Y %b %d %H:%M:%S")
        full["timestamp"] = day.replace(tzinfo=UTC).isoformat()
    version = full["version"]
    return {**full, "version": None if version is None else str(version), "timestamp": instant(full["timestamp"])}


def test_go_syslog_rfc5424(acceptance: Path) -> None:
    parser = Syslog(format="rfc5424", strict=True)
    found = (
        (v["source"], as_go_syslog(parse(v["raw"], parser, NOW)), go_syslog_expects(v["expected"]))
        for v in vectors(acceptance, "go_syslog_rfc5424.jsonl")
    )

    passed, wrong = wrong_ones(found, {})

    assert wrong == []
    assert passed >= 105


def test_go_syslog_rfc3164(acceptance: Path) -> None:
    parser = Syslog(format="rfc3164", strict=True, year=2023)
    found = (
        (v["source"], as_go_syslog(parse(v["raw"], parser, NOW)), go_syslog_expects(v["expected"]))
        for v in vectors(acceptance, "go_syslog_rfc3164.jsonl")
    )

    passed, wrong = wrong_ones(found, {})

    assert wrong == []
    assert passed >= 8


# ── vrl: lenient ──────────────────────────────────────────────────────────────────────────────────


def as_vrl(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if fields is None:
        return None
    procid, version, rest = (fields[f"log.syslog.{name}"] for name in ("procid", "version", "structured_data"))
    event = {
        "severity": fields["log.syslog.severity.name"],
        "facility": fields["log.syslog.facility.name"],
        "timestamp": fields["timestamp"],
        "hostname": fields["host.hostname"],
        "appname": fields["log.syslog.appname"],
        "procid": int(procid) if procid is not None and procid.isdigit() else procid,
        "msgid": fields["log.syslog.msgid"],
        "version": None if version is None else int(version),
        "message": fields["message"],
        **json.loads(rest or "{}"),
    }
    return {name: value for name, value in event.items() if value is not None}


def vrl_expects(expected: dict[str, Any] | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    return {**expected, "timestamp": instant(expected["timestamp"].replace("$YEAR", str(NEW_YEARS_EVE.year)))}


def test_vrl(acceptance: Path) -> None:
    parser = Syslog(tag="word")
    found = (
        (v["source"], as_vrl(parse(v["raw"], parser, NEW_YEARS_EVE)), vrl_expects(v["expected"]))
        for v in vectors(acceptance, "vrl_parse_syslog.jsonl")
    )

    passed, wrong = wrong_ones(found, {})

    assert wrong == []
    assert passed >= 10


# ── syslog-ng: vendors' variants ──────────────────────────────────────────────────────────────────


def syslog_ng_parser(options: Mapping[str, Any]) -> Syslog:
    """Its flags as our options. It takes any first word for the program, and has lines without a host unless told."""
    flags = options["flags"]
    strict_form = "rfc5424" if "no_rfc3164_fallback" in flags else "auto"
    return Syslog(
        priority=None if "no_rfc3164_fallback" in flags else 13,
        format=strict_form if "syslog_protocol" in flags else "rfc3164",
        tag="word",
        not_hosts=options.get("bad_hostname") if "expect_hostname" in flags else ".",
        timezone=ZONE,
    )


def read_as_syslog_ng(vector: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a line: a step `decode` for ``sanitize_utf8``, and without a step `syslog` for ``noparse``."""
    raw, flags = vector["raw"], vector["options"]["flags"]
    if "sanitize_utf8" in flags:
        escape = Decode(encoding="latin1", invalid="escape").compile()
        raw = escape(pa.array([raw.decode("latin-1")])).columns["message"][0].as_py().encode()
    parser = syslog_ng_parser(vector["options"])
    if "noparse" in flags:
        return {**dict.fromkeys(parser.parsed_fields().names), "message": raw.decode()}
    return parse(raw, parser, NOW)


def as_syslog_ng(fields: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the table checks of an event; no text is an empty text to syslog-ng, and no time is now."""
    if fields is None:
        return None
    time = fields["timestamp"]
    rest = json.loads(fields.get("log.syslog.structured_data") or "{}")
    pairs = {f".SDATA.{e}.{name}": text for e, params in rest.items() for name, text in params.items()}
    event = {
        "priority": fields["log.syslog.priority"],
        "facility": fields["log.syslog.facility.code"],
        "severity": fields["log.syslog.severity.code"],
        "hostname": fields["host.hostname"] or "",
        "appname": fields["log.syslog.appname"] or "",
        "procid": fields["log.syslog.procid"] or "",
        "msgid": fields.get("log.syslog.msgid") or "",
        "message": fields["message"] or "",
        "timestamp": "now" if time is None else None,
        "epoch_seconds": None if time is None else int(time.timestamp()),
        "microseconds": None if time is None else time.microsecond,
        "structured_data_pairs": {name: text[:255] for name, text in pairs.items() if name in _pairs(expected)},
    }
    return {name: event[name] for name in expected if name in event}


def _pairs(expected: Mapping[str, Any]) -> Mapping[str, str]:
    return expected.get("structured_data_pairs", {})


def syslog_ng_expects(vector: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table without the raw structured data, which we do not keep, and the offset, for our times are instants."""
    if not vector["valid"]:
        return None
    names = {"structured_data_raw", "utc_offset_seconds"}
    return {name: value for name, value in vector["expected"].items() if name not in names}


@pytest.mark.slow
def test_syslog_ng(acceptance: Path) -> None:
    found = []
    for vector in vectors(acceptance, "syslog_ng_msgparse.jsonl"):
        fields = read_as_syslog_ng(vector)
        expected = syslog_ng_expects(vector)
        found.append((vector["source"], as_syslog_ng(fields, expected or vector["expected"]), expected))

    passed, wrong = wrong_ones(iter(found), SYSLOG_NG_EXCEPTIONS)

    assert wrong == []
    assert passed >= 54


def test_syslog_ng_dates_without_a_year_lie_in_the_zone(acceptance: Path) -> None:
    """Where the table gives no epoch it gives the offset, which tells summer from winter."""
    checked = 0
    for vector in vectors(acceptance, "syslog_ng_msgparse.jsonl"):
        expected = vector["expected"]
        if not vector["valid"] or "utc_offset_seconds" not in expected or "epoch_seconds" in expected:
            continue
        fields = parse(vector["raw"], syslog_ng_parser(vector["options"]), NOW)
        assert fields is not None
        offset = fields["timestamp"].astimezone(ZoneInfo(ZONE)).utcoffset()

        assert offset.total_seconds() == expected["utc_offset_seconds"], vector["source"]
        checked += 1

    assert checked >= 6
