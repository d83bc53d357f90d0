"""Forcing appended bytes to the disk: at once, every second in a thread of its own, or not at all."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from connectors.journal.options import Fsync

INTERVAL_SECONDS = 1.0

log = logging.getLogger("sluice.journal")


class Syncing:
    """Knows the file that is written to, and those that are finished and not yet on the disk."""

    def __init__(self, fsync: Fsync) -> None:
        self.fsync = fsync
        self._lock = threading.Lock()
        self._file: int | None = None
        self._finished: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._often,), name="journal-sync", daemon=True)
        if fsync == "interval":
            self._thread.start()

    def begun(self, folder: Path) -> None:
        """A file came into the folder: its name is to be found after a loss of power, too."""
        if self.fsync != "never":
            entry = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            with suppress(OSError):  # not every file system can
                os.fsync(entry)
            os.close(entry)

    def appended(self, file: int) -> None:
        """Bytes were added."""
        if self.fsync == "always":
            _force(file)
        else:
            self._file = file

    def finished(self, file: int) -> None:
        """Nothing more is added to a file, which is closed as soon as it may be."""
        with self._lock:
            self._file = None
            self._finished.append(file)
        if self.fsync != "interval":
            self._sync()

    def close(self, file: int) -> None:
        """The end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.finished(file)
        self._sync()

    def _often(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
            open_file = os.dup(self._file) if self._file is not None else None
            self._file = None
        for file in [*finished, *([] if open_file is None else [open_file])]:
            if self.fsync != "never":
                _force(file)
            os.close(file)


def _force(file: int) -> None:
    try:
        os.fdatasync(file)
    except OSError as error:
        log.error("what was received cannot be forced to the disk, and a loss of power would lose it: %s", error.strerror)
