"""Folders whose files are in memory: a test of thousands of small files takes a third less CPU time, and waits for no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PosixPath

MEMORY = Path("/dev/shm")
PREFIX = "sluice-run-"
"""Of the names of the folders of test runs, which end with the number of their first process."""
FREE_BYTES = 2 << 30
"""Memory that must be free there."""


class _Folder(PosixPath):
    """A path whose folder is removed when nobody holds the path any more."""


@cache
def folder_of_run() -> Path | None:
    """The folder in memory of this test run and its forks; None if this system has none. Removes those of runs that were killed.

    Servers of other users read what is below, if they know its name.
    """
    if not is_usable():
        return None
    for left in MEMORY.glob(f"{PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = MEMORY / f"{PREFIX}{os.getpid()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    return folder


def new_folder() -> Path:
    """A new folder in memory, or where temporary files are if this system has none; the caller removes it."""
    return Path(tempfile.mkdtemp(prefix="sluice-tests-", dir=folder_of_run()))


def passing_folder() -> Path:
    """The same for an example of a law: removed when nobody holds the path any more."""
    folder = _Folder(new_folder())
    weakref.finalize(folder, shutil.rmtree, str(folder), ignore_errors=True)
    return folder


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """The same for a block: removed at its end."""
    folder = new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def is_usable() -> bool:
    """Whether the system has a file system in memory that this user may write to and execute files in."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    refused = found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return not refused and found.f_bavail * found.f_frsize >= FREE_BYTES and os.access(MEMORY, os.W_OK)
