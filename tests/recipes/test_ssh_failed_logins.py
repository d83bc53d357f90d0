"""The recipe on its sample, and on the other form of syslog lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import ROOT, Engine

RECIPE = (ROOT / "pipelines" / "ssh-failed-logins.yaml").read_text()
EXPECTED = Path(__file__).with_name("ssh-failed-logins")

pytestmark = pytest.mark.spark


def run(engine: Engine, monkeypatch: pytest.MonkeyPatch, log: Path) -> list[dict]:
    archive = engine.etl.folder / "archive.jsonl"
    monkeypatch.setenv("AUTH_LOG", str(log))
    monkeypatch.setenv("ARCHIVE", str(archive))
    engine(RECIPE, drain=True)
    return [json.loads(line) for line in archive.read_text().splitlines()]


def test_the_sample_gives_the_attempts_and_counts_on_record(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    attempts = run(engine, monkeypatch, ROOT / "samples" / "ssh-auth.log")

    counts = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    last = {(row["window_start"], row["source"]["ip"]): row for row in counts}
    expected = [json.loads(line) for line in (EXPECTED / "attackers.jsonl").read_text().splitlines()]
    assert attempts == [json.loads(line) for line in (EXPECTED / "archive.jsonl").read_text().splitlines()]
    assert sorted(last.values(), key=lambda row: (row["window_start"], row["source"]["ip"])) == expected


def test_counts_on_record_are_those_of_a_plain_count() -> None:
    lines = (ROOT / "samples" / "ssh-auth.log").read_text().splitlines()
    expected = [json.loads(line) for line in (EXPECTED / "attackers.jsonl").read_text().splitlines()]

    plain: dict[tuple[str, str], int] = {}
    for line in lines:
        if ": Failed password for " in line:
            key = (line[:15] + "0", line.rsplit(" from ", 1)[1].split()[0])
            plain[key] = plain.get(key, 0) + 1

    assert {(r["window_start"][:16], r["source"]["ip"]): r["failures"] for r in expected} == {
        key: count for key, count in plain.items() if count >= 3
    }


def test_lines_of_the_older_form_and_forged_user_names(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "auth.log"
    log.write_text(
        "Nov  9 06:25:03 gate sshd[12]: Failed password for invalid user x from 192.0.2.1 port 5 ssh2\n"
        "Nov  9 06:25:04 gate sshd[12]: Failed password for root from 10.0.0.1 port 1 ssh2 from 192.0.2.9 port 77 ssh2\n"
        "Nov  9 06:25:05 gate sshd[12]: Accepted password for anna from 192.0.2.1 port 5 ssh2\n"
    )

    attempts = run(engine, monkeypatch, log)

    found = [(row["user_name"], row["source"], row["timestamp"][4:]) for row in attempts]
    assert found == [
        ("x", {"ip": "192.0.2.1", "port": 5}, "-11-09T06:25:03.000000Z"),
        ("root from 10.0.0.1 port 1 ssh2", {"ip": "192.0.2.9", "port": 77}, "-11-09T06:25:04.000000Z"),
    ]
