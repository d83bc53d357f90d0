"""The file system's data about a file."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass

from connectors.file.reading.file_warnings import warn_once
from connectors.file.reading.tracked_files import Inode

SETTLED_SECONDS = 10.0
"""Seconds without a change after which a file that may be complete counts as complete."""


@dataclass(frozen=True, slots=True)
class FileStat:
    """Path, inode, size and modification time of a regular file."""

    path: str
    inode: Inode
    size: int
    changed_ns: int

    @property
    def is_settled(self) -> bool:
        """Whether it has not changed for `SETTLED_SECONDS`."""
        return self.is_unchanged_for(SETTLED_SECONDS)

    def is_unchanged_for(self, seconds: float) -> bool:
        """Return whether it has not changed for this time."""
        return time.time() - self.changed_ns / 1e9 > seconds

    @property
    def version(self) -> tuple[Inode, int, int]:
        """Changes whenever the file is written."""
        return self.inode, self.size, self.changed_ns


def stat_file(path: str, warns_if_irregular: bool = False) -> FileStat | None:
    """Return the stat of a path, if it is a regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(path, f"it cannot be inspected, and is read as soon as it can: {error.strerror}")
        return None
    if not stat.S_ISREG(status.st_mode):
        if warns_if_irregular:
            warn_once(path, "it is not a regular file, and is read as soon as it is one")
        return None
    return FileStat(path, (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


def path_as_text(path: str) -> str:
    """Return a path as valid text, whatever its bytes are."""
    return os.fsencode(path).decode("utf-8", "replace")
