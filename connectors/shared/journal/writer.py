"""Appends records to a journal: the receiver's side, in the driver.

A writer first repairs the journal of a killed run: complete records stay, a torn one is cut off.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from connectors.shared.journal.disk_sync import DiskSync
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.records import complete_records, encode_header
from connectors.shared.journal.segments import Segments
from etl.api import text_with_advice

SEGMENT_BYTES = 64 << 20
"""Size after which a new segment begins, in bytes, so that delivered segments can be deleted; less in small journals."""

_MIN_SEGMENTS = 8
"""Minimum number of segments of a full journal: each delivered segment frees space."""

_POSITION_GAP_BYTES = 1 << 40
"""Gap between the positions of two runs, in bytes: more than a journal may hold."""

_SIZE_CHECK_SECONDS = 0.1
_RETRY_SECONDS = 1.0

log = logging.getLogger("sluice.journal")


class JournalWriter:
    """Appends records. Not thread-safe; a folder has one writer.

    Each run begins a segment of its own, with a gap to the positions of the last run: if a loss of power removed bytes that
    were already read, their positions are not used again.
    """

    def __init__(self, folder: str, options: JournalOptions) -> None:
        self.folder, self.options = Path(folder), options
        self.folder.mkdir(parents=True, exist_ok=True)
        segments = Segments(folder)
        total = segments.end
        _recover(segments)
        self._segment_bytes = min(SEGMENT_BYTES, options.max_bytes // _MIN_SEGMENTS)
        self._bytes_on_disk, self._checked_at = Segments(folder).bytes_on_disk, 0.0
        self._stopped = threading.Event()
        self._disk_sync = DiskSync(options.fsync)
        self._file, self._size = -1, 0
        self._is_torn = False
        """Whether a part of a record could not be removed: the next one begins another segment, or readers would take it for the
        rest of that record."""
        self._begin_segment(total + _POSITION_GAP_BYTES if segments.starts else 0)

    @property
    def end(self) -> int:
        """Position after the last record."""
        return self._start + self._size

    def has_space(self) -> bool:
        """Return whether less than ``max_bytes`` waits for delivery. If not, begins a new segment, so that the current one
        can be deleted.
        """
        if self._bytes_on_disk > self.options.max_bytes and time.monotonic() - self._checked_at > _SIZE_CHECK_SECONDS:
            self._bytes_on_disk, self._checked_at = Segments(self.folder).bytes_on_disk, time.monotonic()
            if self._bytes_on_disk > self.options.max_bytes and self._size:
                with suppress(OSError):  # `append` reports a full disk
                    self._begin_segment(self._start + self._size)
        return self._bytes_on_disk <= self.options.max_bytes

    def append(self, payload: bytes, events: int) -> None:
        """Append a record; readers see it immediately. Retries while the disk is full, until the journal is closed."""
        while (problem := self._write(payload, events)) is not None:
            log.warning("received events cannot be written to %s; retrying: %s", self.folder, text_with_advice(problem))
            if self._stopped.wait(_RETRY_SECONDS):
                log.error("%d received events are lost: they could not be written to %s", events, self.folder)
                return
        self._disk_sync.bytes_appended(self._file)

    def try_append(self, payload: bytes, events: int) -> str | None:
        """Append a record and sync it as the options say. Returns None, or the reason why it may not be on the disk: its
        sender must send it again.
        """
        return self._write(payload, events) or self._disk_sync.bytes_appended(self._file)

    def cancel_retries(self) -> None:
        """Make an append that retries give up; called from another thread."""
        self._stopped.set()

    def close(self) -> None:
        """Close the journal."""
        self._disk_sync.close(self._file)

    def _begin_segment(self, start: int) -> None:
        path = Segments(self.folder).path(start)
        before, self._file = self._file, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._start, self._size, self._is_torn = start, 0, False
        if before >= 0:
            self._disk_sync.file_finished(before)
        self._disk_sync.file_created(self.folder)

    def _write(self, payload: bytes, events: int) -> str | None:
        """Write a record completely or not at all; returns the reason if it is not written."""
        record = [encode_header(payload, events), payload]
        size = sum(map(len, record))
        try:
            if self._size >= self._segment_bytes or self._is_torn:
                self._begin_segment(self._start + os.fstat(self._file).st_size)
            written = os.writev(self._file, record)
            if written < size:  # the next write says why, or finishes the record
                written += os.writev(self._file, [b"".join(record)[written:]])
            if written == size:
                self._size += size
                self._bytes_on_disk += size
                return None
            reason = "only a part of the record was written"
        except OSError as error:
            reason = error.strerror or str(error)
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._is_torn = True
        return reason


def _recover(segments: Segments) -> None:
    """Truncate every segment to its intact records. Only the last can have a torn one, unless the machine lost power."""
    for start in segments.starts:
        size = segments.size(start)
        end = _intact_bytes(segments, start, size)
        if not end:
            segments.path(start).unlink()
        elif end < size:
            os.truncate(segments.path(start), end)
        if end < size:
            log.warning("%s: cut off a torn record of %d bytes", segments.path(start), size - end)


def _intact_bytes(segments: Segments, start: int, size: int) -> int:
    """Return the end of the last intact record, in bytes from the begin of the segment."""
    if not size:
        return 0
    with (
        segments.path(start).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        return _end_of_intact_records(view)


def _end_of_intact_records(view: memoryview) -> int:
    end = 0
    for record in complete_records(view):
        if not record.is_intact(view):
            break
        end = record.end
    return end
