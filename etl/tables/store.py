"""Table files in a folder: the newest one of each table is in use, and who uses it sees a newer one when there is one.

A folder holds ``NNNNNN.table`` files and ``current.json``, which names the one in use and is replaced as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from etl.api import Table
from etl.tables.sections import BrokenError, Sections
from etl.tables.table import Built, Shape, build
from etl.tables.table import Table as Mapped

_CURRENT = "current.json"
LOOK_SECONDS = 0.5
"""How often a task looks whether there is a newer file."""


@dataclass(frozen=True)
class Wanted:
    """A table as a step asks for it; steps that ask for the same share a file."""

    name: str
    table: Table
    shape: Shape

    @property
    def id(self) -> str:
        """A name for its folder."""
        of = [self.table.model_dump_json(), repr(self.shape)]
        return f"{self.name}-{hashlib.sha256(chr(0).join(of).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Current:
    """The file in use: its name, the rows' version where the table has one, when it was built, and what went in."""

    file: str
    version: str | None
    built: float
    what: Built


def current(folder: Path) -> Current | None:
    """What `refresh` left in a folder."""
    try:
        known = json.loads((folder / _CURRENT).read_bytes())
        return Current(known["file"], known["version"], known["built"], Built(**known["what"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def refresh(wanted: Wanted, root: Path) -> tuple[Current, bool]:
    """Read the table and put it into use, unless its version says that nothing changed; and whether it was read.

    Raises what the table raises; the file in use stays then. One process at a time may do so.
    """
    folder = root / wanted.id
    folder.mkdir(parents=True, exist_ok=True)
    known = current(folder)
    version = wanted.table.version()
    if known is not None and version is not None and version == known.version and _is_whole(folder / known.file):
        return known, False
    file = f"{int(known.file.partition('.')[0]) + 1 if known else 1:06d}.table"
    shape = wanted.shape
    names = list(dict.fromkeys([*shape.key, *shape.columns.names]))
    built = build(folder / file, lambda: wanted.table.read(names), shape)
    made = Current(file, version, time.time(), built)
    temporary = folder / f"{_CURRENT}.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(made)))
    temporary.rename(folder / _CURRENT)
    _tidy(folder, {file, known.file if known else file})
    return made, True


def _is_whole(file: Path) -> bool:
    """Whether a file of a run before is still all there."""
    try:
        Sections(file)
    except (OSError, BrokenError):
        return False
    return True


def _tidy(folder: Path, kept: set[str]) -> None:
    """Remove files that no task can be about to open; who has mapped one keeps it."""
    for path in folder.iterdir():
        if path.name not in kept and path.name != _CURRENT:
            path.unlink(missing_ok=True)


class Live:
    """The table in use, in a task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked = 0.0
        self._file: str | None = None
        self._mapped: Mapped | None = None

    def mapped(self) -> Mapped:
        """The newest, mapped. Raises OSError where there is none."""
        if self._mapped is None or time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._look()
        assert self._mapped is not None
        return self._mapped

    def _look(self) -> None:
        known = current(self._folder)
        if known is None:
            if self._mapped is None:
                raise FileNotFoundError(f"there is no table in {self._folder}")
        elif known.file != self._file:
            self._map(known.file)

    def _map(self, file: str) -> None:
        try:
            self._mapped, self._file = Mapped(self._folder / file), file
        except (FileNotFoundError, BrokenError):  # replaced since we looked: the next look sees by what
            if self._mapped is None:
                raise


_made: dict[str, Any] = {}


def temporary(wanted: Wanted) -> Live:
    """The table, read now, in a folder that goes with this process: for steps that are tried outside of a run."""
    import tempfile

    if wanted.id not in _made:
        with ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(prefix="etl-tables-")
            undone.callback(folder.cleanup)
            refresh(wanted, Path(folder.name))
            undone.pop_all()
        _made[wanted.id] = folder
    return Live(Path(_made[wanted.id].name) / wanted.id)
