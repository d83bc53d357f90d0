"""Ledger of a ``file`` sink in the driver: which micro-batches are committed, and the committed length of each file.

One small JSON file, replaced as a whole. Bytes after a recorded length, and files that were begun but have no recorded
length, are leftovers of a crash.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from typing import Any

from etl.api import BatchId, ComponentError, replace_file

NAME = "committed.json"


@dataclass(slots=True)
class OutputFile:
    """A growing file, of which ``length`` bytes are committed."""

    key: str
    """Its expanded path."""

    length: int
    since: float
    """When it was begun, in seconds since 1970."""

    shape: str = ""
    """Identifies its columns, if they matter (CSV)."""

    inode: int | None = None
    """Inode at the last commit; None before it."""

    created: bool = False
    """Whether the sink created it."""


@dataclass(slots=True)
class Pending:
    """Committed events in the state folder that are not in a part yet."""

    key: str
    shape: str
    since: float
    header: int = 0
    """Bytes of the header that each file begins with."""

    bytes: int = 0
    files: list[str] = field(default_factory=list)
    part: str | None = None
    """Path of the part that they are about to become."""


@dataclass(slots=True)
class Ledger:
    """The ledger. `save` it before and after changing a file."""

    folder: str
    batches: dict[str, int] = field(default_factory=dict)
    files: dict[str, OutputFile] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    sequence: int = 0

    def holds(self, batch: BatchId) -> bool:
        """Return whether this micro-batch is committed."""
        return batch.number <= self.batches.get(batch.query, -1)

    def next(self) -> int:
        """Return a number not used by any part of this sink."""
        self.sequence += 1
        return self.sequence

    def save(self) -> None:
        """Replace the ledger on disk, durably."""
        path = os.path.join(self.folder, NAME)
        record = {name: getattr(self, name) for name in ("batches", "sequence")}
        record["files"] = {name: {key: getattr(file, key) for key in _FILE} for name, file in self.files.items()}
        record["pending"] = [{key: getattr(pending, key) for key in _PENDING} for pending in self.pending]
        replace_file(path, json.dumps(record, ensure_ascii=True).encode())


_FILE, _PENDING = ([one.name for one in fields(kind)] for kind in (OutputFile, Pending))
"""Read one by one: `dataclasses.asdict` copies what is inside, a quarter of a commit of many files."""


def load(folder: str) -> Ledger:
    """Read the ledger of this folder, or return an empty one."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        return Ledger(folder, **_convert_types(record))
    except FileNotFoundError:
        return Ledger(folder)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ComponentError(
            f"{path} is not a valid ledger of a file sink ({error}); restore it, or move it away to start again: "
            "output after the last commit then stays"
        ) from error


def _convert_types(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "batches": {str(query): int(number) for query, number in record["batches"].items()},
        "sequence": int(record["sequence"]),
        "files": {name: OutputFile(**file) for name, file in record["files"].items()},
        "pending": [Pending(**pending) for pending in record["pending"]],
    }
