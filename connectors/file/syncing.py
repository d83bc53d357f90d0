"""Making many files and folders durable at once: each folder once, files side by side, or the whole file system in one call."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

THREADS = 16
"""Calls of fsync that wait at the same time: a journal commits them together."""

SYNCFS_FROM = 256
"""Files and folders from which on one syncfs is cheaper than an fsync for each."""

_LOCAL = frozenset({"ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"})
"""File systems on which syncfs is known to write what fsync writes."""


def make_durable(files: Iterable[str], folders: Iterable[str]) -> None:
    """Write files and the entries of folders to the disk. Raises OSError that names one that could not be written."""
    paths = [*files, *sorted(set(folders))]
    devices = _devices(paths) if len(paths) >= SYNCFS_FROM else {}
    rest = paths
    if devices and all(map(_takes_syncfs, devices)):
        rest = [path for path in devices.values() if not _synced(path)]
        rest = paths if rest else []
    if len(rest) <= 2:
        for path in rest:
            sync(path)
        return
    with ThreadPoolExecutor(min(THREADS, len(rest))) as pool:
        list(pool.map(sync, rest))


def sync(path: str) -> None:
    """Make a file, or a folder's entries, durable."""
    handle = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def make_folder(path: str, mode: int | None = None) -> set[str]:
    """Create a folder and those above it, each with ``mode`` where one is given. Returns the folders that got an entry, for
    `make_durable`."""
    if not path:
        return set()
    changed: set[str] = set()
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return set()
    except FileNotFoundError:
        changed = make_folder(os.path.dirname(path), mode)
        with suppress(FileExistsError):
            os.mkdir(path)
    if mode is not None:
        os.chmod(path, mode)
    return changed | {os.path.dirname(path)}


def _devices(paths: Sequence[str]) -> dict[int, str]:
    """The file systems of paths, each with one of the paths."""
    return {os.stat(path or ".").st_dev: path for path in paths}


def _synced(path: str) -> bool:
    """Write a path's whole file system; False where the system has no such call. Raises OSError when that fails."""
    call = _syncfs()
    if call is None:
        return False
    handle = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if call(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(handle)
    return True


@cache
def _syncfs() -> Any:
    """The call; None where there is none, or where it does not report failed writes (Linux before 5.8)."""
    system, release = os.uname().sysname, re.match(r"(\d+)\.(\d+)", os.uname().release)
    if system != "Linux" or release is None or tuple(map(int, release.groups())) < (5, 8):
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is not None:
        call.argtypes = [ctypes.c_int]
    return call


@cache
def _takes_syncfs(device: int) -> bool:
    """Whether a device holds a file system that is known; a device that the system's list of mounts does not have is not."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.partition(" - ") for line in mounts]
    except OSError:
        return False
    kinds = {behind.split()[0] for before, _, behind in lines if before.split()[2] == wanted and behind}
    return bool(kinds) and kinds <= _LOCAL
