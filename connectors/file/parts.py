"""When a part is full, and what the next one is called."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.file.ledger import OutputFile, Pending
from connectors.file.staging import StagedFile
from etl.api import FILE, FOLDER, output_mode

BIG = 4
"""A staged file of a fourth of a part becomes a part of its own, without a copy."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where files begin and when they are full."""

    is_folder: bool
    extension: str
    max_bytes: int
    max_age: float
    path: str = ""
    """As the options say it, for messages."""
    private: bool = False
    """Whether it lies in the state folder, which is for its owner only."""

    @property
    def file_mode(self) -> int | None:
        """The mode of a new file; None leaves it private."""
        return None if self.private else output_mode(FILE)

    @property
    def folder_mode(self) -> int | None:
        """The mode of a new folder; None leaves it private."""
        return None if self.private else output_mode(FOLDER)

    def takes(self, file: OutputFile | Pending, length: int, piece: StagedFile, now: float) -> bool:
        """True when the piece may go behind what the file holds."""
        if not self.is_folder:
            return True
        fits = length + piece.bytes <= self.max_bytes and piece.bytes < self.max_bytes / BIG
        return fits and file.shape == piece.shape and not self.is_old(file, now)

    def is_full(self, length: int) -> bool:
        """True when the next piece would not go behind so many bytes."""
        return length >= self.max_bytes / BIG * (BIG - 1)

    def is_old(self, file: OutputFile | Pending, now: float) -> bool:
        """True when it is time for a new part: also when the clock was put back behind the part's beginning by as much."""
        return self.is_folder and abs(now - file.since) >= self.max_age

    def new_path(self, key: str, now: float, number: int) -> str:
        """``part-<begin, UTC>-<number>``, which sorts by age."""
        if not self.is_folder:
            return key
        return os.path.join(key, f"part-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{number:06d}{self.extension}")
