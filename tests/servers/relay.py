"""A relay before a server: its address refuses connections until it is opened; then it forwards bytes, and breaks lines."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from servers import ports

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset, and drops what was not sent."""


class Relay:
    """A relay to ``target`` (host:port); ``address`` refuses connections until `open`.

    With ``cut_after`` every connection is reset after as many bytes, of both directions together, as the function returns.
    """

    def __init__(self, target: str, cut_after: Callable[[], int] | None = None) -> None:
        host, _, port = target.rpartition(":")
        self.target = host, int(port)
        self.port = ports.free()[0]
        self.address = f"{ports.HOST}:{self.port}"
        self.cut_after = cut_after
        self.cuts = 0
        """Connections that `cut_after` has reset."""
        self._door: socket.socket | None = None
        self._sockets: set[socket.socket] = set()
        self._lines: list[_Line] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def open(self) -> None:
        """Accept connections from now on."""
        self._door = socket.create_server((ports.HOST, self.port))
        threading.Thread(target=self._serve, args=(self._hold(self._door),), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        with self._lock:
            self._is_closed = True
            sockets = [*self._sockets]
        for one in sockets:
            _close(one)

    def freeze(self) -> None:
        """Pass nothing more over the open connections, and close none: each end believes that the other is silent."""
        for line in [*self._lines]:
            line.is_frozen = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _hold(self, opened: socket.socket) -> socket.socket:
        """Hold a socket until `close`. Raises ConnectionAbortedError, and closes it, if that has been called meanwhile."""
        with self._lock:
            if not self._is_closed:
                self._sockets.add(opened)
                return opened
        opened.close()
        raise ConnectionAbortedError("the relay is closed")

    def _serve(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client = self._hold(door.accept()[0])
                server = self._hold(socket.create_connection(self.target))
                line = _Line(client, server, self.cut_after() if self.cut_after else None, self._count)
                self._lines.append(line)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=line.run, args=ends, daemon=True).start()

    def _count(self) -> None:
        with self._lock:
            self.cuts += 1


class _Line:
    """A connection of a client and its continuation to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, left: int | None, count: Callable[[], None]) -> None:
        self.ends = client, server
        self.is_frozen = False
        self._left, self._count = left, count
        self._lock = threading.Lock()

    def run(self, source: socket.socket, target: socket.socket) -> None:
        """Forward one direction until its end, or until the line is frozen or cut."""
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                if self.is_frozen:
                    return
                allowed, is_last = self._take(len(chunk))
                target.sendall(chunk[:allowed])
                if is_last:
                    self._reset()
                    return
            if not self.is_frozen:
                target.shutdown(socket.SHUT_WR)

    def _take(self, size: int) -> tuple[int, bool]:
        """Return how many of these bytes may pass, and whether the line is cut behind them."""
        with self._lock:
            if self._left is None:
                return size, False
            allowed = min(size, self._left)
            self._left -= allowed
            return allowed, allowed < size

    def _reset(self) -> None:
        self._count()
        for end in self.ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RD)  # wakes up the thread that reads; close alone would not reset before it ends
            end.close()


def _close(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()
