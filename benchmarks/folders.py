"""Where the benchmarks keep what they make: outside the checkout, in one folder that may be deleted at any time."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("SLUICE_BENCH", Path.home() / ".cache" / "sluice-bench"))
RESULTS = CACHE / "results"
VENV = CACHE / "venv"


def acceptance() -> Path:
    """The folder of acceptance data, found as the tests find it."""
    return Path(os.environ.get("SLUICE_ACCEPTANCE", ROOT.parent / "shared" / "acceptance"))


MEMORY = Path("/dev/shm")
"""Files in memory, where Linux has them."""


@cache
def work() -> Path:
    """Where contenders write: in memory where there is room, for a disk of 200 MB/s would be all that is measured."""
    given = os.environ.get("SLUICE_BENCH_WORK")
    if given:
        return Path(given)
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY / "sluice-bench" if roomy else CACHE / "work"


def medium(folder: Path) -> str:
    """The file system of a folder and, for one in memory, the size of its pages."""
    mounts = {Path(mount.mountpoint): mount for mount in psutil.disk_partitions(all=True)}
    where = folder.resolve()
    mount = next((mounts[path] for path in (where, *where.parents) if path in mounts), None)
    if mount is None:
        return "unknown"
    pages = [option for option in mount.opts.split(",") if option.startswith("huge=")]
    return " ".join([mount.fstype, *pages])


ROOM = 12 << 30
"""Bytes that the largest run may leave."""


def fresh(name: str, on_disk: bool = False) -> Path:
    """An empty folder of that name."""
    folder = (CACHE / "work" if on_disk else work()) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
