"""Listening sockets: one kind accepts connections, the other receives datagrams."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

from connectors.shared.journal.event_blocks import BlockBuilder, Sender
from connectors.shared.journal.writer import JournalWriter
from connectors.shared.receiving.allowed_networks import AllowedNetworks
from connectors.syslog.datagrams import DatagramReceiver
from connectors.syslog.listen_address import ListenAddress
from connectors.syslog.loss_counters import LossCounters, system_drops
from connectors.syslog.streams import Connection, TlsConnection

_ERROR_PAUSE_SECONDS = 0.01
_MAX_ACCEPTS = 64
"""Maximum number of connections accepted before other sockets are served."""


class StreamListener:
    """Accepts connections; ``add_connection`` returns False if there are too many."""

    def __init__(
        self,
        address: ListenAddress,
        sock: socket.socket,
        max_bytes: int,
        allowed: AllowedNetworks,
        tls: ssl.SSLContext | None,
        add_connection: Callable[[Connection], bool],
        loss_counters: LossCounters,
    ) -> None:
        self.address, self.sock, self._max_bytes, self._allowed, self._tls = address, sock, max_bytes, allowed, tls
        self._add_connection, self._loss_counters = add_connection, loss_counters

    def serve(self, builder: BlockBuilder) -> bool:
        """Accept waiting connections."""
        for _ in range(_MAX_ACCEPTS):
            try:
                sock, name = self.sock.accept()
            except BlockingIOError:
                break
            except OSError:
                self._loss_counters.count("not-accepted")
                time.sleep(_ERROR_PAUSE_SECONDS)  # the connection is still waiting at the next run of the loop
                break
            self._admit(sock, Sender(self.address.host) if self.address.is_unix else Sender.from_socket_name(name[0], name[1]))
        return True

    def _admit(self, sock: socket.socket, sender: Sender) -> None:
        sock.setblocking(False)
        if not self.address.is_unix:
            if not self._allowed(sender.address):
                self._loss_counters.count("not-allowed")
                sock.close()
                return
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = self._connection(sock, sender)
        if not self._add_connection(connection):
            self._loss_counters.count("too-many")
            connection.sock.close()

    def _connection(self, sock: socket.socket, sender: Sender) -> Connection:
        if self._tls is not None:
            return TlsConnection(sock, sender, self._max_bytes, self._tls)
        return Connection(sock, sender, self._max_bytes)


class DatagramListener:
    """Receives datagrams; drops those of UDP while the journal is full."""

    def __init__(
        self,
        address: ListenAddress,
        sock: socket.socket,
        datagrams: DatagramReceiver,
        allowed: AllowedNetworks,
        journal: JournalWriter,
        loss_counters: LossCounters,
    ) -> None:
        self.address, self.sock, self._datagrams, self._allowed = address, sock, datagrams, allowed
        self._journal, self._loss_counters, self._dropped = journal, loss_counters, 0

    def serve(self, builder: BlockBuilder) -> bool:
        """Receive the available datagrams, as many as fit into memory."""
        count = self._datagrams.receive(self.sock)
        if count and not self.address.is_unix and not self._journal.has_space():
            self._loss_counters.count("journal-full", count)
        elif count:
            for frames, senders in self._datagrams.frames(count, self._sender_numbers(count, builder)):
                builder.add(frames, senders)
        return True

    def count_system_drops(self) -> None:
        """Count the datagrams that the system dropped."""
        if not self.address.is_unix:
            known, self._dropped = self._dropped, system_drops(self.sock)
            self._loss_counters.count("buffer-full", (self._dropped - known) & 0xFFFFFFFF)

    def _sender_numbers(self, count: int, builder: BlockBuilder) -> object:
        """Return the number of each datagram's sender, -1 if it may not send."""
        import numpy as np

        if self.address.is_unix:
            return np.full(count, builder.sender_number(Sender(self.address.host)))
        senders, which = self._datagrams.senders(count)
        numbers = np.array([builder.sender_number(one) if self._allowed(one.address) else -1 for one in senders])[which]
        if refused := int((numbers < 0).sum()):
            self._loss_counters.count("not-allowed", refused)
        return numbers
