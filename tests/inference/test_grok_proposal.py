"""Patterns made from lines: headers of many programs, messages, events of several lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from etl.cli.main import main
from etl.config import check
from etl.inference.match import Match
from etl.inference.sample import open_sample
from etl.inference.search import find_matches

MESSAGES = ("cache warmed up", "could not open the door", "retrying the call", "no route to the printer", "user gave up")


def written(path: Path, line: Callable[[int], str], count: int = 40) -> Path:
    path.write_text("".join(f"{line(n)}\n" for n in range(count)))
    return path


def best(path: Path) -> Match:
    with open_sample(path) as sample:
        return find_matches(sample)[0]


def events(one: Match) -> list[dict[str, Any]]:
    return [row for batch in one.batches for row in batch.to_pylist()]


def level(n: int) -> str:
    return ("INFO", "WARN", "ERROR", "DEBUG")[n % 4]


def message(n: int) -> str:
    return MESSAGES[n % len(MESSAGES)]


HEADERS: Mapping[str, tuple[Callable[[int], str], Mapping[str, Any]]] = {
    "windows servicing": (
        lambda n: f"2026-09-28 04:30:{n:02}, {('Info', 'Error')[n % 2]:<22}{('CBS', 'CSI')[n % 2]}    {message(n)}",
        {"log.level": "Info", "log.logger": "CBS"},
    ),
    "supercomputer": (
        lambda n: (
            f"{'-' if n % 9 else 'APPREAD'} {1117838570 + n} 2005.06.03 R02-M1-N{n}-C:J12-U11 "
            f"2005-06-03-15.42.{n:02}.675872 R02-M1-N{n}-C:J12-U11 RAS {('KERNEL', 'APP')[n % 2]} {level(n)} {message(n)}"
        ),
        {"log.level": "INFO", "log.logger": None, "label": "APPREAD"},
    ),
    "android": (
        lambda n: f"03-17 16:13:{n:02}.811  {1702 + n}  {2395 + n} {'DIWE'[n % 4]} {('Wifi', 'Power  ')[n % 2]}: {message(n)}",
        {"log.level": "D", "log.logger": "Wifi", "process.pid": 1702, "process.thread.id": 2395},
    ),
    "pipes": (
        lambda n: f"20171223-22:{n}:29:606|Step_LSC{n % 3}|30002312|{message(n)}",
        {"field1": "Step_LSC0", "number": 30002312},
    ),
    "names of several words": (
        lambda n: f"[10.30 16:49:{n:02}] {('chrome.exe', 'chrome.exe *64', 'My App.exe')[n % 3]} - {message(n)}",
        {"process.name": "chrome.exe"},
    ),
    "logback": (
        lambda n: f"06:25:{n:02}.123 [main] {level(n):<5} c.e.shop.Order - {message(n)}",
        {"time": "06:25:00.123", "log.level": "INFO", "process.thread.name": "main", "log.logger": "c.e.shop.Order"},
    ),
    "python logging": (
        lambda n: f"2026-11-20 06:25:{n:02},123 - shop.order - {level(n)} - {message(n)}",
        {"log.level": "INFO", "log.logger": "shop.order"},
    ),
    "spring boot": (
        lambda n: f"2026-11-20T06:25:{n:02}.123Z  {level(n):>5} 12{n} --- [           main] c.e.Order      : {message(n)}",
        {"log.level": "INFO", "process.pid": 120, "process.thread.name": "main", "log.logger": "c.e.Order"},
    ),
    "spring boot with a name": (
        lambda n: f"2026-11-20T06:25:{n:02}.1Z  {level(n):>5} 12{n} --- [shop] [nio-8080-exec-{n}] c.e.Order      : {message(n)}",
        {"context": "shop", "process.pid": 120, "process.thread.name": "nio-8080-exec-0", "log.logger": "c.e.Order"},
    ),
    "java with lines of code": (
        lambda n: f"2026-11-20 06:25:{n:02},123 {level(n):<5} [main] com.acme.{('Order', 'Cart')[n % 2]}:{n + 10} - {message(n)}",
        {"log.level": "INFO", "log.logger": "com.acme.Order:10"},
    ),
    "serilog": (
        lambda n: f"2026-11-20 06:25:{n:02}.123 +01:00 [{('INF', 'WRN', 'ERR')[n % 3]}] {message(n)}",
        {"log.level": "INF"},
    ),
    "python without times": (
        lambda n: f"{level(n)}:shop.order:{message(n)}",
        {"log.level": "INFO", "log.logger": "shop.order", "time": None},
    ),
    "logrus on a terminal": (
        lambda n: f"{level(n):<5}[{n:04}] {message(n)}".replace(" [", "["),
        {"log.level": "INFO", "time": None},
    ),
    "semicolons": (
        lambda n: f"2026-11-20 06:25:{n:02};web{n % 3};{level(n)};{n};{message(n)}",
        {"field1": "web0", "log.level": "INFO", "number": 0, "process.pid": None},
    ),
    "rails": (
        lambda n: f"{level(n)[0]}, [2026-11-20T06:25:{n:02}.123456 #1234]  {level(n)} -- : {message(n)}",
        {"log.level": "INFO", "process.pid": 1234},
    ),
    "minecraft": (
        lambda n: f"[12:34:{n:02}] [Server thread/{level(n)}]: {message(n)}",
        {"time": "12:34:00", "process.thread.name": "Server thread", "log.level": "INFO"},
    ),
    "glog": (
        lambda n: f"{'IWE'[n % 3]}1120 06:25:{n:02}.678901   12345 server.go:{n + 100}] {message(n)}",
        {"log.level": "I", "log.origin.file.name": "server.go", "log.origin.file.line": 100},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_becomes_fields_and_the_rest_the_message(tmp_path: Path, kind: str) -> None:
    line, expected = HEADERS[kind]

    one = best(written(tmp_path / "app.log", line))

    assert (one.candidate.name, one.rate) == ("grok", 1.0)
    found = events(one)
    assert [event["message"] for event in found] == [message(n) for n in range(40)]
    assert {name: found[0].get(name) for name in expected if expected[name]} == {k: v for k, v in expected.items() if v}
    if "time" not in expected:
        assert all(event["timestamp"] is not None for event in found)


@pytest.mark.slow
def test_values_of_messages_are_fields_with_types(tmp_path: Path) -> None:
    path = written(
        tmp_path / "app.log", lambda n: f"2026-11-20 06:25:{n:02} user u{n} logged in from 192.0.2.{n}:40{n:02} after {n} ms"
    )

    one = best(path)

    assert one.rate == 1.0
    first = events(one)[7]
    expected = {"user.name": "u7", "source.ip": "192.0.2.7", "source.port": 4007}
    assert {name: first.get(name) for name in expected} == expected
    assert 7 in first.values()


@pytest.mark.slow
def test_a_stack_trace_belongs_to_its_event(tmp_path: Path) -> None:
    trace = "java.io.IOException: gone\n\tat a.B.c(B.java:17)\nCaused by: x.Y: z\n\t... 3 more"
    path = written(
        tmp_path / "app.log", lambda n: f"2026-11-20 06:25:{n:02},1 ERROR [main] a.B: failed {message(n)}\n{trace}", 20
    )

    one = best(path)

    assert (one.events, one.read) == (20, 20)
    assert one.candidate.proposal is not None
    assert one.candidate.proposal.multiline
    assert events(one)[0]["message"] == f"failed {message(0)}\n{trace}"


@pytest.mark.slow
def test_lines_of_several_programs_get_a_pattern_each(tmp_path: Path) -> None:
    def line(n: int) -> str:
        if n % 3 == 2:
            return f"[{n:02}] worker-{n % 2} WARN ready"
        return f"2026-11-20 06:25:{n:02} INFO [main] a.B: {message(n)}"

    one = best(written(tmp_path / "mixed.log", line, 60))

    assert one.rate == 1.0
    assert one.candidate.proposal is not None
    assert len(one.candidate.proposal.patterns) > 1


@pytest.mark.slow
def test_no_host_is_called_info(tmp_path: Path) -> None:
    with open_sample(written(tmp_path / "app.log", lambda n: f"2026-11-20 06:25:{n:02}, Info    CBS    {message(n)}")) as sample:
        found = find_matches(sample)

    assert "syslog" not in [one.candidate.name for one in found]


@pytest.mark.slow
def test_pairs_in_part_of_the_lines_are_no_format(tmp_path: Path) -> None:
    def line(n: int) -> str:
        return f"2026-11-20 06:25:{n:02} [main] INFO a.B: {message(n)}" + (f" took={n} size={n} id={n}" if n % 2 else "")

    one = best(written(tmp_path / "app.log", line))

    assert (one.candidate.name, one.rate) == ("grok", 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["windows servicing", "android", "logback"])
def test_the_pipeline_that_is_written_is_sound_and_its_test_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("main", "test"):
        monkeypatch.setattr(f"etl.cli.{command}.forbid", lambda *names: None)  # this process goes on, with pandas for Spark
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "app.log", HEADERS[kind][0])

    with pytest.raises(SystemExit) as made:
        main(["init", "--for", "app.log"])
    with pytest.raises(SystemExit) as tested:
        main(["test", "app.yaml"])

    assert (made.value.code or 0, tested.value.code or 0) == (0, 0)
    assert check(["app.yaml"]) == []
    assert "1 passed" in capsys.readouterr().err


@pytest.mark.slow
def test_windows_servicing_of_loghub_is_read(acceptance: Path) -> None:
    one = best(acceptance / "loghub" / "Windows" / "Windows_2k.log")

    assert (one.candidate.name, one.rate) == ("grok", 1.0)
    assert {event["log.logger"] for event in events(one)} == {"CBS", "CSI"}


@pytest.mark.slow
def test_a_time_of_day_gives_a_note_and_no_timestamp(tmp_path: Path) -> None:
    found = best(written(tmp_path / "a.log", lambda n: f"06:25:{n:02} {level(n)} worker-{n % 3}: {message(n)}"))

    assert found.candidate.proposal is not None
    assert found.candidate.proposal.formats == ()
    assert "'time' is a time of day" in found.candidate.proposal.notes[0]
