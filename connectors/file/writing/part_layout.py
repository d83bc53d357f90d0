"""The parts of an output folder: which staged files a part accepts, when it is full, and the name of the next one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.file.writing.ledger import OutputFile, Pending
from connectors.file.writing.staged_files import StagedFile
from etl.api import FILE, FOLDER, output_mode

LARGE_FILES_PER_PART = 4
"""A staged file of at least ``max_bytes`` divided by this is large: it becomes a part of its own, without a copy."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """The rules by which staged files become the output file, or the parts of an output folder."""

    is_folder: bool
    extension: str
    max_bytes: int
    max_age: float
    """Seconds after which a new part begins."""
    path: str = ""
    """The option's value, for messages."""
    private: bool = False
    """Whether it is in the state folder, which only its owner can read."""

    @property
    def file_mode(self) -> int | None:
        """The mode of a new file; None leaves it private."""
        return None if self.private else output_mode(FILE)

    @property
    def folder_mode(self) -> int | None:
        """The mode of a new folder; None leaves it private."""
        return None if self.private else output_mode(FOLDER)

    def accepts(self, file: OutputFile | Pending, length: int, piece: StagedFile, now: float) -> bool:
        """Return whether a staged file may be appended to an output file."""
        if not self.is_folder:
            return True
        fits = length + piece.bytes <= self.max_bytes and piece.bytes < self.max_bytes / LARGE_FILES_PER_PART
        return fits and file.shape == piece.shape and not self.is_old(file, now)

    def is_full(self, length: int) -> bool:
        """Return whether a part of ``length`` bytes is full: a staged file that is nearly large might no longer fit."""
        return length >= self.max_bytes / LARGE_FILES_PER_PART * (LARGE_FILES_PER_PART - 1)

    def is_old(self, file: OutputFile | Pending, now: float) -> bool:
        """Return whether the part is at least ``max_age`` old at the time ``now`` (seconds since 1970)."""
        return self.is_folder and abs(now - file.since) >= self.max_age

    def new_path(self, key: str, now: float, number: int) -> str:
        """Return ``part-<begin, UTC>-<number>``, which sorts by age."""
        if not self.is_folder:
            return key
        return os.path.join(key, f"part-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{number:06d}{self.extension}")
