"""The one who appends to a journal: a receiver, in the driver."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from connectors.journal.options import JournalOptions
from connectors.journal.records import head
from connectors.journal.recovery import recover
from connectors.journal.segments import Segments
from connectors.journal.syncing import Syncing

SEGMENT = 64 << 20
"""Bytes after which a segment is followed by another, so that delivered ones can be deleted; less in small journals."""

_SHARE = 8
"""A journal that is full has at least so many segments: as each is delivered, there is room again."""

_APART = 1 << 40
"""Bytes between the positions of two runs: more than a journal may hold."""

_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0

log = logging.getLogger("sluice.journal")


class JournalWriter:
    """Appends records. Not for several threads at once; there is one writer to a folder.

    Each run begins a segment of its own, so far behind the last that it shares no position with it: should the machine
    have lost power, and with it bytes that were read already, their positions are not given to others.
    """

    def __init__(self, folder: str, options: JournalOptions) -> None:
        self.folder, self.options = Path(folder), options
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = Segments(folder)
        total = kept.total
        recover(kept)
        self._segment_bytes = min(SEGMENT, options.max_bytes // _SHARE)
        self._kept, self._looked = Segments(folder).kept, 0.0
        self._stopped = threading.Event()
        self._syncing = Syncing(options.fsync)
        self._file, self._size = -1, 0
        self._begin(total + _APART if kept.starts else 0)

    def has_room(self) -> bool:
        """Whether less waits than may. Without room a new segment is begun, so that all that waits can be deleted."""
        if self._kept > self.options.max_bytes and time.monotonic() - self._looked > _LOOK_SECONDS:
            self._kept, self._looked = Segments(self.folder).kept, time.monotonic()
            if self._kept > self.options.max_bytes and self._size:
                with suppress(OSError):  # of a full disk `append` tells
                    self._begin(self._start + self._size)
        return self._kept <= self.options.max_bytes

    def append(self, payload: bytes, events: int) -> None:
        """Add a record; readers see it at once. A full disk is waited for, until the journal is closed."""
        record = [head(payload, events), payload]
        size = sum(map(len, record))
        while not self._written(record, size):
            if self._stopped.wait(_RETRY_SECONDS):
                log.error("%d events that were received are lost: they could not be kept in %s", events, self.folder)
                return
        self._size += size
        self._kept += size
        self._syncing.appended(self._file)

    def stop_waiting(self) -> None:
        """From another thread: an append that waits for a full disk gives up."""
        self._stopped.set()

    def close(self) -> None:
        """No more is appended."""
        self._syncing.close(self._file)

    def _begin(self, start: int) -> None:
        path = Segments(self.folder).path(start)
        before, self._file = self._file, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._start, self._size = start, 0
        if before >= 0:
            self._syncing.finished(before)
        self._syncing.begun(self.folder)

    def _written(self, record: list[bytes], size: int) -> bool:
        """Write a record whole or not at all."""
        try:
            if self._size >= self._segment_bytes:
                self._begin(self._start + self._size)
            if os.writev(self._file, record) == size:
                return True
            reason = "the disk is full"
        except OSError as error:
            reason = error.strerror or str(error)
        os.ftruncate(self._file, self._size)
        log.warning("what was received cannot be kept in %s, and waits: %s", self.folder, reason)
        return False
