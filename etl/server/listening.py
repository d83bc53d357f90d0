"""The HTTP server: uvicorn in a thread, with limits that hold off slow and idle clients, and TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from etl.api import EtlError
from etl.running.metrics_server import ListenAddress

MAX_CONNECTIONS = 512
"""Connections at the same time; further ones are closed at once."""

HEAD_SECONDS = 10.0
"""Seconds that a client may take to send the head of a request, from its connection or from the answer before."""

WRITE_SECONDS = 30.0
"""Seconds that a client may leave an answer unread after the buffers of the system and of the server are full."""

MAX_HEAD_BYTES = 32 << 10
"""Bytes of the head of a request."""

_connections: set[H11Protocol] = set()


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a limit of connections, and of the time in which the head of a request has to come and an
    answer has to be read."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, unless there are too many."""
        if len(_connections) >= MAX_CONNECTIONS:
            transport.abort()
            self._is_refused = True
            return
        _connections.add(self)
        super().connection_made(transport)
        self._expect_head()

    _is_refused = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._is_refused:
            return
        _connections.discard(self)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if not self._is_refused:
            super().data_received(data)

    def pause_writing(self) -> None:
        """The client does not read: give it some time."""
        super().pause_writing()
        self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """The next request may come."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._expect_head()

    def _expect_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Close the connection, unless a request is at work."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


@dataclass(frozen=True)
class Tls:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@contextmanager
def listening(app: Starlette, address: ListenAddress, tls: Tls | None = None) -> Iterator[ListenAddress]:
    """Answer requests while the body runs; gives the address with its port. Raises EtlError if it cannot listen there."""
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what clients do wrong would fill the log
    try:
        config.load()
        listener = _bind(address)
    except (OSError, ssl.SSLError) as error:
        what = "with these files of TLS" if isinstance(error, ssl.SSLError) else ""
        text = f"cannot listen at {address.host}:{address.port} (--listen) {what}".rstrip()
        raise EtlError(f"{text}: {error.strerror or error}") from error
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="http", daemon=True)
    thread.start()
    try:
        yield ListenAddress(address.host, listener.getsockname()[1])
    finally:
        app.state.events.end()
        server.should_exit = True
        thread.join()
        listener.close()


def _bind(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=256)
