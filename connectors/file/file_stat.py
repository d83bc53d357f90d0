"""Lists and inspects files, and warns once about each problem with one."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass

from connectors.file.tracked_files import Inode
from etl.api import FileSearch

SETTLED_SECONDS = 10.0
"""Seconds without a change after which a file that may be complete counts as complete."""

log = logging.getLogger("sluice.source.file")

GLOB_CHARACTERS = re.compile(r"[*?\[]")
"""Characters that make a path a glob."""

_warned: set[tuple[str, str]] = set()

_existing_folders: set[str] = set()
"""Folders that existed at some scan: a folder that is missing from the beginning is reported at the start of the run instead.
"""

_unreadable_folders: set[str] = set()
"""Folders that the last search could not list."""


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


def match_files(pattern: str, exclude: Iterable[str]) -> dict[Inode, FileStat]:
    """Return the files of a glob by inode, so that a file with several names occurs once."""
    found: dict[Inode, FileStat] = {}
    folder = glob_root(pattern)
    if os.path.isdir(folder):
        _existing_folders.add(folder)
        clear_warnings(folder)
    elif folder in _existing_folders:
        warn_once(folder, "the folder does not exist; its files are read as soon as it does")
    search = FileSearch(pattern, exclude)
    for path in search.paths():
        stat_ = stat_file(path, warns_if_irregular=path == pattern)
        if stat_ is not None:
            found.setdefault(stat_.inode, stat_)
    _warn_of_folders(search)
    return found


def _warn_of_folders(search: FileSearch) -> None:
    """Warn once about each folder that cannot be listed, and again if it could be listed in between."""
    for path in _unreadable_folders - search.unreadable.keys():
        clear_warnings(path)
    _unreadable_folders.clear()
    _unreadable_folders.update(search.unreadable)
    for path, reason in search.unreadable.items():
        warn_once(path, f"this folder cannot be listed, and is searched as soon as it can: {reason}")


def glob_root(pattern: str) -> str:
    """Return the folder that contains all files of a glob."""
    return os.path.dirname(GLOB_CHARACTERS.split(pattern)[0]) or "."


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


def warn_once(path: str, message: str) -> None:
    """Log a warning once, until `clear_warnings`."""
    if (path, message) not in _warned:
        _warned.add((path, message))
        log.warning("%s: %s", path, message)


def clear_warnings(path: str) -> None:
    """Forget the warnings of a path without problems, so that the next problem is logged again."""
    for one in [one for one in _warned if one[0] == path]:
        _warned.discard(one)
