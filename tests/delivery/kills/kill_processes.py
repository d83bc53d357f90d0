"""The worker processes of a run, which a trial kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def workers(driver: int) -> Iterator[int]:
    """Yield the Python processes of a driver that read and write: those that its worker daemon forked."""
    parents = dict(_processes())
    daemons = {pid for pid in parents if b"-m\0etl.spark.startup.daemon\0" in _command(pid)}
    for pid in daemons:
        if parents[pid] in daemons and driver in _above(pid, parents):
            yield pid


def jvms(driver: int) -> Iterator[int]:
    """Yield the Java processes that a driver started."""
    parents = dict(_processes())
    for pid in parents:
        if _command(pid).split(b"\0")[0].endswith(b"java") and driver in _above(pid, parents):
            yield pid


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def _processes() -> Iterator[tuple[int, int]]:
    """Yield each process and its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
