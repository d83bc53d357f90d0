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
        self._open: set[socket.socket] = set()

    def open(self) -> None:
        """Accept connections from now on."""
        self._door = socket.create_server((ports.HOST, self.port))
        threading.Thread(target=self._serve, args=(self._door,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        for one in [*([self._door] if self._door else []), *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _serve(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                server = socket.create_connection(self.target)
                self._open |= {client, server}
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=_pass, args=ends, daemon=True).start()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
