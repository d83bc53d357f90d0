"""The receiver of a source: opens the sockets and serves them in a thread until it is stopped."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass

from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.writer import JournalWriter
from connectors.shared.receiving.allowed_networks import AllowedNetworks
from connectors.shared.receiving.file_limit import raise_file_limit
from connectors.shared.receiving.server_tls import ServerTls
from connectors.syslog.datagrams import DatagramReceiver
from connectors.syslog.listen_address import ListenAddress, open_socket
from connectors.syslog.listeners import DatagramListener, StreamListener
from connectors.syslog.loss_counters import LossCounters
from connectors.syslog.receive_loop import ReceiveLoop

_IDLE_SECONDS = 0.25
_ERROR_PAUSE_SECONDS = 1.0
_DRAIN_SECONDS = 1.0
"""How long a stopping receiver continues to read what was sent before."""

_STOP_TIMEOUT_SECONDS = 10.0
"""How long stopping waits for a full disk."""

log = logging.getLogger("sluice.source.syslog")


@dataclass(frozen=True)
class ReceiverOptions:
    """What a receiver needs to know."""

    addresses: tuple[ListenAddress, ...]
    max_message_bytes: int
    connections: int
    allow: tuple[str, ...]
    buffer_bytes: int | None
    permissions: int
    tls: ServerTls | None
    journal: JournalOptions


class SyslogReceiver:
    """Receives from `start` to `stop`, and writes the journal of a folder."""

    def __init__(self, options: ReceiverOptions, folder: str) -> None:
        self._options, self._folder = options, folder
        self.loss_counters = LossCounters()
        self.ports: list[int] = []
        """Ports of the addresses, in their order; 0 for a path."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="syslog", daemon=True)

    def start(self) -> None:
        """Open the sockets. Raises ComponentError if one cannot be opened."""
        tls = self._options.tls.context("syslog") if self._options.tls else None
        raise_file_limit(self._options.connections)
        self._journal = JournalWriter(self._folder, self._options.journal)
        self._loop = ReceiveLoop(self._journal, self.loss_counters, self._options.connections)
        allowed = AllowedNetworks(self._options.allow)
        try:
            for address in self._options.addresses:
                self._listen(address, allowed, tls)
        except BaseException:
            self._loop.close_listeners()
            self._loop.close()
            self._journal.close()
            raise
        self._thread.start()

    def stop(self) -> None:
        """Close the sockets after the messages that were sent before are in the journal."""
        self._stopping.set()
        self._loop.wake()
        self._thread.join(_STOP_TIMEOUT_SECONDS)
        self._journal.cancel_retries()
        self._thread.join()
        self._journal.close()
        self.loss_counters.log_new(force=True)

    def dropped(self) -> Mapping[str, int]:
        """Return the known losses by reason; losses of broken connections are not known."""
        return self.loss_counters.drops_by_reason()

    def _listen(self, address: ListenAddress, allowed: AllowedNetworks, tls: ssl.SSLContext | None) -> None:
        options = self._options
        sock = open_socket(address, options.buffer_bytes, options.permissions)
        self.ports.append(0 if address.is_unix else sock.getsockname()[1])
        if address.is_datagram:
            box = DatagramReceiver(options.max_message_bytes)
            self._loop.add_listener(DatagramListener(address, sock, box, allowed, self._journal, self.loss_counters))
        else:
            context = tls if address.scheme == "tls" else None
            self._loop.add_listener(
                StreamListener(
                    address, sock, options.max_message_bytes, allowed, context, self._loop.add_connection, self.loss_counters
                )
            )

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._run_once(_IDLE_SECONDS)
        until = time.monotonic() + _DRAIN_SECONDS
        while self._run_once(0) and time.monotonic() < until:
            pass
        self._loop.close_listeners()
        self._loop.close()

    def _run_once(self, seconds: float) -> bool:
        """Run the loop once. An unexpected error is logged, and the loop continues: a receiver that stops listening loses
        everything.
        """
        try:
            return self._loop.run_once(seconds)
        except Exception:
            log.exception("syslog: messages received just now may be lost")
            self._stopping.wait(_ERROR_PAUSE_SECONDS)
            return False
