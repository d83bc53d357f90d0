"""Clients that connect to a TLS server and send one byte at a time, so that their handshakes do not end."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

PAUSE_SECONDS = 0.2
"""Between two bytes of a client."""

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(502)
"""The beginning of a TLS handshake, without its end."""


class SlowClients:
    """A number of them, in a thread, while the context is open. Those whose connection the server ends do not come again."""

    def __init__(self, port: int, count: int) -> None:
        self._port, self._count = port, count
        self._open: list[socket.socket] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.ended = 0
        """Connections that the server has ended."""

    def __enter__(self) -> SlowClients:
        for _ in range(self._count):
            self._open.append(sock := socket.create_connection(("127.0.0.1", self._port), 30))
            sock.setblocking(False)
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        for sock in self._open:
            sock.close()

    def _send(self) -> None:
        for at in range(len(HELLO)):
            for sock in [one for one in self._open if not _send_byte(one, HELLO[at : at + 1])]:
                self._open.remove(sock)
                sock.close()
                self.ended += 1
            if self._stopping.wait(PAUSE_SECONDS):
                return


def _send_byte(sock: socket.socket, byte: bytes) -> bool:
    """Whether the connection is still open."""
    try:
        with suppress(BlockingIOError):
            if not sock.recv(1):
                return False
        sock.send(byte)
    except OSError:
        return False
    return True
