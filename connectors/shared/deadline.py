"""Sockets with a deadline for a whole exchange, not for each read: a peer that sends byte by byte cannot block us."""

from __future__ import annotations

import io
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SEND_BYTES = 256 << 10
"""Bytes sent at a time, so that a peer that reads slowly is noticed."""


class DeadlineSocket:
    """A connected socket, plain or TLS, with one deadline for sending and reading (`set_deadline`).

    Has the methods that `http.client` uses.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._end = float("inf")
        self._files: list[_DeadlineReader] = []

    def set_deadline(self, seconds: float) -> None:
        """Limit sending and reading together to this time from now; later they raise TimeoutError."""
        self._end = time.monotonic() + seconds

    def apply_deadline(self) -> None:
        """Set the timeout of the next socket call to the remaining time."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline is over")
        self._socket.settimeout(left if left < 1e9 else None)

    def sendall(self, data: Any) -> None:
        """Send all data."""
        rest = memoryview(data).cast("B")
        while rest:
            self.apply_deadline()
            rest = rest[self._socket.send(rest[:_SEND_BYTES]) :]

    def makefile(self, mode: str, buffering: int = io.DEFAULT_BUFFER_SIZE) -> io.BufferedReader:
        """Return a buffered reader."""
        assert mode == "rb"
        raw = _DeadlineReader(self, self._socket.makefile("rb", 0))
        self._files = [*(file for file in self._files if not file.closed), raw]
        return io.BufferedReader(raw, max(buffering, 1))

    def fileno(self) -> int:
        """Return the file descriptor, for poll and select."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket after all its files are closed."""
        self._socket.close()

    def abort(self) -> None:
        """Close the socket and its files."""
        for file in self._files:
            file.close()
        self._socket.close()


class _DeadlineReader(io.RawIOBase):
    """The reading side. Each read waits at most until the deadline."""

    def __init__(self, deadline: DeadlineSocket, source: Any) -> None:
        self._deadline, self._source = deadline, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._deadline.apply_deadline()
        got: int | None = self._source.readinto(buffer)
        return got

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
