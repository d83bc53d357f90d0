"""Looking at the file system: which files there are, and saying once what is wrong with one."""

from __future__ import annotations

import glob
import logging
import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch

from connectors.file.identity import Inode

SETTLED = 10.0
"""Seconds without a change after which a file that is finished, not followed, is taken as it is."""

log = logging.getLogger("sluice.source.file")

_MAGIC = re.compile(r"[*?\[]")

_warned: set[tuple[str, str]] = set()


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
    folder = os.path.dirname(_MAGIC.split(pattern)[0]) or "."
    if not os.path.isdir(folder):
        warn_once(folder, "there is no such folder; its files are read when it appears")
    else:
        warned_no_more(folder)
    for path in sorted(glob.glob(pattern, recursive=True)):
        name = os.path.basename(path)
        if any(fnmatch(path, one) or fnmatch(name, one) for one in exclude):
            continue
        seen = place(path, loud=path == pattern)
        if seen is not None:
            found.setdefault(seen.inode, seen)
    return found


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
