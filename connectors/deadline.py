"""Sockets on which a whole exchange has a deadline, not only each read: a peer that drips bytes does not hold us."""

from __future__ import annotations

import io
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PIECE = 256 << 10
"""Bytes that are sent at once, so that a peer which takes them slowly is noticed."""


class DeadlineSocket:
    """A connected socket, plain or TLS, whose sending and reading end together at `set_deadline`.

    Has what `http.client` uses of a socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._end = float("inf")
        self._files: list[_Raw] = []

    def set_deadline(self, seconds: float) -> None:
        """From now on, reading and sending together may take so long. Then they raise TimeoutError."""
        self._end = time.monotonic() + seconds

    def arm(self) -> None:
        """Let the next call of the socket wait no longer than the deadline allows."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline is over")
        self._socket.settimeout(left if left < 1e9 else None)

    def sendall(self, data: Any) -> None:
        """Send all of it."""
        rest = memoryview(data).cast("B")
        while rest:
            self.arm()
            rest = rest[self._socket.send(rest[:_PIECE]) :]

    def makefile(self, mode: str, buffering: int = io.DEFAULT_BUFFER_SIZE) -> io.BufferedReader:
        """What is read from it, buffered."""
        assert mode == "rb"
        raw = _Raw(self, self._socket.makefile("rb", 0))
        self._files = [*(file for file in self._files if not file.closed), raw]
        return io.BufferedReader(raw, max(buffering, 1))

    def fileno(self) -> int:
        """For poll and select."""
        return self._socket.fileno()

    def close(self) -> None:
        """End it, once all its files are closed."""
        self._socket.close()

    def abort(self) -> None:
        """End it and its files."""
        for file in self._files:
            file.close()
        self._socket.close()


class _Raw(io.RawIOBase):
    """The reading side. Each read waits for what is left until the deadline."""

    def __init__(self, deadline: DeadlineSocket, source: Any) -> None:
        self._deadline, self._source = deadline, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._deadline.arm()
        got: int | None = self._source.readinto(buffer)
        return got

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
