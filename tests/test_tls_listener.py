"""The listener for TLS: slow handshakes end in time, and their number is limited."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from running import wait_for
from servers.certificates import Certificates
from slow_clients import SlowClients

from etl import tls_listener
from etl.tls_listener import TlsListener


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@contextmanager
def listening(certificates: Certificates, handshake_seconds: float, max_handshakes: int) -> Iterator[int]:
    """A server that sends back what it receives; gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate, certificates.server.key)
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = sock.getsockname()[1]
    loop, stopping = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        listener = TlsListener(sock, context, Echo, handshake_seconds, max_handshakes).start()
        await stopping.wait()
        listener.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()


def echo(port: int, certificates: Certificates) -> bytes:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    with (
        socket.create_connection(("127.0.0.1", port), 60) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"hello")
        return secure.recv(5)


def test_a_handshake_that_is_too_slow_ends_and_others_go_on(certificates: Certificates) -> None:
    with listening(certificates, handshake_seconds=3.0, max_handshakes=500) as port, SlowClients(port, 300) as slow:
        assert echo(port, certificates) == b"hello"
        wait_for(lambda: slow.ended == 300, 50, "the end of the slow handshakes, which asyncio ends after a minute")
        assert echo(port, certificates) == b"hello"


def test_beyond_the_limit_the_longest_handshakes_end_for_new_clients(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "MIN_SECONDS", 0.1)
    with listening(certificates, handshake_seconds=1000.0, max_handshakes=20) as port, SlowClients(port, 200) as slow:
        wait_for(lambda: slow.ended >= 180, 50, "the end of all slow clients but those within the limit")
        assert echo(port, certificates) == b"hello"


def test_clients_that_connect_at_once_wait_for_their_turn(certificates: Certificates) -> None:
    answers: list[bytes] = []
    with listening(certificates, handshake_seconds=60.0, max_handshakes=2) as port:
        clients = [threading.Thread(target=lambda: answers.append(echo(port, certificates))) for _ in range(40)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    assert answers == [b"hello"] * 40
