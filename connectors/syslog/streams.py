"""TCP, TLS and Unix stream connections: splits received bytes into messages as they arrive."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE

from connectors.shared.journal.event_blocks import BlockBuilder, Frames, Sender
from connectors.syslog.framing import Framer

CHUNK_BYTES = 256 << 10
"""Maximum bytes read from a connection before other sockets are served."""

_TLS_RECORD = 16 << 10
"""Maximum bytes that a TLS connection returns at a time."""

HANDSHAKE_SECONDS = 10.0
"""How long a TLS handshake may take."""

MIN_HANDSHAKE_SECONDS = 1.0
"""How long a TLS handshake may take however many clients want to connect."""


class Connection:
    """Stream of one sender."""

    def __init__(self, sock: socket.socket, sender: Sender, max_bytes: int) -> None:
        self.sock, self.sender = sock, sender
        self._framer = Framer(max_bytes)
        self._is_ended = False

    def selector_events(self) -> int:
        """Return the events of its socket to wait for."""
        return EVENT_READ

    def handshake_seconds(self) -> float:
        """Return how long its handshake lasts already; 0 if there is none, or if it is complete."""
        return 0.0

    def serve(self, builder: BlockBuilder) -> bool:
        """Read the available bytes. Returns False at the end of the stream; an OSError also ends it."""
        data = self._receive()
        if data:
            self._add_frames(self._framer.feed(data), builder)
        return not self._is_ended

    def close(self, builder: BlockBuilder) -> None:
        """Process the rest of the stream and close the socket."""
        self._add_frames(self._framer.finish(), builder)
        self.sock.close()

    def _add_frames(self, frames: Frames, builder: BlockBuilder) -> None:
        if frames.spans or frames.rejects:
            builder.add(frames, builder.sender_number(self.sender))

    def _receive(self) -> bytes:
        """Return the available bytes, possibly none."""
        try:
            data = self.sock.recv(CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        self._is_ended = not data
        return data


class TlsConnection(Connection):
    """Encrypted stream of one sender."""

    def __init__(self, sock: socket.socket, sender: Sender, max_bytes: int, context: ssl.SSLContext) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(self._tls, sender, max_bytes)
        self._handshake_began: float | None = time.monotonic()
        self._selector_events = EVENT_READ

    def selector_events(self) -> int:
        """Return the events to wait for; the handshake may also need to write."""
        return self._selector_events

    def handshake_seconds(self) -> float:
        """Return how long the handshake lasts already; 0 if it is complete."""
        return 0.0 if self._handshake_began is None else time.monotonic() - self._handshake_began

    def close(self, builder: BlockBuilder) -> None:
        """Close the TLS connection and the socket."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        super().close(builder)

    def _receive(self) -> bytes:
        try:
            if self._handshake_began is not None:
                self._tls.do_handshake()
                self._handshake_began, self._selector_events = None, EVENT_READ
            return b"".join(self._receive_records())
        except ssl.SSLWantReadError:
            self._selector_events = EVENT_READ
        except ssl.SSLWantWriteError:
            self._selector_events = EVENT_READ | EVENT_WRITE
        return b""

    def _receive_records(self) -> list[bytes]:
        """Read up to about `CHUNK_BYTES` of complete TLS records. Each call takes a whole record, because the selector would not
        report the rest of one in OpenSSL's buffer.
        """
        records: list[bytes] = []
        while len(records) * _TLS_RECORD < CHUNK_BYTES and not self._is_ended:
            try:
                records.append(self._tls.recv(_TLS_RECORD))
            except OSError:  # no more data; a lasting error occurs again at the next call
                if not records:
                    raise
                break
            self._is_ended = not records[-1]
        return records
