"""Makes many files and folders durable: each folder once, files in parallel, or the whole file system with one call.

The kernel's write-back of a growing file is started early, so that the `fsync` of a commit has little left to do.
"""

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
"""Parallel fsync calls: the file system's journal commits them together."""

SYNCFS_FROM = 256
"""Number of files and folders from which one syncfs is cheaper than an fsync for each."""

WRITE_BACK_BYTES = 8 << 20
"""Write-back is started each time a file has grown by this many bytes."""

_SYNC_WRITE = 2
"""SYNC_FILE_RANGE_WRITE of sync_file_range(2): start writing without waiting."""

_SYNCFS_FILE_SYSTEMS = frozenset({"ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"})
"""File systems on which syncfs is known to write what fsync writes."""


def make_durable(files: Iterable[str], folders: Iterable[str]) -> None:
    """Write files and folder entries to the disk. Raises OSError with the path that could not be written."""
    paths = [*files, *sorted(set(folders))]
    devices = _devices(paths) if len(paths) >= SYNCFS_FROM else {}
    rest = paths
    if devices and all(map(_supports_syncfs, devices)):
        rest = [path for path in devices.values() if not _sync_file_system(path)]
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
    """Create a folder and its parents, with ``mode`` if given. Returns the folders with a new entry, for `make_durable`."""
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
    """Return the devices of paths, each with one of the paths."""
    return {os.stat(path or ".").st_dev: path for path in paths}


def _sync_file_system(path: str) -> bool:
    """Write a path's whole file system; False if the system has no such call. Raises OSError if it fails."""
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
    """Return the system call; None if it does not exist or does not report failed writes (Linux before 5.8)."""
    system, release = os.uname().sysname, re.match(r"(\d+)\.(\d+)", os.uname().release)
    if system != "Linux" or release is None or tuple(map(int, release.groups())) < (5, 8):
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is not None:
        call.argtypes = [ctypes.c_int]
    return call


@cache
def _supports_syncfs(device: int) -> bool:
    """Return whether a device has a supported file system; False if it is not in the list of mounts."""
    device_number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.partition(" - ") for line in mounts]
    except OSError:
        return False
    kinds = {after.split()[0] for before, _, after in lines if before.split()[2] == device_number and after}
    return bool(kinds) and kinds <= _SYNCFS_FILE_SYSTEMS


def write_back(handle: int, before: int, after: int) -> None:
    """Start writing what a file of ``after`` bytes gained since it had ``before``, once every `WRITE_BACK_BYTES`.

    Only an optimization: does nothing if the system has no such call or refuses it.
    """
    start, end = before // WRITE_BACK_BYTES * WRITE_BACK_BYTES, after // WRITE_BACK_BYTES * WRITE_BACK_BYTES
    call = _sync_file_range()
    if call is not None and end > start:
        call(handle, start, end - start, _SYNC_WRITE)


@cache
def _sync_file_range() -> Any:
    if os.uname().sysname != "Linux":
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call
