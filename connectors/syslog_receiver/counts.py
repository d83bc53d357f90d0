"""What a receiver could not take, counted and told of from time to time."""

from __future__ import annotations

import logging
import socket
import struct
import sys
import time
from collections import Counter

log = logging.getLogger("sluice.source.syslog")

_TELL_SECONDS = 10.0
_MEMORY_INFO = 55
"""SO_MEMINFO of Linux's sock_diag(7): nine uint32, of which the last counts what found no room."""

_MEMORY = struct.Struct("=9I")

TOLD = {
    "journal-full": "datagrams were dropped, for the journal was full: sinks are slower than senders, or down",
    "buffer-full": "datagrams were dropped by the system, for its buffer was full: receive_buffer may be larger",
    "not-allowed": "connections and datagrams came from addresses that allow does not list",
    "too-many": "connections were refused, for there were as many as connections says",
    "not-accepted": "connections could not be accepted by the system, which may have no file descriptors left",
    "tls": "connections failed in TLS",
}
"""What is counted → how it is told."""


DROPPED = {"journal-full": "the journal was full", "buffer-full": "the system's buffer was full"}
"""What of it is lost messages → why, for the summary of a run."""


class Counts:
    """How often which thing happened; `TOLD` names them."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._last = 0.0

    def count(self, what: str, times: int = 1) -> None:
        """It happened."""
        self.sums[what] += times

    def dropped(self) -> dict[str, int]:
        """Lost messages by reason."""
        return {why: self.sums[what] for what, why in DROPPED.items() if self.sums[what]}

    def tell(self, at_once: bool = False) -> None:
        """Say what has happened since it was last said, not too often."""
        if self.sums == self._told or not (at_once or time.monotonic() - self._last > _TELL_SECONDS):
            return
        for what, count in (self.sums - self._told).items():
            log.warning("syslog: %d %s (%d in all)", count, TOLD[what], self.sums[what])
        self._told, self._last = Counter(self.sums), time.monotonic()


def dropped(sock: socket.socket) -> int:
    """Datagrams for which a socket's buffer had no room, since it was opened; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    return int(_MEMORY.unpack(sock.getsockopt(socket.SOL_SOCKET, _MEMORY_INFO, _MEMORY.size))[-1])
