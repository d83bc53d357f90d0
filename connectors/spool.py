"""Standard input on disk: segment files that a thread of the driver fills and the source reads by offset."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from connectors.journal import segments as journal

SEGMENT = 64 << 20
"""Bytes after which a new segment is begun, so that old ones can be deleted."""

ROOM = 1 << 30
"""Bytes that may wait on disk before the pipe is left to wait."""

_READ = 1 << 20
_PAUSE = 0.2
_ENDED = "ended"

log = logging.getLogger("sluice.source.stdin")


class Segments(journal.Segments):
    """A folder of segments as one run of bytes from `first` to `total`, read from `at` on.

    They are a journal's files without its records: what comes over a pipe is cut into events when it is read.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.at = self.first

    @property
    def ended(self) -> bool:
        """Whether standard input has come to its end."""
        return (self.folder / _ENDED).exists()

    def quiet(self, seconds: float) -> bool:
        """Whether nothing was added for so long."""
        return not self.starts or time.time() - self.path(self.starts[-1]).stat().st_mtime > seconds

    def skip(self, size: int) -> None:
        """Go forward or back."""
        self.at += size

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end."""
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size and (got := self.readinto(view[filled:])):
            filled += got
        return bytes(view[:filled])

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view from one segment; 0 at the end."""
        start = max((start for start in self.starts if start <= self.at), default=None)
        if start is None or not len(view):
            return 0
        with self.path(start).open("rb", 0) as file:
            file.seek(self.at - start)
            got = file.readinto(view)
        self.at += got
        return got


class Spool(threading.Thread):
    """Copies a file descriptor into segments until its end; `join` waits for that.

    What an earlier run left is kept in front; a last line that was cut off there is ended. A full disk is waited
    for: what was read is kept and the pipe waits.
    """

    def __init__(self, folder: str, newline: bytes = b"\n", descriptor: int = 0, room: int | None = ROOM) -> None:
        super().__init__(name="stdin-spool", daemon=True)
        self.folder, self.descriptor, self.room = Path(folder), descriptor, room
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _ENDED).unlink(missing_ok=True)
        kept = Segments(folder)
        self.total = kept.total
        if kept.total > kept.first:
            kept.skip(max(kept.total - len(newline) - kept.first, 0))
            if kept.read(len(newline)) != newline:
                self._append(newline)

    def run(self) -> None:
        """Copy until the end."""
        while data := os.read(self.descriptor, _READ):
            self._wait_for_room()
            self._append(data)
        (self.folder / _ENDED).touch()

    def stop(self) -> None:
        """What was read is on disk already; the thread, which may wait for the pipe, ends with the process."""

    def dropped(self) -> dict[str, int]:
        """Nothing: a pipe waits."""
        return {}

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._segment().open("ab", 0) as file:
                    written = file.write(view) or 0
            except OSError as error:
                log.warning("standard input cannot be kept in %s, and waits: %s", self.folder, error.strerror)
                threading.Event().wait(5 * _PAUSE)
                continue
            view, self.total = view[written:], self.total + written

    def _segment(self) -> Path:
        kept = Segments(str(self.folder))
        full = not kept.starts or self.total - kept.starts[-1] >= SEGMENT
        return kept.path(self.total if full else kept.starts[-1])

    def _wait_for_room(self) -> None:
        while self.room is not None and self.total - Segments(str(self.folder)).first > self.room:
            threading.Event().wait(_PAUSE)
