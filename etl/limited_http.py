"""HTTP/1.1 with limits that hold off slow and idle clients: protocol and server wherever uvicorn serves HTTP here.

Needs the extra ``sluice-etl[server]``.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from etl.tls_listener import TlsListener

MAX_HEAD_BYTES = 32 << 10
"""Bytes of the head of a request."""

TICK_SECONDS = 1.0
"""How often the header ``Date`` is renewed."""

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.001, 0.05
"""A server that stops looks so often whether all requests are answered; each time it waits twice as long."""


class LimitedProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]  # uvicorn is not installed everywhere
    """HTTP/1.1 with a limit of connections, and of the time in which the head of a request has to come and an answer has to be
    read. A subclass is the protocol of one server: it has the limits, and the connections that are open.

    At the limit a new connection takes the place of the one that has sent no complete head for longest, so that clients who
    send nothing keep nobody out.
    """

    max_connections: ClassVar[int]
    """Connections at the same time."""

    spare_connections: ClassVar[int] = 0
    """Further connections while all of those process requests; they get `spare_app`."""

    head_seconds: ClassVar[float]
    """Seconds that a client may take to send the head of a request, from its connection on, and before for a TLS handshake."""

    idle_seconds: ClassVar[float]
    """Seconds that a client may take to send the head of its next request, from the answer before. It stands for uvicorn's
    ``timeout_keep_alive``, which is not used."""

    write_seconds: ClassVar[float] = 30.0
    """Seconds that a client may leave an answer unread after the buffers of the system and of the server are full."""

    open_connections: ClassVar[set[LimitedProtocol]]

    waiting_connections: ClassVar[dict[LimitedProtocol, None]]
    """Those that wait for the head of a request, the one that has waited longest first."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _is_refused = False

    def __init_subclass__(cls) -> None:
        cls.open_connections, cls.waiting_connections = set(), {}

    def refuses(self, peer: tuple[Any, ...] | None) -> bool:
        """Whether the connection of a peer, with its address as sockets have it, is closed at once."""
        return False

    def on_too_many(self) -> None:
        """Called when a connection is closed because there are too many."""

    def answer_at_once(self, data: bytes) -> bytes | None:
        """The whole answer to the head of a request that needs no application; None for another one.

        ``data`` is what has come on a connection that waits for a request; it may be a part of a head, or more than one.
        """
        return None

    def spare_app(self, app: Any) -> Any:
        """The application of a connection beyond the limit, made from that of the others."""
        return app

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless it is refused."""
        if self.refuses(transport.get_extra_info("peername")) or not self._find_room():
            self._is_refused = True
            transport.abort()
            return
        self.open_connections.add(self)
        super().connection_made(transport)
        self._expect_head(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        if self._is_refused:
            return
        self._remove()
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process a part of a request."""
        if self._is_refused:
            return
        is_first = self._waits()
        if is_first and self._answer_at_once(data):
            return
        super().data_received(data)
        if self._has_request():
            self.waiting_connections.pop(self, None)
        elif is_first and self._deadline is not None:  # a part of a head: the rest has to come as soon as that of the first one
            self._expect_head(min(self.head_seconds, self._deadline.when() - self.loop.time()))

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self._expect_head(self.idle_seconds)

    def _answer_at_once(self, data: bytes) -> bool:
        """Whether the request is answered already."""
        answer = self.answer_at_once(data)
        if answer is None:
            return False
        self.transport.write(answer)
        self.waiting_connections.pop(self, None)
        self._expect_head(self.idle_seconds)
        return True

    def _waits(self) -> bool:
        """Whether nothing of the next request has come yet, and the client reads."""
        states = self.conn.our_state, self.conn.their_state
        is_idle = states == (h11.IDLE, h11.IDLE) and not self.conn.trailing_data[0]
        return is_idle and not self._has_request() and not self.flow.write_paused and not self.transport.is_closing()

    def _find_room(self) -> bool:
        """Whether this connection may be open; closes another one for it if need be."""
        if len(self.open_connections) < self.max_connections:
            return True
        self.on_too_many()
        for longest in self.waiting_connections:
            longest._remove()
            longest.transport.abort()
            return True
        if len(self.open_connections) < self.max_connections + self.spare_connections:
            self.app = self.spare_app(self.app)
            return True
        return False

    def _remove(self) -> None:
        self.open_connections.discard(self)
        self.waiting_connections.pop(self, None)

    def _has_request(self) -> bool:
        """Whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self, seconds: float) -> None:
        if not self._has_request():  # a client may send the next one before the answer
            self.waiting_connections[self] = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connection, unless a request is being processed."""
        if not self._has_request():
            self.transport.abort()


class StoppableServer(uvicorn.Server):  # type: ignore[misc, unused-ignore]
    """A server that ends as soon as it can after a call of `stop`. uvicorn looks ten times a second whether it has to end,
    and waits for 0.1 s before it looks whether all connections are closed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Accept no more connections, answer the requests that have begun, and end. Any thread may call it, at any time."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the server has ended
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections. uvicorn gives a TLS handshake a minute, and does not limit their number."""
        if self.config.ssl is None or sockets is None:
            await super().startup(sockets)
            return
        kind: Any = self.config.http_protocol_class

        def protocol() -> Any:
            return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

        self.servers: list[Any] = [TlsListener(sock, self.config.ssl, protocol, kind.head_seconds).start() for sock in sockets]
        self.started = True

    async def main_loop(self) -> None:
        """Run until `stop` is called."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close sockets and idle connections, wait for requests, at most ``timeout_graceful_shutdown`` seconds."""
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        await self._wait_for_requests()
        for task in self.server_state.tasks:
            task.cancel()

    async def _wait_for_requests(self) -> None:
        """Close each connection when its request is answered; return when all are closed, or at the limit."""
        loop = asyncio.get_running_loop()
        limit, pause = loop.time() + (self.config.timeout_graceful_shutdown or 0), _FIRST_PAUSE_SECONDS
        connections = self.server_state.connections
        closing: set[Any] = set()
        is_first = True  # those that were accepted just before the sockets were closed are not among the connections yet
        while is_first or ((connections or self.server_state.tasks) and loop.time() < limit):
            for connection in connections - closing:
                closing.add(connection)
                connection.shutdown()
            await asyncio.sleep(pause)
            is_first, pause = False, min(2 * pause, _MAX_PAUSE_SECONDS)
