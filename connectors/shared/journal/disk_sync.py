"""Syncs appended bytes to the disk: immediately, every second in a thread of its own, or not at all."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from connectors.shared.journal.options import Fsync

INTERVAL_SECONDS = 1.0

log = logging.getLogger("sluice.journal")


class DiskSync:
    """Holds the file that is written, and complete files that are not synced yet."""

    def __init__(self, fsync: Fsync) -> None:
        self.fsync = fsync
        self._lock = threading.Lock()
        self._file: int | None = None
        self._finished: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._sync_periodically,), name="journal-sync", daemon=True
        )
        if fsync == "interval":
            self._thread.start()

    def file_created(self, folder: Path) -> None:
        """Sync the folder of a new file, so that its name survives a loss of power."""
        if self.fsync != "never":
            entry = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            with suppress(OSError):  # not every file system supports it
                os.fsync(entry)
            os.close(entry)

    def bytes_appended(self, file: int) -> str | None:
        """Sync the file now (``always``), or later. Returns the reason if the sync failed."""
        if self.fsync == "always":
            return _sync_file(file)
        self._file = file
        return None

    def file_finished(self, file: int) -> None:
        """Take over a complete file: it is synced and closed."""
        with self._lock:
            self._file = None
            self._finished.append(file)
        if self.fsync != "interval":
            self._sync()

    def close(self, file: int) -> None:
        """Sync and close everything."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.file_finished(file)
        self._sync()

    def _sync_periodically(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
            open_file = os.dup(self._file) if self._file is not None else None
            self._file = None
        for file in [*finished, *([] if open_file is None else [open_file])]:
            if self.fsync != "never":
                _sync_file(file)
            os.close(file)


def _sync_file(file: int) -> str | None:
    try:
        os.fdatasync(file)
        return None
    except OSError as error:
        log.error("received events cannot be synced to the disk; a loss of power would lose them: %s", error.strerror)
        return error.strerror or str(error)
