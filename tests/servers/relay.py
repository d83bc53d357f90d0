"""A relay before a server: its address refuses connections until it is opened; then it forwards bytes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from servers import ports

CHUNK = 1 << 16


class Relay:
    """A relay to ``target`` (host:port); ``address`` refuses connections until `open`."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.target = host, int(port)
        self.port = ports.free()[0]
        self.address = f"{ports.HOST}:{self.port}"
        self._door: socket.socket | None = None
        self._sockets: set[socket.socket] = set()
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
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=_pass, args=ends, daemon=True).start()


def _close(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
