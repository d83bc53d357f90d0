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


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder ``name`` of the cache; the first who asks makes it, whoever asks meanwhile waits.

    ``make`` fills a folder beside it, which takes the name when all of it is there: a fetch that is cut off leaves nothing
    that looks whole.
    """
    whole = folder() / name
    if not whole.is_dir():
        whole.parent.mkdir(parents=True, exist_ok=True)
        with alone(name):
            if not whole.is_dir():
                _make(whole, make)
    return whole


def say(text: str) -> None:
    """Print progress on standard error."""
    print(f"servers: {text}", file=sys.stderr, flush=True)


def _make(whole: Path, make: Callable[[Path], None]) -> None:
    part = whole.parent / f".{whole.name}.part"
    shutil.rmtree(part, ignore_errors=True)  # of a fetch that was cut off; the lock says that nobody works on it
    part.mkdir()
    say(f"fetching {whole.name} into {whole.parent} (once)")
    began = time.monotonic()
    try:
        make(part)
        part.rename(whole)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    say(f"fetched {whole.name} in {time.monotonic() - began:.0f} s")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold a file lock of the cache, which ends with its process."""
    with (folder() / f".{name}.lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another that fetches {name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
