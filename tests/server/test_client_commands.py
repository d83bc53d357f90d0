"""The commands of clients, against a server and against runs on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from jobs_and_client import Client, Jobs
from rich.console import Console
from running import wait_for

from etl.api import OFFSET, EtlError
from etl.cli.main import cli
from etl.cli.server.connection import Connection
from etl.cli.server.top import DOWN, ENTER, QUIT, UP, View
from etl.running.message_log import MessageLog
from etl.running.messages import Message
from etl.segment.taps import Taps
from etl.spark.reports.totals import SourceLag


class Command:
    """Calls ``etl`` in this process, for one server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--server", self.url], standalone_mode=True)


@pytest.fixture
def etl(client: Client, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("etl.cli.server.changes._POLL_SECONDS", 0.01)
    return Command(f"http://{client.address.host}:{client.address.port}")


def test_a_pipeline_is_deployed_watched_and_removed(jobs: Jobs, etl: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(jobs.text())
    assert etl("ps").output == f"the server at {etl.url} has no pipelines\n"

    assert etl("deploy", str(file), "--namespace", "shop").output == "shop/a: version 1, running\n"
    jobs.run("shop/a").work(1234, dead=1)
    listed = etl("ps").output.splitlines()
    assert listed[0].split() == ["name", "status", "version", "in/s", "out/s", "in", "out", "dead", "lag"]
    assert listed[1].split()[:3] == ["shop/a", "running", "1"]
    assert listed[1].split()[5:8] == ["1,234", "1,233", "1"]
    assert json.loads(etl("ps", "--format", "json").output)["in"] == 1234
    shown = etl("status", "shop/a").output
    assert "1,234 in, 1,233 out, 1 dead" in shown
    assert "steps[0] filter: 1,234 in, 1,233 out, 0 filtered, 1 dead" in shown

    file.write_text(jobs.text("a", "run: {trigger: 2s}\n"))
    assert etl("deploy", str(file), "--namespace", "shop").output == "shop/a: version 2, running\n"
    assert etl("rollback", "shop/a").output == "shop/a: version 3, running\n"
    assert [line.split()[0] for line in etl("rollback", "shop/a", "--list").output.splitlines()] == ["1", "2", "3"]
    assert etl("stop", "shop/a").output == "shop/a: stopped\n"
    assert etl("pause", "shop/a").output == "shop/a: paused\n"
    assert etl("start", "shop/a").output == "shop/a: running\n"
    assert etl("restart", "shop/a").output == "shop/a: running\n"
    messages = etl("logs", "shop/a", "--limit", "1").output
    assert messages.endswith("version 3 is accepted\n")
    assert etl("remove", "shop/a", "--yes").output == "shop/a: removed\n"
    assert not (jobs.folder / "shop" / "a.yaml").exists()


def test_problems_of_a_deployed_file_have_its_lines(jobs: Jobs, etl: Command, tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(jobs.text().replace("filter", "fitler"))

    ran = etl("deploy", str(file))

    assert ran.exit_code == 1
    assert f"{file}:3:10: unknown-type: $.steps[0].type" in ran.output
    assert "1 of 1 file is refused" in str(ran.exception)


def test_a_version_that_does_not_start_is_reported(jobs: Jobs, etl: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(jobs.text())
    etl("deploy", str(file))
    jobs.engine.broken.add("100d")
    file.write_text(jobs.text("a", "run: {trigger: 100d}\n"))

    ran = etl("deploy", str(file))

    assert ran.exit_code == 1
    assert "version 2 does not start: the port is in use" in ran.output


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("status", "shop/none"), "there is no pipeline 'shop/none'"),
        (("stop", "../x"), "'..' is not the name of a namespace"),
        (("rollback", "shop/none"), "there is no pipeline 'shop/none'"),
    ],
)
def test_errors_of_the_server_are_errors_of_the_command(etl: Command, words: tuple[str, ...], error: str) -> None:
    ran = etl(*words)

    assert (ran.exit_code, error in str(ran.exception)) == (1, True), ran.exception


def test_what_is_no_server_is_named() -> None:
    for url, error in (
        ("http://127.0.0.1:1", "no server answers at http://127.0.0.1:1: Connection refused"),
        *(
            (url, "is not the URL of a server")
            for url in ("ftp://x", "a b", "x:99999", "x:y", "x:0", "[::1", "a..b", "a\udcff", "x?y", "x/y")
        ),
        ("http://me:secret@x:y", "is not the URL of a server"),
        ("http://me:secret@x", "its token is that of the environment, ETL_TOKEN"),
    ):
        told = str(Command(url)("ps").exception)
        assert (error in told, "secret" in told) == (True, False), told


ANSWERS = {
    "a document of another service": (200, b'{"name": "node-1", "version": {"number": "9"}}'),
    "a list": (200, b"[1, 2]"),
    "a text": (200, b'"ok"'),
    "no JSON": (200, b"<html>"),
    "nesting without end": (200, b"[" * 100_000),
    "an error as a text": (404, b'{"error": "no handler found", "status": 400}'),
    "an error as an object": (404, b'{"error": {"type": "x", "reason": "y"}}'),
    "a redirection": (302, b"{}"),
    "too few bytes": (200, None),
}
CLIENTS = [
    *(["ps"], ["top", "--once"], ["logs", "a/b"], ["tap", "a/b", "s"], ["remove", "a/b", "--yes"], ["rollback", "a/b", "--list"]),
    *([verb, "a/b"] for verb in ("status", "start", "stop", "pause", "restart", "rollback")),
    *(["dead", verb, "a/b"] for verb in ("count", "show", "replay")),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_answers_something_else_is_named(answer: str) -> None:
    status, body = ANSWERS[answer]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(100 if body is None else len(body)))
            self.end_headers()
            self.wfile.write(body or b"{")

        def do_POST(self) -> None:
            self.do_GET()

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for words in CLIENTS:
            error = Command(f"http://127.0.0.1:{server.server_port}")(*words).exception
            assert isinstance(error, EtlError), (words, error)
            assert re.search("is not a server of etl|broke off", str(error)), (words, error)
        server.shutdown()


def test_a_removal_without_a_terminal_asks_for_the_option(etl: Command) -> None:
    refused = etl("remove", "shop/a")

    assert (refused.exit_code, "give --yes" in refused.stderr) == (2, True)


def test_a_path_that_holds_no_state_folders_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("")

    error = str(CliRunner().invoke(cli, ["ps", "--state", str(tmp_path / "p.yaml")]).exception)

    assert error.startswith(f"cannot read {tmp_path}/p.yaml, where runs have their state folders: Not a directory")


@pytest.mark.parametrize("token", ["abc\nd", "abcä", "abc\udcff"])
def test_what_is_no_token_is_an_error_that_does_not_repeat_it(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETL_TOKEN", token)

    assert str(Command("http://127.0.0.1:1")("ps").exception).startswith("ETL_TOKEN: a token has printable ASCII")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of a state folder, as a run does."""
    code = (
        "import fcntl, os, sys, signal\n"
        "lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "lock.write(f'{os.getpid()} since today'); lock.flush(); print('locked', flush=True)\n"
        "signal.sigwait([signal.SIGTERM])\n"
    )
    state = tmp_path / "states" / "ssh"
    (state / "logs").mkdir(parents=True)
    (state / "metrics.prom").write_text(
        '# TYPE x counter\nsluice_source_events_total{pipeline="ssh",source="a"} 70\nsluice_source_events_total{source="b"} 7\n'
        'sluice_step_events_total{step="steps[0] grok"} 77\nsluice_sink_events_total{sink="out",outcome="out"} 75\n'
        'sluice_sink_events_total{sink="out",outcome="dead"} 2\nsluice_dead_letters_total{pipeline="ssh"} 2\n'
    )
    MessageLog(state / "logs" / "messages.jsonl").append(Message("dead", "a bell\a", "warning", "ssh"))
    blocked = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # noqa: E731
    with subprocess.Popen(
        [sys.executable, "-c", code, str(state / "lock")], stdout=subprocess.PIPE, preexec_fn=blocked
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"locked\n"
        yield started
        started.kill()


@pytest.mark.slow
def test_runs_on_this_machine_are_found_by_their_state(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    ended = tmp_path / "states" / "ended"
    ended.mkdir()
    (ended / "lock").write_text("1 since yesterday")
    states = str(tmp_path / "states")

    def etl(*words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--state", states])

    listed = etl("ps").output.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "ssh"]
    assert (listed[1].split()[2:5], f"process {process.pid}" in listed[1]) == (["77", "75", "2"], True)
    assert "sink out: 75 out, 2 dead" in etl("status", "ssh").output
    assert etl("logs", "ssh").output.endswith("a bell·\n")
    assert "which can only be stopped: servers can pause" in str(etl("pause", "ssh").exception)
    assert "running: ssh" in str(etl("status", "other").exception)
    assert "no server runs with a state folder in" in str(etl("deploy", __file__).exception)

    (tmp_path / "ssh.yaml").write_text("source: {type: file, path: a.log}\nsink: {type: discard}\n")
    tap = ("tap", "ssh", "main", "--file", str(tmp_path / "ssh.yaml"), "--state", states)
    assert "name its pipeline file with --file" in CliRunner().invoke(cli, [*tap[:3], *tap[-2:]]).output
    with ThreadPoolExecutor(1) as pool:
        sampled = pool.submit(write_samples, tmp_path / "states" / "ssh" / "taps")
        lines = CliRunner().invoke(cli, [*tap, "--where", "message <> 'e1'", "--limit", "2"]).stdout
        sampled.result()
        assert [json.loads(line)["message"] for line in lines.splitlines()] == ["e0", "e2"]
        assert not (tmp_path / "states" / "ssh" / "taps").exists(), "the request is withdrawn"
        ended_tap = pool.submit(CliRunner().invoke, cli, list(tap))
        wait_for(lambda: any((tmp_path / "states" / "ssh" / "taps").glob("*.json")))
        os.kill(process.pid, signal.SIGKILL)
        assert ended_tap.result(120).stderr == "ssh has ended\n"


def write_samples(folder: Path) -> None:
    """What a task of the run does when somebody looks."""
    wait_for(lambda: any(folder.glob("*.json")), what="the request for samples")
    taps = Taps.open(folder)
    assert taps is not None
    taps.take("source main", pa.record_batch({"message": [f"e{number}" for number in range(5)], OFFSET: range(5)}))
    taps.write()


@pytest.mark.slow
def test_a_run_on_this_machine_is_stopped(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    def etl(*words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--state", str(tmp_path / "states")])

    assert f"process {process.pid} stops" in etl("stop", "ssh").output
    assert process.wait(120) == 0


def test_a_server_on_this_machine_is_found_by_its_state(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "states" / "server" / ".server"
    folder.mkdir(parents=True)
    (folder / "server.json").write_text(json.dumps({"url": f"http://127.0.0.1:{client.address.port}", "pid": os.getpid()}))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()} since now")
        lock.flush()

        found = CliRunner().invoke(cli, ["status", "shop/none", "--state", str(tmp_path / "states")])

    assert "there is no pipeline 'shop/none'" in str(found.exception)
    assert "no server runs" in str(
        CliRunner().invoke(cli, ["status", "shop/none", "--state", str(tmp_path / "states")]).exception
    )


def test_top_shows_rates_and_on_a_key_steps(jobs: Jobs, etl: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(jobs.text())
    etl("deploy", str(file), "--namespace", "shop")

    table = etl("top", "--once").output.splitlines()
    assert table[0].split() == ["pipeline", "state", "in/s", "out/s", "dead/s", "lag", "behind", "batches", "note"]
    assert table[1].split()[:5] == ["shop/a", "running", "0", "0", "0"]

    row = {"name": "web/access", "status": "waiting", "in/s": 12730, "out/s": 12726, "dead/s": 4, "lag": 1.2, "batches": 18204}
    row["behind"] = "1,024 (3 s)"
    with (console := Console(width=80)).capture() as screen:
        console.print(View().table([{**row, "note": "no space left on device " * 9}], is_live=True))
    assert screen.get().splitlines()[1].split()[:11] == [
        *("web/access", "waiting", "12,730", "12,726", "4", "1.2", "s"),
        *("1,024", "(3", "s)", "18,204"),
    ]
    run = jobs.run("shop/a")
    run.work(1234, dead=1)
    run.totals.lags |= {("main", "q"): SourceLag(7, 0.0, 140), ("main", "r"): SourceLag(9, 0.0, 180)}
    assert re.search(r"  9 \([\d,]+ s\)  ", etl("top", "--once").output)
    assert Connection.of(etl.url).pipeline("GET", "shop/a")["sources"][0]["backlog_bytes"] == 180
    view = View()
    rows = [{"name": "shop/a"}, {"name": "shop/b"}]
    assert [view.press(key, 2) or view.chosen(rows) for key in (UP, DOWN, DOWN, UP)] == ["shop/a", "shop/b", "shop/b", "shop/a"]
    assert not view.press(ENTER, 2)
    assert view.shows_detail
    shown = Connection.of(etl.url).pipeline("GET", "shop/a")
    with (console := Console(width=100)).capture() as screen:
        console.print(view.render([], shown))
    assert "steps[0] filter" in screen.get()
    assert "1,234" in screen.get()
    assert view.press(QUIT, 2)


def test_top_on_a_narrow_terminal_leaves_out_columns_and_cuts_no_number() -> None:
    row = {"name": "shop/orders-of-the-day", "status": "running", "in/s": 12345, "out/s": 12000, "dead/s": 0, "lag": 0.4}
    row |= {"behind": "1,234,567 events", "batches": 1234, "note": "no space left on device"}
    headings = {}
    for width in (40, 60, 80, 120):
        with (console := Console(width=width)).capture() as screen:
            console.print(View().table([row], is_live=False, width=width))
        heading, line = screen.get().splitlines()
        headings[width] = heading.split()
        assert "12,345" in line.split()
        assert ("12,000" in line.split()) == ("out/s" in headings[width])

    assert headings[40] == ["pipeline", "state", "in/s"]
    assert headings[60] == ["pipeline", "state", "in/s", "out/s", "dead/s", "lag"]
    assert "note" in headings[80]
    assert headings[120] == ["pipeline", "state", "in/s", "out/s", "dead/s", "lag", "behind", "batches", "note"]


def test_top_with_more_pipelines_than_lines_shows_those_around_the_chosen_one() -> None:
    rows = [
        {
            "name": f"shop/p{number:04}",
            "status": "running",
            "in/s": 1,
            "out/s": 1,
            "dead/s": 0,
            "lag": 0.0,
            "behind": "",
            "note": "",
        }
        | {"batches": 1}
        for number in range(1000)
    ]
    view = View()

    def screen() -> list[str]:
        with (console := Console(width=100)).capture() as shown:
            console.print(view.render(rows, None, 100, 23))
        return shown.get().splitlines()

    assert [line.split()[0] for line in screen()[1:21]] == [f"shop/p{number:04}" for number in range(20)]
    assert screen()[21].startswith("1 to 20 of 1,000; keys:")
    for _ in range(500):
        view.press(DOWN, len(rows))
    assert [line.split()[0] for line in screen()[1:21]] == [f"shop/p{number:04}" for number in range(481, 501)]
    for _ in range(10):
        view.press(UP, len(rows))
    assert screen()[1].startswith("shop/p0481"), "the chosen line moves on the screen"
    del rows[5:]
    assert [line.split()[0] for line in screen()[1:6]] == [f"shop/p{number:04}" for number in range(5)]


def test_top_says_that_nothing_runs(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["top", "--state", str(tmp_path)])

    assert shown.stdout == ""
    assert "nothing runs with a state folder in" in shown.stderr
