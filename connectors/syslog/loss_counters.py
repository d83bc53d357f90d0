"""Counters of messages and connections that the receiver could not accept, logged from time to time."""

from __future__ import annotations

import logging
import socket
import struct
import sys
import time
from collections import Counter

log = logging.getLogger("sluice.source.syslog")

_LOG_INTERVAL_SECONDS = 10.0
_SO_MEMINFO = 55
"""SO_MEMINFO of Linux's sock_diag(7): nine uint32; the last counts datagrams dropped for lack of buffer space."""

_MEMORY = struct.Struct("=9I")

MESSAGES = {
    "journal-full": "datagrams were dropped because the journal was full: sinks are slower than senders, or down",
    "buffer-full": "datagrams were dropped by the system because its buffer was full: increase receive_buffer",
    "not-allowed": "connections and datagrams came from addresses that are not in allow",
    "too-many": "connections were refused because the limit of connections was reached",
    "not-accepted": "connections could not be accepted by the system, possibly for lack of file descriptors",
    "tls": "connections failed in TLS",
}
"""Counter → log message."""


DROP_REASONS = {"journal-full": "the journal was full", "buffer-full": "the system's buffer was full"}
"""Counters of lost messages → reason, for the summary of a run."""


class LossCounters:
    """Counts events by the keys of `MESSAGES`."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self._logged: Counter[str] = Counter()
        self._last = 0.0

    def count(self, kind: str, times: int = 1) -> None:
        """Add to a counter."""
        self.sums[kind] += times

    def drops_by_reason(self) -> dict[str, int]:
        """Return the number of lost messages by reason."""
        return {why: self.sums[kind] for kind, why in DROP_REASONS.items() if self.sums[kind]}

    def log_new(self, force: bool = False) -> None:
        """Log what was counted since the last log message, at most every ten seconds unless ``force``."""
        if self.sums == self._logged or not (force or time.monotonic() - self._last > _LOG_INTERVAL_SECONDS):
            return
        for kind, count in (self.sums - self._logged).items():
            log.warning("syslog: %d %s (%d in all)", count, MESSAGES[kind], self.sums[kind])
        self._logged, self._last = Counter(self.sums), time.monotonic()


def system_drops(sock: socket.socket) -> int:
    """Return how many datagrams the system dropped at a socket since it was opened; 0 if it does not report them."""
    if sys.platform != "linux":
        return 0
    return int(_MEMORY.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMORY.size))[-1])
