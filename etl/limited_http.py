"""HTTP/1.1 with limits that hold off slow and idle clients: the protocol of every HTTP server that uvicorn runs here.

Needs the extra ``sluice-etl[server]``.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 32 << 10
"""Bytes of the head of a request."""


class LimitedProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]  # uvicorn is not installed everywhere
    """HTTP/1.1 with a limit of connections, and of the time in which the head of a request has to come and an answer has to be
    read. A subclass is the protocol of one server: it has the limits, and the connections that are open."""

    max_connections: ClassVar[int]
    """Connections at the same time; further ones are closed at once."""

    head_seconds: ClassVar[float]
    """Seconds that a client may take to send the head of a request, from its connection on."""

    idle_seconds: ClassVar[float]
    """Seconds that a client may take to send the head of its next request, from the answer before."""

    write_seconds: ClassVar[float] = 30.0
    """Seconds that a client may leave an answer unread after the buffers of the system and of the server are full."""

    open_connections: ClassVar[set[LimitedProtocol]]

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _is_refused = False

    def refuses(self, peer: tuple[Any, ...] | None) -> bool:
        """Whether the connection of a peer, with its address as sockets have it, is closed at once."""
        return len(self.open_connections) >= self.max_connections

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless it is refused."""
        if self.refuses(transport.get_extra_info("peername")):
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
        self.open_connections.discard(self)
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
        self._unread = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._expect_head(self.idle_seconds)

    def _expect_head(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connection, unless a request is being processed."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
