"""The data: real logs of some thousand lines, repeated until there is enough of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.folders import CACHE, acceptance

LINES = 10_000_000
BLOCK_COPIES = 100
"""Copies written at once."""


@dataclass(frozen=True)
class Log:
    """A log and what its repetitions are called."""

    name: str
    once: Callable[[], list[str]]
    """Its lines, without line ends."""

    def file(self, lines: int) -> Path:
        """The log repeated to about ``lines`` lines (a multiple of its length, at least once), made once."""
        once = self.once()
        copies = max(1, lines // len(once))
        file = CACHE / "data" / f"{self.name}-{copies * len(once)}.log"
        if not file.exists():
            _write(file, "".join(f"{line}\n" for line in once).encode(), copies)
        return file


def seed() -> list[str]:
    """The 2,000 lines of OpenSSH."""
    return _existing("loghub/OpenSSH/OpenSSH_2k.log").read_text().splitlines()


def apache_seed() -> list[str]:
    """The 10,000 lines of an Apache access log."""
    return gzip.decompress(_existing("apache/apache_logs.gz").read_bytes()).decode().splitlines()


OPENSSH = Log("w1", seed)
APACHE = Log("apache", apache_seed)


def w1(lines: int) -> Path:
    """The OpenSSH log of about that many lines."""
    return OPENSSH.file(lines)


def lines_of(file: Path) -> int:
    """How many lines a file of a `Log` has."""
    return int(file.stem.split("-")[1])


def _existing(path: str) -> Path:
    file = acceptance() / path
    if not file.is_file():
        raise SystemExit(f"there is no {file}; set SLUICE_ACCEPTANCE to the folder of acceptance data")
    return file


def _write(file: Path, text: bytes, copies: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    block = text * min(BLOCK_COPIES, copies)
    with draft.open("wb") as out:
        for _ in range(copies // BLOCK_COPIES):
            out.write(block)
        out.write(text * (copies % BLOCK_COPIES))
    draft.rename(file)
