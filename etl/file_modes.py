"""Modes of files that a run writes: its own files are private, its output has the modes of the user's umask.

A run sets its umask to 077, which the JVM and all its workers inherit; whatever they create is private. Output gets its
mode from `output_mode`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = "SLUICE_UMASK"
"""The user's umask, for processes that a run starts."""

_PRIVATE = 0o077

_lock = threading.Lock()
_users: list[int] = []
"""The umask before, once for each context of this process that is open: several runs may last at the same time."""

FILE, FOLDER = 0o644, 0o777
"""Modes of files and folders of output before the umask."""


@contextmanager
def private_files() -> Iterator[None]:
    """Files that this process and its children create inside the context are private."""
    with _lock:
        before = os.umask(_PRIVATE)
        _users.append(_users[0] if _users else before)
        os.environ[_NAME] = f"{_users[0]:o}"
    try:
        yield
    finally:
        with _lock:
            before = _users.pop()
            if not _users:
                os.umask(before)
                del os.environ[_NAME]


def output_mode(usual: int = FILE) -> int:
    """The mode of a file or folder of output."""
    return usual & ~_users_umask()


def replace_file(path: str | Path, content: bytes, sync_folder: bool = True, sync: bool = True) -> None:
    """Replace a small file of ours: readers see the old one or the new one, also after a crash. It is private, and on an
    OSError, such as a full disk, nothing is left beside it. With ``sync_folder`` it is the new one once this returns, also
    when the power fails. Without ``sync`` all this holds only while the system does not crash."""
    fresh = f"{path}.new"
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(fresh)
        error.filename = error.filename or str(path)  # a full disk is reported by a write, which names no file
        raise
    if sync_folder and sync:
        sync_names(os.path.dirname(path) or ".")


def sync_names(folder: str | Path) -> None:
    """Make the names of files in a folder durable. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_private() -> bool:
    """Whether this is a process of a run, in which new files are private unless something else is done."""
    return _NAME in os.environ


def _users_umask() -> int:
    noted = os.environ.get(_NAME)
    if noted is not None:
        return int(noted, 8)
    now = os.umask(_PRIVATE)  # the umask can only be read by setting it
    os.umask(now)
    return now
