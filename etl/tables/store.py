"""Table files in a folder: the newest one of each table is in use, and who uses it sees a newer one when there is one.

A folder holds ``NNNNNN.table`` files and ``current.json``, which names the one in use and is replaced as a whole; of a table
that is read by its changes also ``NNNNNN.rows``, its rows as they were read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from etl.api import LookupTable, replace_file
from etl.tables.increments import SUFFIX, Reading, Since, reading
from etl.tables.sections import BrokenError, Sections
from etl.tables.table import Built, MappedTable, Shape, build

log = logging.getLogger("sluice.tables")

_CURRENT = "current.json"
LOOK_SECONDS = 0.5
"""How often a task looks whether there is a newer file."""


@dataclass(frozen=True)
class Wanted:
    """A table as a step asks for it; steps that ask for the same share a file."""

    name: str
    table: LookupTable
    shape: Shape

    @property
    def id(self) -> str:
        """A name for its folder."""
        of = [self.table.model_dump_json(), repr(self.shape)]
        return f"{self.name}-{hashlib.sha256(chr(0).join(of).encode()).hexdigest()[:12]}"


@runtime_checkable
class ReadsTables(Protocol):
    """A step that reads tables."""

    def wanted(self) -> Iterable[Wanted]:
        """What it needs of them."""


@dataclass(frozen=True)
class Current:
    """The file in use: its name, the rows' version where the table has one, when it was built, and what went in."""

    file: str
    version: str | None
    built: float
    what: Built
    since: Since | None = None
    """Of a table that is read by its changes."""


def current(folder: Path) -> Current | None:
    """What `refresh` left in a folder."""
    try:
        known = json.loads((folder / _CURRENT).read_bytes())
        since = known.get("since")
        return Current(known["file"], known["version"], known["built"], Built(**known["what"]), Since(**since) if since else None)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def refresh(wanted: Wanted, root: Path) -> tuple[Current, bool]:
    """Read the table, or what changed in it, and put it into use, unless nothing changed; and whether something did.

    Raises what the table raises; the file in use stays then. One process at a time may do so.
    """
    folder = root / wanted.id
    folder.mkdir(parents=True, exist_ok=True)
    known = current(folder)
    before = folder / known.file if known and _is_whole(folder / known.file) else None
    shape = wanted.shape
    names = list(dict.fromkeys([*shape.key, *shape.columns.names]))
    newer = wanted.table.newer(names, known.version if known and before else None)
    if newer is None:
        assert known is not None
        return known, False
    file = f"{int(known.file.partition('.')[0]) + 1 if known else 1:06d}.table"
    rows: Reading | None = Reading(newer.read)
    if wanted.table.changes() is not None:
        rows = reading(wanted.table, names, folder / file, before, known.since if known else None)
    if rows is None:
        assert known is not None
        return known, False
    built = build(folder / file, rows.batches, shape)
    if rows.id == shape.key and built.again:
        again = "1 row has a key" if built.again == 1 else f"{built.again:,} rows have keys"
        log.warning("%s that came before, and a row that changes replaces all of its key: tell them apart by `id`", again)
    if built.missing and rows.since is None and (place := newer.place(built.first_row)):
        built = replace(built, first=f"{place}: {built.first}")
    made = Current(file, newer.version, time.time(), built, rows.since)
    _use(folder, made)
    _tidy(folder, {file, Path(file).with_suffix(SUFFIX).name, known.file if known else file})
    return made, True


def _use(folder: Path, made: Current) -> None:
    replace_file(folder / _CURRENT, json.dumps(asdict(made)).encode(), sync_folder=False)


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
        self.folder = folder
        self._looked = 0.0
        self._file: str | None = None
        self._mapped: MappedTable | None = None

    def mapped(self) -> MappedTable:
        """The newest, mapped. Raises OSError where there is none."""
        if self._mapped is None or time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._look()
        assert self._mapped is not None
        return self._mapped

    def _look(self) -> None:
        known = current(self.folder)
        if known is None:
            if self._mapped is None:
                raise FileNotFoundError(f"there is no table in {self.folder}")
        elif known.file != self._file:
            self._map(known.file)

    def _map(self, file: str) -> None:
        try:
            self._mapped, self._file = MappedTable(self.folder / file), file
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
