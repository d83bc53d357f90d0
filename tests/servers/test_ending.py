"""Servers end with their test run, however it ends, and the error of a failed start has the reason."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

import pytest
from running import wait_for
from servers import fixtures, ports
from servers.cache import MissingError
from servers.fleet import Fleet
from servers.process import Command
from servers.relay import Relay
from servers.server import Server, StartError

from connectors.kafka.clients import admin_client
from connectors.kafka.connection_options import ClientSettings

LIMIT = 120.0


class Small(Server):
    """A server that logs when it is ready, and starts a child that survives it."""

    name: ClassVar[str] = "small"
    script: ClassVar[str] = "sleep 1000 & echo $! > child; echo serving; wait"
    address = "nowhere"

    def command(self) -> Command:
        return Command(["sh", "-c", self.script], self.folder)

    def ready(self) -> bool:
        return self.process is not None and "serving" in self.process.output()


class Apart(Small):
    """Its child is in a process group of its own, like those of PostgreSQL."""

    script: ClassVar[str] = "setsid sleep 1000 & echo $! > child; echo serving; wait"


class Broken(Small):
    script: ClassVar[str] = "echo 'port 1 is taken'; exit 3"


class Slow(Small):
    script: ClassVar[str] = "echo 'still thinking'; sleep 1000"
    patience: ClassVar[float] = 0.3


class Meeting(Small):
    """It is prepared together with another one, or not at all."""

    barrier: ClassVar[threading.Barrier]

    def prepare(self) -> None:
        self.barrier.wait(LIMIT)


class Absent(Small):
    def prepare(self) -> None:
        raise MissingError("install it")


def wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def child(server: Server) -> int:
    return int((server.folder / "child").read_text())


@pytest.mark.parametrize("end", [Server.stop, Server.kill, Server.discard])
@pytest.mark.parametrize("kind", [Small, Apart])
def test_the_children_of_a_server_end_with_it(kind: type[Server], end: Callable[[Server], None]) -> None:
    server = kind().start()
    assert server.process is not None
    pids = [server.process.pid, child(server)]

    end(server)

    assert not any(map(lives, pids))
    server.discard()
    assert not server.folder.exists()


def test_a_restart_keeps_the_folder() -> None:
    with Small() as server:
        (server.folder / "data").write_text("kept")

        server.restart()

        assert (server.folder / "data").read_text() == "kept"


@pytest.mark.parametrize(
    ("kind", "message"), [(Broken, "ended with 3[\\s\\S]*port 1 is taken"), (Slow, "not ready[\\s\\S]*still")]
)
def test_a_start_that_fails_shows_the_end_of_the_log(kind: type[Server], message: str) -> None:
    server = kind()

    with pytest.raises(StartError, match=message):
        server.start()

    assert server.process is None
    server.discard()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill -9", "exception", "forked"])
def test_no_server_survives_its_test_run(how: str, tmp_path: Path) -> None:
    script = """
        import os, signal, sys, time
        from test_ending import Small
        server = Small().start()
        print(server.process.pid, server.folder, flush=True)
        if sys.argv[1] == "exception": raise ValueError("a test failed")
        if sys.argv[1] == "forked" and os.fork() == 0: time.sleep(1000)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    line = [sys.executable, "-c", textwrap.dedent(script), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        run.wait(LIMIT)

        try:
            wait(lambda: not lives(int(pid)) and not Path(folder).exists())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # the fork


def test_in_ci_a_missing_server_fails_and_elsewhere_it_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.fleet.KINDS", {"absent": lambda port: Absent()})
    fleet = Fleet(["absent"])

    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="absent: install it"):
        fixtures.started(fleet, "absent")
    monkeypatch.setenv("CI", "1")
    with pytest.raises(MissingError, match="install it"):
        fixtures.started(fleet, "absent")
    fleet.discard()


def test_the_first_request_starts_all_servers_of_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"absent": lambda port: Absent(), "first": lambda port: Small(), "second": lambda port: Small()}
    monkeypatch.setattr("servers.fleet.KINDS", kinds)
    fleet = Fleet(["absent", "second", "first"])

    fleet.start("first")

    second = fleet.servers["second"]
    wait(lambda: second.process is not None)
    fleet.discard()
    assert not second.folder.exists()


def test_servers_of_a_family_are_fetched_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meeting, "barrier", threading.Barrier(2), raising=False)
    monkeypatch.setattr("servers.fleet.KINDS", {name: lambda port: Meeting() for name in ("first", "second")})
    fleet = Fleet(["first", "second"])

    fleet.start("first")
    fleet.start("second")

    assert all(server.process is not None for server in fleet.servers.values())
    fleet.discard()


def test_files_of_the_other_family_are_fetched_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.fleet.KINDS", {"first": lambda port: Small(), "kafka": lambda port: Small()})
    fleet = Fleet(["first", "kafka"])

    fleet.start("first")

    wait(lambda: "kafka" in fleet.servers and fleet.servers["kafka"].prepared)
    assert fleet.servers["kafka"].process is None
    assert fleet.start("kafka").process is not None
    fleet.discard()


@pytest.mark.slow
def test_no_kafka_client_tries_to_reach_a_broker_that_has_ended() -> None:
    before = kafka_threads()
    admin_client(ClientSettings(f"{ports.HOST}:{ports.free()[0]}", 1.0, ()))
    assert kafka_threads() > before

    fixtures.forget_kafka_clients()

    wait(lambda: kafka_threads() <= before)


def kafka_threads() -> int:
    """The threads of librdkafka in this process."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("rdk:") for name in names)


def test_a_relay_that_is_closed_while_it_connects_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[socket.socket] = []

    def connect_and_close(address: tuple[str, int]) -> socket.socket:
        connected.append(connect(address))
        relay.close()
        return connected[0]

    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as target, Relay(f"127.0.0.1:{target.getsockname()[1]}") as relay:
        relay.open()
        monkeypatch.setattr(socket, "create_connection", connect_and_close)
        with closing(connect(("127.0.0.1", relay.port), timeout=60)) as client:
            assert client.recv(1) == b"", "the relay has closed what it accepted"
        wait_for(lambda: connected[0].fileno() < 0, what="the end of the connection to the server")
