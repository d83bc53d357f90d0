"""The headers of syslog lines as a matrix: each form of a time with each host, program and body."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from parsers.syslog.parser import Syslog

NOW = datetime(2018, 12, 1, tzinfo=UTC)
SECOND = datetime(2018, 10, 7, 3, 10, 4, tzinfo=UTC)

TIMES = {
    "Oct 07 03:10:04": SECOND,
    "Oct  7 03:10:04": SECOND,
    "Oct 7 03:10:04": SECOND,
    "OCT 07 03:10:04": SECOND,
    "oct  7 03:10:04": SECOND,
    "Oct 07 2018 03:10:04": SECOND,
    "Oct 07 03:10:04 2018": SECOND,
    "2018 Oct 07 03:10:04": SECOND,
    "OCT 07 2018 03:10:04": SECOND,
    "Oct 07 03:10:04.123": SECOND.replace(microsecond=123000),
    "Oct 07 03:10:04,5": SECOND.replace(microsecond=500000),
    "Oct 07 03:10:04 UTC": SECOND,
    "2018-10-07T03:10:04Z": SECOND,
    "2018-10-07T05:10:04.123456789+02:00": SECOND.replace(microsecond=123456),
    "2018-10-07T05:10:04+0200": SECOND,
    "2018-10-07 03:10:04": SECOND,
    "2018-10-07 03:10:04,250": SECOND.replace(microsecond=250000),
}
HOSTS = {
    "": None,
    "mydevice.com ": "mydevice.com",
    "srv-1  ": "srv-1",
    "10.0.0.1 ": "10.0.0.1",
    "fe80::1 ": "fe80::1",
    "my_host ": "my_host",
    "a@b ": "a@b",
    "- ": None,
    "Message forwarded from box: ": "box",
}
BODIES: dict[str, tuple[str | None, str | None, str | None]] = {
    "su: session opened": ("su", None, "session opened"),
    "sshd[12]: Accepted x: y": ("sshd", "12", "Accepted x: y"),
    "ctld/snmpd[2499]: PTHREAD": ("ctld/snmpd", "2499", "PTHREAD"),
    "polkitd(authority=local)[7]: a": ("polkitd(authority=local)", "7", "a"),
    "CROND[7]: (root) CMD (a)": ("CROND", "7", "(root) CMD (a)"),
    "%CRYPTO-4-RECVD_PKT: bad": ("%CRYPTO-4-RECVD_PKT", None, "bad"),
    "CEF:0|a|b|1|2|c|3|": (None, None, "CEF:0|a|b|1|2|c|3|"),
}
FRONTS = {"<13>": (13, None), "<190>91: ": (190, 91), "<190>91: *": (190, 91), "<190>: .": (190, None), "": (None, None)}


def lines() -> Iterator[tuple[str, dict[str, Any]]]:
    for (front, (priority, sequence)), (time, instant), (host, name), (body, (app, proc, text)) in product(
        FRONTS.items(), TIMES.items(), HOSTS.items(), BODIES.items()
    ):
        expected = (priority, sequence, instant, name, app, proc, text)
        yield f"{front}{time} {host}{body}", dict(zip(FIELDS, expected, strict=True))


FIELDS = (
    "log.syslog.priority",
    "event.sequence",
    "timestamp",
    "host.hostname",
    "log.syslog.appname",
    "log.syslog.procid",
    "message",
)


def parse(parser: Syslog, texts: list[str]) -> tuple[list[dict[str, Any]], list[bool]]:
    parsed = parser.compile_at(int(NOW.timestamp() * 1_000_000))(pa.array(texts))
    columns = {name: parsed.columns[name].to_pylist() for name in FIELDS}
    failed = [False] * len(texts) if parsed.failed is None else parsed.failed.to_pylist()
    return [{name: column[n] for name, column in columns.items()} for n in range(len(texts))], failed


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["auto", "rfc3164"])
def test_every_header_stands_before_every_body(format_: Any) -> None:
    texts, expected = zip(*lines(), strict=True)

    found, failed = parse(Syslog(format=format_), list(texts))

    assert not any(failed)
    assert {t: f for t, f, e in zip(texts, found, expected, strict=True) if f != e} == {}


def test_repeated_messages_have_no_program() -> None:
    texts = [
        f"{front}Oct 07 03:10:04 {way}last message repeated 3 times"
        for front in FRONTS
        for way in ("", "Message forwarded from box: ")
    ]

    found, _ = parse(Syslog(tag="word"), texts)

    assert {(event["log.syslog.appname"], event["message"]) for event in found} == {(None, "last message repeated 3 times")}


def test_a_default_priority_makes_messages_of_lines_without_a_header() -> None:
    texts = ["some message", "prog: text", "<5>prog: text", "Oct  7 03:10:04 h prog: text"]

    found, failed = parse(Syslog(priority=13), texts)
    _, refused = parse(Syslog(), texts)

    assert not any(failed)
    assert refused == [True, True, False, False]
    assert [event["log.syslog.priority"] for event in found] == [13, 13, 5, 13]
    assert [event["log.syslog.appname"] for event in found] == [None, "prog", "prog", "prog"]


def test_a_default_priority_is_not_for_strict_lines() -> None:
    schema = pa.schema([("message", pa.string())])

    assert [f.code for f in Syslog(priority=13, strict=True).check(schema)] == ["no-priority"]
    assert [f.code for f in Syslog(priority=13, format="rfc5424").check(schema)] == ["no-priority"]
