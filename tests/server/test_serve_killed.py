"""A real server: pipelines are deployed, paused and changed while it is killed, and every event is delivered once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from jobs_and_client import Client
from running import Etl, Ran, wait_for, wait_for_orphans
from servers.ports import free

from etl.running.metrics_server import ListenAddress

C = "/api/pipelines/shop/c"
READY = "ready: http://127.0.0.1:"

PUBLISHER = """\
sources: {main: {type: file, path: "{here}/a.log"}}
streams: {steps: {from: main, steps: [{type: filter, where: "message <> 'WORD'"}]}}
sinks:
  main: {from: steps, type: file, path: "{here}/a.jsonl"}
  published: {from: steps, type: stream, name: a, folder: "{here}/streams"}
"""

SUBSCRIBER = """\
source: {type: stream, name: a, folder: "{here}/streams", fields: {message: string}}
steps: [{type: regex, patterns: ["^(?P<n>[0-9]+)$"]}]
sink: {type: file, path: "{here}/c.jsonl"}
"""

LISTENER = """\
source: {type: syslog, listen: "tcp://127.0.0.1:PORT"}
steps: [{type: dedupe, keys: [message], within: 1h}]
sink: {type: file, path: "{here}/b.jsonl"}
"""


@contextmanager
def serving(etl: Etl) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """A server in the test's folder; killed at the end, if it runs."""
    log = etl.folder / "serve.log"
    words = ["serve", "jobs", "--listen", "0", "--state", "state", "--master", "local[2]"]
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "etl", *words], cwd=etl.folder, stdout=out, stderr=out)
    try:
        wait_for(lambda: READY in log.read_text() or process.poll() is not None, what="ready")
        assert process.poll() is None, log.read_text()
        port = int(log.read_text().partition(READY)[2].split()[0])
        yield process, Client(ListenAddress("127.0.0.1", port))
    finally:
        process.kill()
        process.wait()
        wait_for_orphans(etl.folder)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def append(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in range(*numbers))


def append_text(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def send(port: int, text: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"<13>1 2026-01-31T10:00:00Z h a - - - {text}\n".encode())


def quoted(path: Path) -> list[str]:
    """The first text of each line of JSON."""
    return [line.split('"')[3] for line in lines(path)]


@dataclass(frozen=True)
class Shop:
    """Three pipelines: a filters a file and publishes it, b listens for syslog, c subscribes to a."""

    etl: Etl
    port: int

    @property
    def folder(self) -> Path:
        return self.etl.folder

    def write_files(self) -> None:
        """Write a and c into the folder of jobs; the next version of a, one that cannot run, and b beside it."""
        (self.folder / "jobs" / "shop").mkdir(parents=True)
        self.etl.pipeline(PUBLISHER, "jobs/shop/a.yaml")
        self.etl.pipeline(SUBSCRIBER, "jobs/shop/c.yaml")
        self.etl.pipeline(PUBLISHER.replace("WORD", "7"), "a.yaml")
        self.etl.pipeline(PUBLISHER.replace("filter", "fitler"), "bad.yaml")
        self.etl.pipeline(LISTENER.replace("PORT", str(self.port)), "b.yaml")

    def run(self, *words: str) -> Ran:
        return self.etl(*words, "--state", "state")

    def pause_b_and_deploy_a(self) -> None:
        deployed = self.run("deploy", "b.yaml", "--namespace", "shop")
        assert (deployed.status, deployed.out) == (0, "shop/b: version 1, running\n"), deployed.err
        assert self.run("pause", "shop/b").out == "shop/b: paused\n"
        send(self.port, "while paused")
        wait_for(lambda: len(lines(self.folder / "a.jsonl")) == 500, what="500 events")
        refused = self.run("deploy", "bad.yaml", "--namespace", "shop", "--name", "a")
        assert (refused.status, "bad.yaml:2:46: unknown-type" in refused.err) == (1, True), refused.err
        assert self.run("deploy", "a.yaml", "--namespace", "shop").out == "shop/a: version 2, running\n"

    def tap_a(self) -> None:
        """A sample of a running pipeline is one of the events 500 to 899, which come meanwhile."""
        tap = self.etl.start("tap", "shop/a", "steps", "--where", "message = '512'", "--limit", 1, "--state", "state")
        wait_for(lambda: (self.folder / "state" / "shop" / "a" / "taps").exists(), what="the request for samples")
        append(self.folder / "a.log", 500, 900)
        assert json.loads(tap.communicate(timeout=300)[0]) == {"message": "512"}

    def start_b_again(self, client: Client) -> None:
        """b is paused as before the kill; started, it has the event of the pause."""
        assert client("GET", "/api/pipelines/shop/b").json["desired"] == "paused"
        wait_for(lambda: len(lines(self.folder / "a.jsonl")) >= 1000, what="1000 events")
        assert not lines(self.folder / "b.jsonl")
        assert self.run("start", "shop/b").out == "shop/b: running\n"
        wait_for(lambda: len(lines(self.folder / "b.jsonl")) == 1, what="the event of the pause")
        state = "/api/pipelines/shop/b/state"
        wait_for(lambda: client("GET", state).json != [], what="the state after the first micro-batch")
        assert [(one["step"], one["rows"]) for one in client("GET", state).json] == [("dedupe", 1)]
        status = self.run("status", "shop/a")
        assert "shop/a: running, version 2" in status.out, status.err

    def replay_letter_of_c(self, client: Client) -> None:
        """A dead letter is delivered by the next version of the pipeline."""
        wait_for(lambda: len(lines(self.folder / "c.jsonl")) >= 1000, what="1000 events over the stream")
        append_text(self.folder / "a.log", "number 1000\n")
        wait_for(lambda: client("GET", f"{C}/dead").json["groups"] != [], what="the dead letter")
        (group,) = client("GET", f"{C}/dead?code=regex-failed&text=number").json["groups"]
        assert (group["events"], group["stop"]["at"], group["stop"]["expected"]) == (1, 0, "(?P<n>[0-9]+)")
        self.etl.pipeline(SUBSCRIBER.replace("^(", "("), "c.yaml")
        assert self.run("deploy", "c.yaml", "--namespace", "shop").out == "shop/c: version 2, running\n"
        assert client("POST", f"{C}/dead/replay").status == 200
        wait_for(lambda: len(lines(self.folder / "c.jsonl")) == 1001, what="the replayed letter")
        wait_for(lambda: client("GET", C).json["status"] == "running", what="the end of the replay")
        assert client("GET", f"{C}/dead").json["groups"] == []


@pytest.mark.spark
@pytest.mark.slow
def test_every_event_once_over_deploys_pauses_and_kills(etl: Etl, tmp_path: Path) -> None:
    (port,) = free()
    shop = Shop(etl, port)
    shop.write_files()
    append(tmp_path / "a.log", 0, 500)

    with serving(etl) as (process, _):
        shop.pause_b_and_deploy_a()
        shop.tap_a()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    append(tmp_path / "a.log", 900, 1000)
    with serving(etl) as (process, client):
        shop.start_b_again(client)
        shop.replay_letter_of_c(client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0

    written = quoted(tmp_path / "a.jsonl")
    assert sorted(written) == sorted([*map(str, range(1000)), "number 1000"]), "each event once"
    read = quoted(tmp_path / "c.jsonl")
    assert read == [text.removeprefix("number ") for text in written], "each event once, in order, over a stream"
    assert "while paused" in lines(tmp_path / "b.jsonl")[0]
