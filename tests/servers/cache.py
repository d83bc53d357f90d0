"""The cache of the servers' files, outside the checkout: each part is fetched once, completely or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class MissingError(Exception):
    """A file of a server is missing and cannot be fetched; the message gives advice."""


def folder() -> Path:
    """Return ``$SLUICE_SERVERS``, else ``~/.cache/sluice-servers``."""
    return Path(os.environ.get("SLUICE_SERVERS") or Path.home() / ".cache" / "sluice-servers").absolute()


def fetch_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` of the cache. The first caller makes it; other processes wait for that.

    ``make`` fills a temporary folder, which is renamed to ``name`` when it is complete, so a fetch that is interrupted leaves
    no incomplete folder under that name.
    """
    whole = folder() / name
    if not whole.is_dir():
        whole.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(name):
            if not whole.is_dir():
                _make(whole, make)
    return whole


def print_progress(text: str) -> None:
    """Print progress on standard error."""
    print(f"servers: {text}", file=sys.stderr, flush=True)


def _make(whole: Path, make: Callable[[Path], None]) -> None:
    part = whole.parent / f".{whole.name}.part"
    shutil.rmtree(part, ignore_errors=True)  # left by an interrupted fetch; the lock shows that no process is filling it
    part.mkdir()
    print_progress(f"fetching {whole.name} into {whole.parent} (once)")
    began = time.monotonic()
    try:
        make(part)
        part.rename(whole)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print_progress(f"fetched {whole.name} in {time.monotonic() - began:.0f} s")


@contextmanager
def hold_lock(name: str) -> Iterator[None]:
    """Hold a lock of the cache between processes, on a file. The kernel releases it when the process ends."""
    with (folder() / f".{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_progress(f"waiting for another process that fetches {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
