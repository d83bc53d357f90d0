"""The loop of the receiving thread over all sockets: messages that arrive within a moment become one record of the journal.

While the journal is full, connections and Unix sockets are not read, which makes their senders wait; UDP datagrams are
received, dropped and counted.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from os import unlink
from selectors import EVENT_READ, DefaultSelector, SelectorKey

from connectors.shared.journal.event_blocks import BlockBuilder
from connectors.shared.journal.writer import JournalWriter
from connectors.syslog.listeners import DatagramListener, StreamListener
from connectors.syslog.loss_counters import LossCounters
from connectors.syslog.streams import HANDSHAKE_SECONDS, MIN_HANDSHAKE_SECONDS, Connection

MAX_RECORD_BYTES = 4 << 20
"""Size at which collected messages are appended although more are available, in bytes."""

SMALL_RECORD_BYTES = 64 << 10
"""After a smaller record, in bytes, the loop waits a moment for more: a record costs as much as reading hundreds of messages.
"""

_PAUSE_SECONDS = 0.005
_PAUSED_WAIT_SECONDS = 0.1
_PERIODIC_SECONDS = 1.0


class ReceiveLoop:
    """Serves sockets in one thread. Listeners call `add_connection`, any thread `wake`, the owner everything else."""

    def __init__(self, journal: JournalWriter, loss_counters: LossCounters, max_connections: int) -> None:
        self._journal, self._loss_counters, self._max_connections = journal, loss_counters, max_connections
        self._listeners: list[StreamListener | DatagramListener] = []
        self._connections: set[Connection] = set()
        self._selector, self._stream_selector = DefaultSelector(), DefaultSelector()
        self._selector.register(self._stream_selector, EVENT_READ)
        self._wakes, self._wake_end = socket.socketpair()
        self._selector.register(self._wakes, EVENT_READ, self._wakes)
        self._is_paused = False
        self._builder = BlockBuilder()
        self._periodic_work_at = 0.0

    def add_listener(self, listener: StreamListener | DatagramListener) -> None:
        """Serve a listening socket from the next run on."""
        self._listeners.append(listener)
        (self._selector if listener.address.scheme == "udp" else self._stream_selector).register(
            listener.sock, EVENT_READ, listener
        )

    def add_connection(self, connection: Connection) -> bool:
        """Serve a connection from the next run on; False if there are too many, of which none can be closed for it."""
        if len(self._connections) >= self._max_connections and not self._end_slow_handshake():
            return False
        self._connections.add(connection)
        self._stream_selector.register(connection.sock, connection.selector_events(), connection)
        return True

    def _end_slow_handshake(self) -> bool:
        """Close the connection whose TLS handshake has lasted longest, so that clients who complete none keep nobody out."""
        longest = max(self._connections, key=Connection.handshake_seconds, default=None)
        if longest is None or longest.handshake_seconds() < MIN_HANDSHAKE_SECONDS:
            return False
        self._loss_counters.count("tls")
        self._close_connection(longest)
        return True

    def run_once(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for messages and append them to the journal; returns whether any arrived."""
        self._pause_streams(not self._journal.has_space())
        for key, _ in self._selector.select(min(seconds, _PAUSED_WAIT_SECONDS) if self._is_paused else seconds):
            if key.data is self._wakes:
                continue
            for ready in [key] if key.data is not None else [one for one, _ in self._stream_selector.select(0)]:
                self._serve(ready)
        came = self._builder.bytes
        self._append()
        self._do_periodic_work()
        if seconds and 0 < came < SMALL_RECORD_BYTES:
            time.sleep(_PAUSE_SECONDS)
        return came > 0

    def wake(self) -> None:
        """End the wait of this run and of all that follow: the receiver stops."""
        with suppress(OSError):  # the loop is closed already
            self._wake_end.send(b"\0")

    def close_listeners(self) -> None:
        """Close listening sockets; datagrams not yet received are lost."""
        for listener in self._listeners:
            (self._selector if listener.address.scheme == "udp" else self._stream_selector).unregister(listener.sock)
            listener.sock.close()
            if listener.address.is_unix:
                with suppress(FileNotFoundError):
                    unlink(listener.address.host)
        self._listeners.clear()

    def close(self) -> None:
        """Close all connections. Senders must send incomplete messages again."""
        for connection in self._connections:
            connection.sock.close()
        self._connections.clear()
        self._stream_selector.close()
        self._selector.close()
        self._wakes.close()
        self._wake_end.close()

    def _pause_streams(self, paused: bool) -> None:
        if paused == self._is_paused:
            return
        self._is_paused = paused
        if paused:
            self._selector.unregister(self._stream_selector)
        else:
            self._selector.register(self._stream_selector, EVENT_READ)

    def _serve(self, key: SelectorKey) -> None:
        served: StreamListener | DatagramListener | Connection = key.data
        if isinstance(served, Connection) and served not in self._connections:
            return  # closed for another one, which was accepted just now
        try:
            stays = served.serve(self._builder)
        except ssl.SSLError:
            self._loss_counters.count("tls")
            stays = False
        except OSError:
            stays = not isinstance(served, Connection)
        if isinstance(served, Connection):
            if not stays:
                self._close_connection(served)
            elif served.selector_events() != key.events:
                self._stream_selector.modify(served.sock, served.selector_events(), served)
        if self._builder.bytes >= MAX_RECORD_BYTES:
            self._append()

    def _close_connection(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._stream_selector.unregister(connection.sock)
        connection.close(self._builder)

    def _append(self) -> None:
        builder, self._builder = self._builder, BlockBuilder()
        if not builder.bytes:
            return
        payload, events = builder.encode(time.time_ns() // 1000)
        if events:
            self._journal.append(payload, events)

    def _do_periodic_work(self) -> None:
        """Once a second: close connections with overdue handshakes, count system drops, log counters."""
        if time.monotonic() - self._periodic_work_at < _PERIODIC_SECONDS:
            return
        self._periodic_work_at = time.monotonic()
        for connection in [one for one in self._connections if one.handshake_seconds() > HANDSHAKE_SECONDS]:
            self._loss_counters.count("tls")
            self._close_connection(connection)
        for listener in self._listeners:
            if isinstance(listener, DatagramListener):
                listener.count_system_drops()
        self._loss_counters.log_new()
