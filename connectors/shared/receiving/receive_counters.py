"""Counters of refused requests and connections, logged from time to time."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping

log = logging.getLogger("sluice.source.receivers")

_LOG_INTERVAL_SECONDS = 10.0

MESSAGES = {
    "journal-full": "requests were refused because the journal was full: sinks are slower than senders, or down",
    "unavailable": "requests were refused because they could not be stored, or too many came at the same time",
    "no-token": "requests had no valid token",
    "too-large": "requests were larger than max_body_bytes",
    "slow": "requests did not arrive within timeout",
    "refused": "requests were refused because they were not what this format accepts",
    "not-allowed": "connections came from addresses that are not in allow",
    "too-many": "connections were refused because the limit of connections was reached",
    "damaged": "connections ended because of what they sent",
}
"""Counter → log message."""


class ReceiveCounters:
    """Counts events of a receiver by the keys of `MESSAGES`; ``owner`` is the type of its source, ``messages`` its own texts."""

    def __init__(self, owner: str, messages: Mapping[str, str] | None = None) -> None:
        self._owner, self._messages = owner, {**MESSAGES, **(messages or {})}
        self._details: dict[str, str] = {}
        self.sums: Counter[str] = Counter()
        self._logged: Counter[str] = Counter()
        self._last = -_LOG_INTERVAL_SECONDS
        self._lock = threading.Lock()

    def count(self, kind: str, detail: str = "") -> None:
        """Add one, and log what was counted, the first at once and then at most every ten seconds, with the last detail."""
        with self._lock:
            self.sums[kind] += 1
            self._details[kind] = detail
        if time.monotonic() - self._last > _LOG_INTERVAL_SECONDS:
            self.log_new()

    def log_new(self) -> None:
        """Log what was counted since the last log message."""
        with self._lock:
            self._last, new = time.monotonic(), self.sums - self._logged
            self._logged = Counter(self.sums)
        for kind, count in new.items():
            detail = self._details[kind] and f", the last {self._details[kind]}"
            log.warning("%s: %d %s%s (%d in all)", self._owner, count, self._messages[kind], detail, self.sums[kind])
