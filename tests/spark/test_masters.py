"""The check before Spark starts that a master answers."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from etl.api import EtlError
from etl.spark import masters
from etl.spark.masters import addresses, check_reachable

NO_STREAM = struct.pack(">qBi", 8 + 1 + 4 + 4 + 4, 8, 4) + b"/abc" + b"none"
"""How a master answers: type StreamFailure."""


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """The port of a server that reads a request, answers each alike and closes."""

    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def closed() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_the_error_for_a_stopped_master_names_its_address() -> None:
    port = closed()

    with pytest.raises(EtlError, match=rf"no master answers at spark://127.0.0.1:{port} \(.*:{port}: connection refused\)"):
        check_reachable(f"spark://127.0.0.1:{port}")


def test_one_of_several_that_answers_is_enough() -> None:
    with answering(NO_STREAM) as port:
        check_reachable(f"spark://127.0.0.1:{closed()},127.0.0.1:{port}")
        check_reachable(f"k8s://https://127.0.0.1:{port}")


def test_a_master_that_hangs_is_an_error_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "CHECK_SECONDS", 0.0)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(EtlError, match=rf"127.0.0.1:{port}: it accepts connections and does not answer in .* s: it hangs"):
            check_reachable(f"spark://127.0.0.1:{port}")


def test_a_web_server_is_no_master() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(EtlError, match=r"it is a web server; .* 7077"):
        check_reachable(f"spark://127.0.0.1:{port}")


def test_a_master_that_closes_the_connection_passes() -> None:
    with answering(b"") as port:
        check_reachable(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize("master", ["local[*]", "yarn", "local-cluster[1,1,512]"])
def test_masters_without_an_address_are_not_checked(master: str) -> None:
    check_reachable(master)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1,b", [("a", 1), ("b", 7)]),
        ("https://k.example.org:6443", [("k.example.org", 6443)]),
        ("http://k/path", [("k", 7)]),
    ],
)
def test_addresses(text: str, found: list[tuple[str, int]]) -> None:
    assert list(addresses(text, 7)) == found
