"""Receivers over TLS: clients that know the authority and have a certificate are served, others are not."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest
from running import wait_for
from servers.certificates import Certificates
from slow_clients import SlowClients

from connectors.beats.source import BeatsSource
from connectors.forward.source import ForwardSource
from connectors.http.receiving.server import AdmittedProtocol
from connectors.http.source import HttpSource
from connectors.shared.receiving import tcp_server
from etl import tls_listener

HTTP = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
BEATS = b"2W\x00\x00\x00\x012J\x00\x00\x00\x01\x00\x00\x00\x02{}"
FORWARD = msgpack.packb(["app", 1, {"log": "x"}, {"chunk": "c"}])
SOURCES = {
    "http": (HttpSource, "https://127.0.0.1:0", HTTP, b"HTTP/1.1 200 OK"),
    "beats": (BeatsSource, "tls://127.0.0.1:0", BEATS, b"2A\x00\x00\x00\x01"),
    "forward": (ForwardSource, "tls://127.0.0.1:0", FORWARD, msgpack.packb({"ack": "c"})),
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def exchange(port: int, context: ssl.SSLContext | None, data: bytes) -> bytes:
    """Send bytes, over TLS if there is a context; return the answer, none if the connection ends instead."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as sock:
        if context is None:
            sock.sendall(data)
            return sock.recv(100)
        with context.wrap_socket(sock, server_hostname="localhost") as secure:
            secure.sendall(data)
            return secure.recv(100)
    return b""


@pytest.mark.parametrize("kind", SOURCES)
def test_clients_need_the_certificate_that_the_options_ask_for(tmp_path: Path, certificates: Certificates, kind: str) -> None:
    class_, address, data, expected = SOURCES[kind]
    files = {"certificate": str(certificates.server.certificate), "key": str(certificates.server.key)}
    tls = {**files, "client_authority": str(certificates.authority)}
    receiver = class_.model_validate({"type": kind, "listen": [address], "tls": tls}).with_folder(str(tmp_path)).receiver()
    known = ssl.create_default_context(cafile=str(certificates.authority))
    unknown = ssl.create_default_context(cafile=str(certificates.authority))
    known.load_cert_chain(certificates.client.certificate, certificates.client.key)

    receiver.start()
    try:
        assert exchange(receiver.ports[0], known, data).startswith(expected)
        for context in (unknown, None):
            assert expected not in exchange(receiver.ports[0], context, data)
    finally:
        receiver.stop()


@pytest.mark.parametrize("kind", SOURCES)
def test_slow_handshakes_end_within_the_time_of_the_receiver_and_keep_nobody_out(
    tmp_path: Path, certificates: Certificates, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_server, "HANDSHAKE_SECONDS", 3.0)
    monkeypatch.setattr(AdmittedProtocol, "head_seconds", 3.0)
    class_, address, data, expected = SOURCES[kind]
    tls = {"certificate": str(certificates.server.certificate), "key": str(certificates.server.key)}
    receiver = class_.model_validate({"type": kind, "listen": [address], "tls": tls}).with_folder(str(tmp_path)).receiver()
    known = ssl.create_default_context(cafile=str(certificates.authority))

    receiver.start()
    try:
        with SlowClients(receiver.ports[0], 300) as slow:
            assert exchange(receiver.ports[0], known, data).startswith(expected)
            wait_for(lambda: slow.ended == 300, 50, "the end of the slow handshakes")
            assert exchange(receiver.ports[0], known, data).startswith(expected)
    finally:
        receiver.stop()


@pytest.mark.parametrize("kind", SOURCES)
def test_beyond_their_number_the_longest_handshakes_end_for_new_clients(
    tmp_path: Path, certificates: Certificates, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_server, "HANDSHAKE_SECONDS", 1000.0)
    monkeypatch.setattr(AdmittedProtocol, "head_seconds", 1000.0)
    monkeypatch.setattr(tls_listener, "MIN_SECONDS", 0.1)
    class_, address, data, expected = SOURCES[kind]
    tls = {"certificate": str(certificates.server.certificate), "key": str(certificates.server.key)}
    receiver = class_.model_validate({"type": kind, "listen": [address], "tls": tls}).with_folder(str(tmp_path)).receiver()
    known = ssl.create_default_context(cafile=str(certificates.authority))

    receiver.start()
    try:
        with SlowClients(receiver.ports[0], tls_listener.MAX_HANDSHAKES + 40) as slow:
            wait_for(lambda: slow.ended >= 40, 50, "the end of the slow clients beyond the limit")
            assert exchange(receiver.ports[0], known, data).startswith(expected)
    finally:
        receiver.stop()
