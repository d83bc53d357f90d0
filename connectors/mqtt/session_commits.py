"""Stores what a session has received, and says what may be acknowledged then: after the sync of the journal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from connectors.mqtt.packet_ids import PacketIds
from connectors.shared.journal.event_blocks import Frames, RejectedMessage, Sender
from connectors.shared.journal.group_commit import GroupCommit
from connectors.shared.journal.writer import JournalWriter
from etl.api import write_advice

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_GROUP_BYTES = 32 << 20
"""Bytes of packets that are stored together, beside the last of them."""

RETRY_SECONDS = 0.5
"""How long packets wait before they are stored again, when the journal or the disk was full."""

log = logging.getLogger("sluice.source.mqtt")


@dataclass
class Received:
    """Messages to store, and what is recorded and sent afterwards."""

    data: bytes
    spans: Array
    """int64[2, n]: PUBLISH packets."""

    rejects: list[RejectedMessage]
    acknowledgements: bytes
    added: Array
    """Packet identifiers of the messages of QoS 2."""


@dataclass
class _Group:
    sender: Sender
    frames: list[Frames] = field(default_factory=list)
    acknowledgements: list[bytes] = field(default_factory=list)
    added: list[Array] = field(default_factory=list)
    bytes: int = 0
    begun: float = 0.0
    """When it was submitted, by the clock of `time.monotonic`."""

    def add(self, received: Received) -> None:
        self.frames.append(Frames(received.data, [received.spans], received.rejects))
        self.acknowledgements.append(received.acknowledgements)
        self.added.append(received.added)
        self.bytes += len(received.data)

    def merged(self) -> Frames:
        """The messages as spans of one text."""
        import numpy as np

        starts = np.cumsum([0, *(len(one.data) for one in self.frames)]).tolist()
        spans = [one.spans[0] + start for one, start in zip(self.frames, starts, strict=False)]
        rejects = [
            reject._replace(start=reject.start + start, end=reject.end + start)
            for one, start in zip(self.frames, starts, strict=False)
            for reject in one.rejects
        ]
        return Frames(b"".join(one.data for one in self.frames), [np.concatenate(spans, axis=1)], rejects)


class SessionCommits:
    """Stores groups of packets one after the other: what arrives while the disk is busy is the next group."""

    def __init__(self, journal: JournalWriter, ids: PacketIds, wake: Callable[[], None]) -> None:
        self._journal, self._ids, self._wake = journal, ids, wake
        self._commits = GroupCommit(journal, trims=False)
        self._lock = threading.Condition()
        self._next: _Group | None = None
        self._running: _Group | None = None
        self._ready: list[bytes] = []
        self._stopping = threading.Event()
        self.last_seconds = 0.0
        """How long the last group took."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of packets that are not stored yet."""
        return sum(group.bytes for group in (self._next, self._running) if group)

    def add(self, received: Received, sender: Sender) -> None:
        """Store messages as soon as possible."""
        with self._lock:
            if self._next is None:
                self._next = _Group(sender)
            self._next.add(received)
            first = self._running is None
            if first:
                self._running, self._next = self._next, None
        if first:
            self._submit()

    def take_acknowledgements(self) -> bytes:
        """Return the acknowledgements of what has been stored, each once."""
        with self._lock:
            ready, self._ready = self._ready, []
        return b"".join(ready)

    def wait_until_stored(self, seconds: float | None = None) -> bool:
        """Wait until everything is stored; False after ``seconds``, or when the run ends before."""
        with self._lock:
            return self._lock.wait_for(lambda: self._running is None or self._stopping.is_set(), seconds) and not self._running

    def stop(self) -> None:
        """Give up what cannot be stored now: the broker sends it again."""
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()

    def close(self) -> None:
        """End the thread."""
        self.stop()
        self._commits.close()

    def _submit(self) -> None:
        group = self._running
        assert group is not None
        group.begun = time.monotonic()
        self._commits.add(group.merged(), [group.sender], None, partial(self._stored, group))

    def _stored(self, group: _Group, problem: str) -> None:
        """In the committing thread: retry, or record the identifiers, and begin with the next group."""
        if problem:
            if not self._stopping.wait(RETRY_SECONDS):
                self._submit()
            return
        if not self._record(group):
            return
        self.last_seconds = time.monotonic() - group.begun
        with self._lock:
            self._ready += group.acknowledgements
            self._running, self._next = self._next, None
            is_idle = self._running is None
            self._lock.notify_all()
        self._wake()
        if not is_idle:
            self._submit()

    def _record(self, group: _Group) -> bool:
        import numpy as np

        added = np.concatenate(group.added)
        while True:
            try:
                self._ids.record(added, self._journal.end)
                return True
            except OSError as error:
                log.warning(
                    "mqtt: packet identifiers cannot be written; retrying: %s; %s", error.strerror or error, write_advice(error)
                )
            if self._stopping.wait(RETRY_SECONDS):
                return False
