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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import uvicorn

from connectors.shared.receiving.allowed_networks import AllowedNetworks
from etl.limited_http import MAX_HEAD_BYTES, LimitedProtocol, StoppableServer

if TYPE_CHECKING:
    import ssl

    from connectors.shared.receiving.receive_counters import ReceiveCounters

IDLE_SECONDS = 300.0
"""Seconds that a connection may be idle between requests: agents keep connections open."""

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


class AdmittedProtocol(LimitedProtocol):
    """The protocol of a receiver: only senders that are admitted may connect."""

    head_seconds = 20.0
    idle_seconds = IDLE_SECONDS
    admission: ClassVar[Admission]

    def refuses(self, peer: tuple[Any, ...] | None) -> bool:
        """Whether the network of the peer is not allowed."""
        if peer and not self.admission.allowed(peer[0]):
            self.admission.counters.count("not-allowed")
            return True
        return False

    def on_too_many(self) -> None:
        """Count it."""
        self.admission.counters.count("too-many")


class HttpServer:
    """Serves an ASGI application on several sockets, in one thread."""

    def __init__(self, app: Callable[..., Any], sockets: Sequence[ListenSocket], admission: Admission) -> None:
        limits = {"admission": admission, "max_connections": admission.max_connections}
        protocol = type("ReceivingProtocol", (AdmittedProtocol,), limits)
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what clients do wrong would fill the log
        self._servers = [(StoppableServer(self._config(app, protocol, one.tls)), one.sock) for one in sockets]
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="http-receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests; those that have begun are answered, for at most ten seconds."""
        for server, _ in self._servers:
            server.stop()
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
