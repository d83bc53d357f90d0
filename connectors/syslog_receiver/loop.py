"""One thread's turns over all sockets: what comes within a moment is gathered and appended to the journal as one record.

While the journal is full, connections and Unix sockets are left to wait, which makes their senders wait; datagrams of
UDP are received and dropped, and counted.
"""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from os import unlink
from selectors import EVENT_READ, DefaultSelector, SelectorKey

from connectors.journal.writer import JournalWriter
from connectors.syslog_receiver.block import Gathered
from connectors.syslog_receiver.counts import Counts
from connectors.syslog_receiver.doors import Door, Mailbox
from connectors.syslog_receiver.streams import Connection

RECORD = 4 << 20
"""Bytes after which what was gathered is appended, though more is there."""

SMALL = 64 << 10
"""Where less than this came at once, more is awaited: a record costs as much as reading hundreds of messages."""

_PAUSE_SECONDS = 0.005
_FULL_SECONDS = 0.1
_LOOK_SECONDS = 1.0


class Loop:
    """Serves sockets in turns. `enter` is for doors, everything else for whoever runs it."""

    def __init__(self, journal: JournalWriter, counts: Counts, most_connections: int) -> None:
        self._journal, self._counts, self._most_connections = journal, counts, most_connections
        self._listeners: list[Door | Mailbox] = []
        self._connections: set[Connection] = set()
        self._hasty, self._patient = DefaultSelector(), DefaultSelector()
        self._hasty.register(self._patient, EVENT_READ)
        self._waiting = False
        self._gathered = Gathered()
        self._looked = 0.0

    def listen(self, listener: Door | Mailbox) -> None:
        """Serve a socket from the next turn on."""
        self._listeners.append(listener)
        (self._hasty if listener.place.scheme == "udp" else self._patient).register(listener.sock, EVENT_READ, listener)

    def enter(self, connection: Connection) -> bool:
        """Serve a connection from the next turn on; False when there are too many."""
        if len(self._connections) >= self._most_connections:
            return False
        self._connections.add(connection)
        self._patient.register(connection.sock, connection.waits_for(), connection)
        return True

    def turn(self, seconds: float) -> bool:
        """Wait for something to come, at most so long, and keep it; whether something came."""
        self._let_wait(not self._journal.has_room())
        for key, _ in self._hasty.select(min(seconds, _FULL_SECONDS) if self._waiting else seconds):
            for ready in [key] if key.data is not None else [one for one, _ in self._patient.select(0)]:
                self._serve(ready)
        came = self._gathered.bytes
        self._keep()
        self._look_after()
        if seconds and 0 < came < SMALL:
            time.sleep(_PAUSE_SECONDS)
        return came > 0

    def close_listeners(self) -> None:
        """Nobody new comes in; datagrams that are there stay unread."""
        for listener in self._listeners:
            (self._hasty if listener.place.scheme == "udp" else self._patient).unregister(listener.sock)
            listener.sock.close()
            if listener.place.unix:
                with suppress(FileNotFoundError):
                    unlink(listener.place.host)
        self._listeners.clear()

    def close(self) -> None:
        """The end of all connections. Messages whose end has not come are their senders' to send again."""
        for connection in self._connections:
            connection.sock.close()
        self._connections.clear()
        self._patient.close()
        self._hasty.close()

    def _let_wait(self, waiting: bool) -> None:
        if waiting == self._waiting:
            return
        self._waiting = waiting
        if waiting:
            self._hasty.unregister(self._patient)
        else:
            self._hasty.register(self._patient, EVENT_READ)

    def _serve(self, key: SelectorKey) -> None:
        served: Door | Mailbox | Connection = key.data
        try:
            stays = served.serve(self._gathered)
        except ssl.SSLError:
            self._counts.count("tls")
            stays = False
        except OSError:
            stays = not isinstance(served, Connection)
        if isinstance(served, Connection):
            if not stays:
                self._leave(served)
            elif served.waits_for() != key.events:
                self._patient.modify(served.sock, served.waits_for(), served)
        if self._gathered.bytes >= RECORD:
            self._keep()

    def _leave(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._patient.unregister(connection.sock)
        connection.close(self._gathered)

    def _keep(self) -> None:
        gathered, self._gathered = self._gathered, Gathered()
        if not gathered.bytes:
            return
        payload, events = gathered.encoded(time.time_ns() // 1000)
        if events:
            self._journal.append(payload, events)

    def _look_after(self) -> None:
        """Once a second: handshakes that take too long, what the system dropped, what is to be told."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for connection in [one for one in self._connections if one.overdue()]:
            self._counts.count("tls")
            self._leave(connection)
        for listener in self._listeners:
            if isinstance(listener, Mailbox):
                listener.look()
        self._counts.tell()
