"""Copies bytes between files in the kernel, and renames files, with a fallback to copying."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FALLBACK_ERRORS = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EPERM}


def append(source: str, start: int, end: int, target: int, at: int) -> int:
    """Copy bytes ``start`` to ``end`` of a file to the open ``target`` at ``at``; returns the end of the written bytes."""
    handle = os.open(source, os.O_RDONLY)
    try:
        while start < end:
            copied = _copy(handle, target, start, at, end - start)
            if not copied:
                raise OSError(errno.EIO, f"staged file ends {end - start} bytes early", source)
            start += copied
            at += copied
    finally:
        os.close(handle)
    return at


def rename(source: str, target: str) -> None:
    """Rename a file; between file systems, copy it to a temporary file first. The caller makes it durable."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with removed_on_failure(temporary_path(target)) as copied:
            copy(source, copied)
            os.rename(copied, target)
        os.unlink(source)


@contextmanager
def removed_on_failure(path: str) -> Iterator[str]:
    """Remove a temporary file if the body that writes it fails, for example on a full disk."""
    try:
        yield path
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def remove(path: str) -> None:
    """Remove a file that was never committed, and its temporary copy."""
    for leftover in (path, temporary_path(path)):
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(leftover)


def temporary_path(path: str) -> str:
    """Return the hidden path at which a file is written before it is renamed to ``path``."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")


def copy(source: str, target: str) -> None:
    """Copy a whole file. The caller makes it durable."""
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        append(source, 0, os.path.getsize(source), out, 0)
    finally:
        os.close(out)


def _copy(source: int, target: int, start: int, at: int, count: int) -> int:
    try:
        return os.copy_file_range(source, target, count, start, at)
    except OSError as error:
        if error.errno not in _FALLBACK_ERRORS:
            raise
    return os.pwrite(target, os.pread(source, min(count, 1 << 20), start), at)
