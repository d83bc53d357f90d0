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
from pathlib import Path

import pytest
from jobs_and_client import Client
from running import Etl, Ran, wait_for, wait_for_orphans
from servers.ports import free

from etl.running.metrics_server import ListenAddress

C = "/api/pipelines/shop/c"
READY = "ready: http://127.0.0.1:"


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


@pytest.mark.spark
@pytest.mark.slow
def test_every_event_once_over_deploys_pauses_and_kills(etl: Etl, tmp_path: Path) -> None:
    (port,) = free()
    pipeline = 'sources: {main: {type: file, path: "{here}/a.log"}}\n'
    pipeline += "streams: {steps: {from: main, steps: [{type: filter, where: \"message <> 'WORD'\"}]}}\n"
    pipeline += 'sinks:\n  main: {from: steps, type: file, path: "{here}/a.jsonl"}\n'
    pipeline += '  published: {from: steps, type: stream, name: a, folder: "{here}/streams"}\n'
    subscriber = 'source: {type: stream, name: a, folder: "{here}/streams", fields: {message: string}}\n'
    subscriber += 'steps: [{type: regex, patterns: ["^(?P<n>[0-9]+)$"]}]\n'
    subscriber += 'sink: {type: file, path: "{here}/c.jsonl"}\n'
    listener = (
        f'source: {{type: syslog, listen: "tcp://127.0.0.1:{port}"}}\nsteps: [{{type: dedupe, keys: [message], within: 1h}}]\n'
    )
    listener += 'sink: {type: file, path: "{here}/b.jsonl"}\n'
    (tmp_path / "jobs" / "shop").mkdir(parents=True)
    etl.pipeline(pipeline, "jobs/shop/a.yaml")
    etl.pipeline(subscriber, "jobs/shop/c.yaml")
    etl.pipeline(pipeline.replace("WORD", "7"), "a.yaml")
    etl.pipeline(pipeline.replace("filter", "fitler"), "bad.yaml")
    etl.pipeline(listener, "b.yaml")
    append(tmp_path / "a.log", 0, 500)

    def run(*words: str) -> Ran:
        return etl(*words, "--state", "state")

    with serving(etl) as (process, client):
        deployed = run("deploy", "b.yaml", "--namespace", "shop")
        assert (deployed.status, deployed.out) == (0, "shop/b: version 1, running\n"), deployed.err
        assert run("pause", "shop/b").out == "shop/b: paused\n"
        send(port, "while paused")
        wait_for(lambda: len(lines(tmp_path / "a.jsonl")) == 500, what="500 events")
        refused = run("deploy", "bad.yaml", "--namespace", "shop", "--name", "a")
        assert (refused.status, "bad.yaml:2:46: unknown-type" in refused.err) == (1, True), refused.err
        assert run("deploy", "a.yaml", "--namespace", "shop").out == "shop/a: version 2, running\n"
        tap = etl.start("tap", "shop/a", "steps", "--where", "message = '512'", "--limit", 1, "--state", "state")
        wait_for(lambda: (tmp_path / "state" / "shop" / "a" / "taps").exists(), what="the request for samples")
        append(tmp_path / "a.log", 500, 900)
        assert json.loads(tap.communicate(timeout=60)[0]) == {"message": "512"}
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    append(tmp_path / "a.log", 900, 1000)

    with serving(etl) as (process, client):
        assert client("GET", "/api/pipelines/shop/b").json["desired"] == "paused"
        wait_for(lambda: len(lines(tmp_path / "a.jsonl")) >= 1000, what="1000 events")
        assert not lines(tmp_path / "b.jsonl")
        assert run("start", "shop/b").out == "shop/b: running\n"
        wait_for(lambda: len(lines(tmp_path / "b.jsonl")) == 1, what="the event of the pause")
        state = "/api/pipelines/shop/b/state"
        wait_for(lambda: client("GET", state).json != [], what="the state after the first micro-batch")
        assert [(one["step"], one["rows"]) for one in client("GET", state).json] == [("dedupe", 1)]
        status = run("status", "shop/a")
        assert "shop/a: running, version 2" in status.out, status.err
        wait_for(lambda: len(lines(tmp_path / "c.jsonl")) >= 1000, what="1000 events over the stream")
        append_text(tmp_path / "a.log", "number 1000\n")
        wait_for(lambda: client("GET", f"{C}/dead").json["groups"] != [], what="the dead letter")
        (group,) = client("GET", f"{C}/dead?code=regex-failed&text=number").json["groups"]
        assert (group["events"], group["stop"]["at"], group["stop"]["expected"]) == (1, 0, "(?P<n>[0-9]+)")
        etl.pipeline(subscriber.replace("^(", "("), "c.yaml")
        assert run("deploy", "c.yaml", "--namespace", "shop").out == "shop/c: version 2, running\n"
        assert client("POST", f"{C}/dead/replay").status == 200
        wait_for(lambda: len(lines(tmp_path / "c.jsonl")) == 1001, what="the replayed letter")
        wait_for(lambda: client("GET", C).json["status"] == "running", what="the end of the replay")
        assert client("GET", f"{C}/dead").json["groups"] == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    written = [line.split('"')[3] for line in lines(tmp_path / "a.jsonl")]
    assert sorted(written) == sorted([*map(str, range(1000)), "number 1000"]), "each event once"
    read = [line.split('"')[3] for line in lines(tmp_path / "c.jsonl")]
    assert read == [text.removeprefix("number ") for text in written], "each event once, in order, over a stream"
    assert "while paused" in lines(tmp_path / "b.jsonl")[0]
