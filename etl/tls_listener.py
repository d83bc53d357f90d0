"""A listening socket for TLS whose handshakes are limited in time and number, so that slow clients keep nobody out.

asyncio's own servers give a handshake 60 s, and begin any number of them: clients that connect and send a byte a second hold
memory and file descriptors for a minute each.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_HANDSHAKES = 256
"""Handshakes at the same time; each takes up to 300 KiB. That of a quick client takes a few milliseconds."""

MIN_SECONDS = 1.0
"""How long a handshake may always take, however many clients wait: a thousand clients that connect at once are all served."""

_ACCEPT_PAUSE_SECONDS = 1.0
"""Pause after a connection that cannot be accepted, because too many files are open."""

_ACCEPTED_AT_ONCE = 64
"""Connections that are accepted before others are served."""


@dataclass(eq=False)
class TlsListener:
    """Accepts connections on a socket, and connects those whose handshake succeeds with a protocol.

    At the limit new clients wait in the socket's backlog until a handshake ends; the one that has lasted longest is ended for
    them, once it has lasted `MIN_SECONDS`.
    """

    sock: socket.socket
    context: ssl.SSLContext
    protocol: Callable[[], asyncio.Protocol]
    """Called once a connection."""

    handshake_seconds: float
    """Seconds that a handshake may take."""

    max_handshakes: int = MAX_HANDSHAKES
    _handshakes: dict[asyncio.Task[None], float] = field(default_factory=dict)
    """When each of them began; the longest first."""

    _timer: asyncio.TimerHandle | None = None
    _accepts: bool = False

    def start(self) -> TlsListener:
        """Accept connections in the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        self.sock.setblocking(False)
        self._resume()
        return self

    def close(self) -> None:
        """Accept no more connections, end the handshakes, and close the socket."""
        self._pause()
        for handshake in self._handshakes:
            handshake.cancel()
        self.sock.close()

    def _resume(self) -> None:
        self._pause()
        self._accepts = True
        self._loop.add_reader(self.sock, self._accept)

    def _pause(self, seconds: float | None = None) -> None:
        """Accept nothing, for some seconds or until `_resume`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._accepts:
            self._accepts = False
            self._loop.remove_reader(self.sock)
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if (wait := self._seconds_until_room()) > 0:
                self._pause(wait)
                return
            try:
                client, _ = self.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause(_ACCEPT_PAUSE_SECONDS)
                return
            self._begin_handshake(client)

    def _seconds_until_room(self) -> float:
        """How long until another handshake may begin; ends the longest one for it, if that has had its time."""
        if len(self._handshakes) < self.max_handshakes:
            return 0.0
        longest, began = next(iter(self._handshakes.items()))
        wait = began + MIN_SECONDS - self._loop.time()
        if wait <= 0:
            del self._handshakes[longest]
            longest.cancel()
        return wait

    def _begin_handshake(self, client: socket.socket) -> None:
        client.setblocking(False)
        handshake = self._loop.create_task(self._shake_hands(client))
        self._handshakes[handshake] = self._loop.time()
        handshake.add_done_callback(lambda ended: self._end_handshake(ended, client))

    async def _shake_hands(self, client: socket.socket) -> None:
        await self._loop.connect_accepted_socket(
            self.protocol, client, ssl=self.context, ssl_handshake_timeout=self.handshake_seconds
        )

    def _end_handshake(self, handshake: asyncio.Task[None], client: socket.socket) -> None:
        self._handshakes.pop(handshake, None)
        if handshake.cancelled() or handshake.exception() is not None:  # an error of the client, which ends its connection only
            client.close()
        if self._timer is not None and len(self._handshakes) == self.max_handshakes - 1:
            self._resume()
