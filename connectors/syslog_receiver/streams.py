"""Connections: what came over each is cut into messages as it comes."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE

from connectors.syslog_receiver.block import Gathered, Sender
from connectors.syslog_receiver.framing import Framer, Frames

CHUNK = 256 << 10
"""Bytes taken of a connection before the others have their turn."""

_TLS_RECORD = 16 << 10
"""Bytes that a TLS connection gives at once, at most."""

HANDSHAKE_SECONDS = 10.0


class Connection:
    """One sender's stream."""

    def __init__(self, sock: socket.socket, sender: Sender, most: int) -> None:
        self.sock, self.sender = sock, sender
        self._framer = Framer(most)
        self._ended = False

    def waits_for(self) -> int:
        """What has to happen on its socket before it is worth a turn."""
        return EVENT_READ

    def overdue(self) -> bool:
        """Whether it has been too long on its way."""
        return False

    def serve(self, gathered: Gathered) -> bool:
        """Take what has come; False when that was all there will ever be. OSError means the same."""
        data = self._receive()
        if data:
            self._take(self._framer.feed(data), gathered)
        return not self._ended

    def close(self, gathered: Gathered) -> None:
        """The end: what was begun is as whole as it will be."""
        self._take(self._framer.finish(), gathered)
        self.sock.close()

    def _take(self, frames: Frames, gathered: Gathered) -> None:
        if frames.spans or frames.faults:
            gathered.add(frames, gathered.number(self.sender))

    def _receive(self) -> bytes:
        """What has come, which may be nothing."""
        try:
            data = self.sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return b""
        self._ended = not data
        return data


class TlsConnection(Connection):
    """One sender's stream, encrypted."""

    def __init__(self, sock: socket.socket, sender: Sender, most: int, context: ssl.SSLContext) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(self._tls, sender, most)
        self._began: float | None = time.monotonic()
        self._waits_for = EVENT_READ

    def waits_for(self) -> int:
        """Also to write, while the handshake says so."""
        return self._waits_for

    def overdue(self) -> bool:
        """Whether its handshake takes too long."""
        return self._began is not None and time.monotonic() - self._began > HANDSHAKE_SECONDS

    def close(self, gathered: Gathered) -> None:
        """The end, said as TLS wants it."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        super().close(gathered)

    def _receive(self) -> bytes:
        try:
            if self._began is not None:
                self._tls.do_handshake()
                self._began, self._waits_for = None, EVENT_READ
            return b"".join(self._records())
        except ssl.SSLWantReadError:
            self._waits_for = EVENT_READ
        except ssl.SSLWantWriteError:
            self._waits_for = EVENT_READ | EVENT_WRITE
        return b""

    def _records(self) -> list[bytes]:
        """Some records, each whole: nothing stays behind in this process, where no event would tell of it."""
        records: list[bytes] = []
        while len(records) * _TLS_RECORD < CHUNK and not self._ended:
            try:
                records.append(self._tls.recv(_TLS_RECORD))
            except OSError:  # nothing more now, or ever: met again, if so
                if not records:
                    raise
                break
            self._ended = not records[-1]
        return records
