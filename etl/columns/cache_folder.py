"""The folder of compiled kernels and scanners: writable, and not writable by other users."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """``$SLUICE_CACHE``, else the user's cache folder, else one below the temporary folder; created if missing.

    Its files are executed and unpickled, so a folder that other users own or may write to is not used; nor is one on a full disk.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    candidates = [os.environ.get("SLUICE_CACHE"), os.path.join(home, "sluice"), _temporary()]
    usable = (Path(path) for path in candidates if path and os.path.isabs(path) and _is_usable(path))
    return next(usable, None) or Path(tempfile.mkdtemp(prefix="sluice-"))


def code_version(*packages: Path) -> str:
    """A hash of all Python files below these folders: the key of values that this code computed."""
    return hashlib.sha256(b"".join(_content_hash(package) for package in sorted(set(packages)))).hexdigest()[:12]


@cache
def _content_hash(package: Path) -> bytes:
    """Computed once a process, because every type of step needs the hash of the engine and of its own package."""
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content.update(str(path.relative_to(package)).encode())
        content.update(path.read_bytes())
    return content.digest()


def kernels() -> Path:
    """The folder of compiled kernels, a file for each signature."""
    return folder() / "kernels"


def compiled_mark(name: str, *packages: Path) -> Path:
    """An empty file that exists once all kernels which ``name`` calls are compiled, for the present code of ``packages``."""
    return folder() / "compiled" / f"{name}-{code_version(*packages)}"


def tidy() -> None:
    """Remove files that were not used for a month: kernels, marker files, scanners, and archives of the JVM."""
    kinds = ("kernels-*", "kernels/*", "compiled/*", "scanners/*", "jvm/*")
    for old in (old for kind in kinds for old in folder().glob(kind)):
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(old) if old.is_dir() else old.unlink()


KEPT_SECONDS = 30 * 86_400
"""Age of unused files that `tidy` removes."""


def _temporary() -> str:
    return os.path.join(tempfile.gettempdir(), f"sluice-{os.getuid()}")


def _is_usable(path: str) -> bool:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
        has_room = shutil.disk_usage(path).free >= ROOM
    except OSError:
        return False
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.getuid() and not shared and has_room and os.access(path, os.W_OK | os.X_OK)


ROOM = 16 << 20
"""Free bytes that the folder needs for kernels and scanners."""
