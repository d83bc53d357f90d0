"""When a part is full, and the name of the next one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.file.writing.ledger import OutputFile, Pending
from connectors.file.writing.staged_files import StagedFile
from etl.api import FILE, FOLDER, output_mode

PARTS_PER_LARGE_FILE = 4
"""A staged file of at least a fourth of a part becomes a part of its own, without a copy."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """Where output files begin, and when they are full."""

    is_folder: bool
    extension: str
    max_bytes: int
    max_age: float
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
        fits = length + piece.bytes <= self.max_bytes and piece.bytes < self.max_bytes / PARTS_PER_LARGE_FILE
        return fits and file.shape == piece.shape and not self.is_old(file, now)

    def is_full(self, length: int) -> bool:
        """Return whether the next staged file would not fit after this many bytes."""
        return length >= self.max_bytes / PARTS_PER_LARGE_FILE * (PARTS_PER_LARGE_FILE - 1)

    def is_old(self, file: OutputFile | Pending, now: float) -> bool:
        """Return whether it is time for a new part."""
        return self.is_folder and abs(now - file.since) >= self.max_age

    def new_path(self, key: str, now: float, number: int) -> str:
        """Return ``part-<begin, UTC>-<number>``, which sorts by age."""
        if not self.is_folder:
            return key
        return os.path.join(key, f"part-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{number:06d}{self.extension}")
