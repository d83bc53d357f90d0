"""Looking at the file system: which files there are, and saying once what is wrong with one."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass

from connectors.file.identity import Inode
from etl.api import FileSearch

SETTLED = 10.0
"""Seconds without a change after which a file that is finished, not followed, is taken as it is."""

log = logging.getLogger("sluice.source.file")

MAGIC = re.compile(r"[*?\[]")
"""What makes a path a glob."""

_warned: set[tuple[str, str]] = set()

_seen_folders: set[str] = set()
"""Folders that were there at some look: one that is missing from the first is what the start of the run tells of."""

_unreadable_folders: set[str] = set()
"""Folders that the last search could not list."""


@dataclass(frozen=True, slots=True)
class Place:
    """A regular file where it was seen."""

    path: str
    inode: Inode
    size: int
    changed_ns: int

    @property
    def settled(self) -> bool:
        """Nothing was written to it lately."""
        return self.quiet(SETTLED)

    def quiet(self, seconds: float) -> bool:
        """Nothing was written to it for so long."""
        return time.time() - self.changed_ns / 1e9 > seconds

    @property
    def version(self) -> tuple[Inode, int, int]:
        """Equal as long as nothing was written to it."""
        return self.inode, self.size, self.changed_ns


def matched(pattern: str, exclude: Iterable[str]) -> dict[Inode, Place]:
    """The files of a glob, each once whatever its names."""
    found: dict[Inode, Place] = {}
    folder = root(pattern)
    if os.path.isdir(folder):
        _seen_folders.add(folder)
        warned_no_more(folder)
    elif folder in _seen_folders:
        warn_once(folder, "there is no such folder; its files are read when it appears")
    search = FileSearch(pattern, exclude)
    for path in search.paths():
        seen = place(path, loud=path == pattern)
        if seen is not None:
            found.setdefault(seen.inode, seen)
    _warn_of_folders(search)
    return found


def _warn_of_folders(search: FileSearch) -> None:
    """Name folders that cannot be listed, once, and again when they could be in between."""
    for path in _unreadable_folders - search.unreadable.keys():
        warned_no_more(path)
    _unreadable_folders.clear()
    _unreadable_folders.update(search.unreadable)
    for path, reason in search.unreadable.items():
        warn_once(path, f"this folder cannot be listed, and is searched when it can: {reason}")


def root(pattern: str) -> str:
    """The folder that all files of a glob lie under."""
    return os.path.dirname(MAGIC.split(pattern)[0]) or "."


def place(path: str, loud: bool = False) -> Place | None:
    """What stands at a path, if it is a regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(path, f"it cannot be looked at, and is read when it can: {error.strerror}")
        return None
    if not stat.S_ISREG(status.st_mode):
        if loud:
            warn_once(path, "it is no regular file, and is read when it is one")
        return None
    return Place(path, (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


def shown(path: str) -> str:
    """A path as valid text, whatever its bytes are."""
    return os.fsencode(path).decode("utf-8", "replace")


def warn_once(path: str, message: str) -> None:
    """One warning for a cause, until `warned_no_more`."""
    if (path, message) not in _warned:
        _warned.add((path, message))
        log.warning("%s: %s", path, message)


def warned_no_more(path: str) -> None:
    """The path is well: its next trouble is worth a warning again."""
    for one in [one for one in _warned if one[0] == path]:
        _warned.discard(one)
