"""What the driver knows of a ``file`` sink's output: which micro-batches are in, and how long each file may be.

One small JSON file, replaced as a whole. What it says is the truth: bytes behind a recorded length and files that
were begun but never recorded as filled are leftovers of a crash.
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
    """A file that grows. ``length`` bytes of it are committed."""

    key: str
    """The expanded path it belongs to."""

    length: int
    since: float
    """When it was begun, seconds since 1970."""

    shape: str = ""
    """What its columns are, where that matters (CSV)."""

    inode: int | None = None
    """Which file it was at the last commit; None until then."""

    created: bool = False
    """True when it did not exist before us."""


@dataclass(slots=True)
class Pending:
    """Committed events that wait in the state folder for their part."""

    key: str
    shape: str
    since: float
    header: int = 0
    """Bytes that each of the files begins with and the part has once."""

    bytes: int = 0
    files: list[str] = field(default_factory=list)
    part: str | None = None
    """The part they are about to become."""


@dataclass(slots=True)
class Ledger:
    """The record. `save` it before and after touching a file."""

    folder: str
    batches: dict[str, int] = field(default_factory=dict)
    files: dict[str, OutputFile] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    sequence: int = 0

    def holds(self, batch: BatchId) -> bool:
        """True when this micro-batch was committed before."""
        return batch.number <= self.batches.get(batch.query, -1)

    def next(self) -> int:
        """A number that no part of this sink has had."""
        self.sequence += 1
        return self.sequence

    def save(self) -> None:
        """Replace the record on disk, durably."""
        path = os.path.join(self.folder, NAME)
        record = {name: getattr(self, name) for name in ("batches", "sequence")}
        record["files"] = {name: {key: getattr(file, key) for key in _FILE} for name, file in self.files.items()}
        record["pending"] = [{key: getattr(pending, key) for key in _PENDING} for pending in self.pending]
        replace_file(path, json.dumps(record, ensure_ascii=True).encode())


_FILE, _PENDING = ([one.name for one in fields(kind)] for kind in (OutputFile, Pending))
"""Read one by one: `dataclasses.asdict` copies what is inside, a quarter of a commit of many files."""


def load(folder: str) -> Ledger:
    """The record in this folder, or an empty one."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        return Ledger(folder, **_typed(record))
    except FileNotFoundError:
        return Ledger(folder)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ComponentError(
            f"{path} does not hold what a file sink has committed ({error}); restore it, or move it away to begin anew: "
            "output behind the last commit then stays as it is"
        ) from error


def _typed(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "batches": {str(query): int(number) for query, number in record["batches"].items()},
        "sequence": int(record["sequence"]),
        "files": {name: OutputFile(**file) for name, file in record["files"].items()},
        "pending": [Pending(**pending) for pending in record["pending"]],
    }
