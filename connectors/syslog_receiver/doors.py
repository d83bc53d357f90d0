"""The sockets that listen: a door lets connections in, a mailbox takes datagrams."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

from connectors.journal.writer import JournalWriter
from connectors.syslog_receiver.allow import Allowed
from connectors.syslog_receiver.block import Gathered, Sender
from connectors.syslog_receiver.counts import Counts, dropped
from connectors.syslog_receiver.datagrams import Datagrams
from connectors.syslog_receiver.places import Place
from connectors.syslog_receiver.streams import Connection, TlsConnection

_TROUBLE_SECONDS = 0.01
_ACCEPTED = 64
"""Connections let in before the others have their turn."""


class Door:
    """Lets connections in; ``enter`` takes one, or says that there is no room."""

    def __init__(
        self,
        place: Place,
        sock: socket.socket,
        most: int,
        allowed: Allowed,
        tls: ssl.SSLContext | None,
        enter: Callable[[Connection], bool],
        counts: Counts,
    ) -> None:
        self.place, self.sock, self._most, self._allowed, self._tls = place, sock, most, allowed, tls
        self._enter, self._counts = enter, counts

    def serve(self, gathered: Gathered) -> bool:
        """Let in who waits."""
        for _ in range(_ACCEPTED):
            try:
                sock, name = self.sock.accept()
            except BlockingIOError:
                break
            except OSError:
                self._counts.count("not-accepted")
                time.sleep(_TROUBLE_SECONDS)  # it is still there at the next turn
                break
            self._welcome(sock, Sender(self.place.host) if self.place.unix else Sender.of(name[0], name[1]))
        return True

    def _welcome(self, sock: socket.socket, sender: Sender) -> None:
        sock.setblocking(False)
        if not self.place.unix:
            if not self._allowed(sender.address):
                self._counts.count("not-allowed")
                sock.close()
                return
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._enter(self._connection(sock, sender)):
            self._counts.count("too-many")
            sock.close()

    def _connection(self, sock: socket.socket, sender: Sender) -> Connection:
        if self._tls is not None:
            return TlsConnection(sock, sender, self._most, self._tls)
        return Connection(sock, sender, self._most)


class Mailbox:
    """Takes datagrams; those of UDP are dropped while the journal is full."""

    def __init__(
        self,
        place: Place,
        sock: socket.socket,
        datagrams: Datagrams,
        allowed: Allowed,
        journal: JournalWriter,
        counts: Counts,
    ) -> None:
        self.place, self.sock, self._datagrams, self._allowed = place, sock, datagrams, allowed
        self._journal, self._counts, self._dropped = journal, counts, 0

    def serve(self, gathered: Gathered) -> bool:
        """Take what is there, as far as it fits into memory at once."""
        count = self._datagrams.receive(self.sock)
        if count and not self.place.unix and not self._journal.has_room():
            self._counts.count("journal-full", count)
        elif count:
            for frames, senders in self._datagrams.frames(count, self._numbers(count, gathered)):
                gathered.add(frames, senders)
        return True

    def look(self) -> None:
        """Count what the system had no room for."""
        if not self.place.unix:
            known, self._dropped = self._dropped, dropped(self.sock)
            self._counts.count("buffer-full", (self._dropped - known) & 0xFFFFFFFF)

    def _numbers(self, count: int, gathered: Gathered) -> object:
        """Each datagram's sender by number, -1 for one that may not send."""
        import numpy as np

        if self.place.unix:
            return np.full(count, gathered.number(Sender(self.place.host)))
        senders, which = self._datagrams.senders(count)
        numbers = np.array([gathered.number(one) if self._allowed(one.address) else -1 for one in senders])[which]
        if refused := int((numbers < 0).sum()):
            self._counts.count("not-allowed", refused)
        return numbers
