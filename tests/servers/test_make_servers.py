"""``make servers``: it prints a table of the servers, and ends them all after Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from servers import __main__ as command
from servers import ports
from servers.brokers.kafka_server import Kafka
from servers.brokers.rocketmq_server import RocketMq
from servers.databases.mariadb_server import MariaDb
from servers.fleet import ACCOUNT
from servers.search.opensearch_server import OpenSearch
from servers.server import Server

SECONDS = 120


def start(*names: str) -> subprocess.Popen[str]:
    """Start it as a terminal does: a shell's background jobs, such as these tests may be, ignore SIGINT."""
    line = [sys.executable, "-m", "servers", *names]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    pipe = subprocess.PIPE
    return subprocess.Popen(line, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=_accept_interrupts)


def _accept_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (partial(Kafka, port=9), ("127.0.0.1:9", "-", "-", "type: kafka, servers: ['127.0.0.1:9']")),
        (
            partial(RocketMq, port=9, account=ACCOUNT),
            ("127.0.0.1:9", "etl", ACCOUNT.password, "type: rocketmq, servers: ['127.0.0.1:9']"),
        ),
        (partial(OpenSearch, port=9), ("http://127.0.0.1:9", "-", "-", "type: elasticsearch, urls: ['http://127.0.0.1:9']")),
        (
            partial(MariaDb, port=9),
            ("127.0.0.1:9", "sluice", "change-me", "type: database, url: mysql://127.0.0.1:9/sluice"),
        ),
    ],
    ids=["kafka", "rocketmq", "opensearch", "mariadb"],
)
def test_a_row_has_the_options_for_connecting(kind: Callable[[], Server], message: tuple[str, ...]) -> None:
    server = kind()

    assert command.row("name", server) == ("name", *message)
    server.discard()


def test_columns_are_as_wide_as_their_cells() -> None:
    assert command.table([("a", "bb", "c"), ("ddd", "e", "")]) == "a    bb  c\nddd  e"


@pytest.mark.slow
def test_the_error_of_an_unknown_name_lists_the_names() -> None:
    _, error = start("kafka", "memcached").communicate(timeout=SECONDS)

    assert "there is no server 'memcached'; there are kafka, mariadb, " in error


def test_a_port_in_use_is_replaced_by_another() -> None:
    (port,) = ports.free()
    assert ports.usual(port) == port

    with socket.create_server((ports.HOST, port)):
        assert ports.usual(port) != port


@pytest.mark.parametrize(
    ("clients", "lowest"), [("30000\t60999\n", 30_000), ("1024 65535", ports.USUAL_LOWEST), ("", ports.USUAL_LOWEST)]
)
def test_ports_are_outside_of_the_client_range_and_returned_once(
    clients: str, lowest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(clients)
    monkeypatch.setattr(ports, "RANGE", tmp_path / "range")

    alone, broker = ports.free(20), ports.free_with_neighbours((-2, 1))

    assert len({*alone, broker - 2, broker, broker + 1}) == 23
    assert min(*alone, broker - 2) >= ports.LOWEST
    assert max(*alone, broker + 1) < lowest


@pytest.mark.servers
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_servers_run_until_ctrl_c(sign: signal.Signals) -> None:
    with start("postgres") as running:
        assert running.stdout is not None
        running.stdout.readline()
        address = running.stdout.readline().split()[1]

        running.send_signal(sign)
        try:
            _, reason = running.communicate(timeout=SECONDS)
        finally:
            running.kill()  # otherwise a server that ignores the signal is waited for without end

    assert (running.returncode, address.startswith("127.0.0.1:")) == (0, True)
    assert "ending all servers" in reason
