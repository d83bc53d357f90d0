"""Copy of standard input on disk: segment files that a thread of the driver writes and the source reads by offset."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from connectors.shared.journal import segments as journal
from connectors.shared.lines.blocks import fill
from etl.api import write_advice

SEGMENT_BYTES = 64 << 20
"""Size after which a new segment begins, in bytes, so that delivered segments can be deleted."""

MAX_WAITING_BYTES = 1 << 30
"""Maximum bytes on disk; beyond that the pipe is not read."""

_READ_BYTES = 1 << 20
_PAUSE_SECONDS = 0.2
_END_MARK = "ended"

log = logging.getLogger("sluice.source.stdin")


class StdinSegments(journal.Segments):
    """Segments as one sequence of bytes from `first` to `end`, read from `at` on.

    They are files of a journal without its records: bytes of a pipe are split into events when they are read.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.at = self.first

    @property
    def is_complete(self) -> bool:
        """Whether standard input has ended."""
        return (self.folder / _END_MARK).exists()

    def is_quiet(self, seconds: float) -> bool:
        """Return whether nothing was added for this time."""
        return not self.starts or time.time() - self.path(self.starts[-1]).stat().st_mtime > seconds

    def skip(self, size: int) -> None:
        """Move the read position forward or back."""
        self.at += size

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer only at the end."""
        view = memoryview(bytearray(size))
        return bytes(view[: fill(self.readinto, view)])

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view from one segment; returns 0 at the end."""
        start = max((start for start in self.starts if start <= self.at), default=None)
        if start is None or not len(view):
            return 0
        with self.path(start).open("rb", 0) as file:
            file.seek(self.at - start)
            got = file.readinto(view)
        self.at += got
        return got


class StdinCopier(threading.Thread):
    """Thread that copies a file descriptor into segments until its end.

    Data of an earlier run stays before it; if its last line is incomplete, a newline is added. While the disk is full, the
    thread retries, and the pipe waits.
    """

    def __init__(
        self, folder: str, newline: bytes = b"\n", descriptor: int = 0, max_bytes: int | None = MAX_WAITING_BYTES
    ) -> None:
        super().__init__(name="stdin-spool", daemon=True)
        self.folder, self.descriptor, self.max_bytes = Path(folder), descriptor, max_bytes
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _END_MARK).unlink(missing_ok=True)
        segments = StdinSegments(folder)
        self.end = segments.end
        if segments.end > segments.first:
            segments.skip(max(segments.end - len(newline) - segments.first, 0))
            if segments.read(len(newline)) != newline:
                self._append(newline)

    def run(self) -> None:
        """Copy until the end of the input."""
        while data := os.read(self.descriptor, _READ_BYTES):
            self._wait_for_space()
            self._append(data)
        (self.folder / _END_MARK).touch()

    def stop(self) -> None:
        """Do nothing: copied data is on disk, and the thread, which may block in a read, ends with the process."""

    def dropped(self) -> dict[str, int]:
        """Return nothing: a pipe waits and loses no data."""
        return {}

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._segment().open("ab", 0) as file:
                    written = file.write(view) or 0
            except OSError as error:
                log.warning(
                    "standard input cannot be written to %s; retrying: %s; %s", self.folder, error.strerror, write_advice(error)
                )
                threading.Event().wait(5 * _PAUSE_SECONDS)
                continue
            view, self.end = view[written:], self.end + written

    def _segment(self) -> Path:
        segments = StdinSegments(str(self.folder))
        full = not segments.starts or self.end - segments.starts[-1] >= SEGMENT_BYTES
        return segments.path(self.end if full else segments.starts[-1])

    def _wait_for_space(self) -> None:
        while self.max_bytes is not None and self.end - StdinSegments(str(self.folder)).first > self.max_bytes:
            threading.Event().wait(_PAUSE_SECONDS)
