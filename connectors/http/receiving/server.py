"""The HTTP server of the receiver: uvicorn in a thread, with limits that hold off slow and idle clients, and TLS.

uvicorn, because it is the server of `etl serve` already: it has HTTP/1.1 by h11, TLS, flow control and an orderly end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from connectors.shared.receiving.allowed_networks import AllowedNetworks

if TYPE_CHECKING:
    import ssl

    from connectors.shared.receiving.receive_counters import ReceiveCounters

HEAD_SECONDS = 20.0
"""Seconds that a client may take to send the head of a request, from its connection on."""

IDLE_SECONDS = 300.0
"""Seconds that a connection may be idle between requests: agents keep connections open."""

WRITE_SECONDS = 30.0
"""Seconds that a client may leave an answer unread after the buffers of the system and of the server are full."""

MAX_HEAD_BYTES = 32 << 10
_BACKLOG = 4096
_STOP_SECONDS = 10


class ListenSocket(NamedTuple):
    """A listening socket, and whether it speaks TLS."""

    sock: socket.socket
    tls: ssl.SSLContext | None


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may connect."""

    allowed: AllowedNetworks
    max_connections: int
    counters: ReceiveCounters


class AdmittedProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]  # uvicorn is not installed everywhere
    """HTTP/1.1 with a limit of connections, and of the time in which the head of a request has to come and an answer has to be
    read."""

    admission: Admission
    admitted: set[AdmittedProtocol]
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless there are too many or its network is not allowed."""
        peer = transport.get_extra_info("peername")
        if reason := self._refusal(peer):
            self.admission.counters.count(reason)
            self._is_refused = True
            transport.abort()
            return
        self.admitted.add(self)
        super().connection_made(transport)
        self._expect_head(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        if self._is_refused:
            return
        self.admitted.discard(self)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process a part of a request."""
        if not self._is_refused:
            super().data_received(data)

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._expect_head(IDLE_SECONDS)

    def _refusal(self, peer: Any) -> str:
        if len(self.admitted) >= self.admission.max_connections:
            return "too-many"
        return "" if not peer or self.admission.allowed(peer[0]) else "not-allowed"

    def _expect_head(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connection, unless a request is being processed."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class HttpServer:
    """Serves an ASGI application on several sockets, in one thread."""

    def __init__(self, app: Callable[..., Any], sockets: Sequence[ListenSocket], admission: Admission) -> None:
        protocol = type("ReceivingProtocol", (AdmittedProtocol,), {"admission": admission, "admitted": set()})
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what clients do wrong would fill the log
        self._servers = [(uvicorn.Server(self._config(app, protocol, one.tls)), one.sock) for one in sockets]
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="http-receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests; those that have begun are answered, for at most ten seconds."""
        for server, _ in self._servers:
            server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve_all())

    async def _serve_all(self) -> None:
        await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in self._servers))

    @staticmethod
    def _config(app: Callable[..., Any], protocol: type, tls: ssl.SSLContext | None) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=int(IDLE_SECONDS),
            timeout_graceful_shutdown=_STOP_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        config.load()
        config.ssl = tls
        return config
