"""The versions of a table in its folder: refreshing it, and mapping the newest version in tasks while the run goes on.

A folder holds ``NNNNNN.table`` files and ``current.json``, which names the one in use and is replaced atomically. A table that
is read by its changes also has ``NNNNNN.rows``: all its rows as they were read.
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
from etl.tables.incremental_reading import SUFFIX, ReadProgress, RowsToBuild, plan_reading
from etl.tables.section_file import DamagedFileError, SectionFile
from etl.tables.table_file import MappedTable, Shape, TableCounts, build

log = logging.getLogger("sluice.tables")

_CURRENT = "current.json"
POLL_SECONDS = 0.5
"""Seconds between two checks of a task for a newer version."""


@dataclass(frozen=True)
class TableRequest:
    """A table with the columns and kind of matching that a step needs; steps with equal requests share a file."""

    name: str
    table: LookupTable
    shape: Shape

    @property
    def id(self) -> str:
        """The name of the table's folder."""
        of = [self.table.model_dump_json(), repr(self.shape)]
        return f"{self.name}-{hashlib.sha256(chr(0).join(of).encode()).hexdigest()[:12]}"


@runtime_checkable
class TableReader(Protocol):
    """A step that reads tables."""

    def table_requests(self) -> Iterable[TableRequest]:
        """The tables that the step reads."""


@dataclass(frozen=True)
class TableVersion:
    """The version in use: its file, the source's version of the rows if there is one, when it was built, and its counts.

    Stored as ``current.json`` under these field names; ``built`` is in seconds since 1970.
    """

    file: str
    version: str | None
    built: float
    what: TableCounts
    since: ReadProgress | None = None
    """Set for a table that is read by its changes."""


def read_version(folder: Path) -> TableVersion | None:
    """The version that `refresh` has put into use in a folder, or None."""
    try:
        known = json.loads((folder / _CURRENT).read_bytes())
        since = known.get("since")
        return TableVersion(
            known["file"],
            known["version"],
            known["built"],
            TableCounts(**known["what"]),
            ReadProgress(**since) if since else None,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def refresh(request: TableRequest, root: Path) -> tuple[TableVersion, bool]:
    """Read the table, or its changes, and put the new version into use. Returns the version in use and whether it is new.

    On an error of the table, which is raised, the version in use stays. Only one process at a time may call this.
    """
    folder = root / request.id
    folder.mkdir(parents=True, exist_ok=True)
    known = read_version(folder)
    before = folder / known.file if known and _is_whole(folder / known.file) else None
    shape = request.shape
    names = list(dict.fromkeys([*shape.key, *shape.columns.names]))
    newer = request.table.newer(names, known.version if known and before else None)
    if newer is None:
        assert known is not None
        return known, False
    file = f"{int(known.file.partition('.')[0]) + 1 if known else 1:06d}.table"
    rows: RowsToBuild | None = RowsToBuild(newer.read)
    if request.table.changes() is not None:
        rows = plan_reading(request.table, names, folder / file, before, known.since if known else None)
    if rows is None:
        assert known is not None
        return known, False
    built = build(folder / file, rows.batches, shape)
    if rows.id == shape.key and built.again:
        again = "1 row has a key" if built.again == 1 else f"{built.again:,} rows have keys"
        log.warning("%s that came before, and a row that changes replaces all of its key: tell them apart by `id`", again)
    if built.missing and rows.since is None and (location := newer.locate_row(built.first_row)):
        built = replace(built, first=f"{location}: {built.first}")
    made = TableVersion(file, newer.version, time.time(), built, rows.since)
    _switch_to(folder, made)
    _remove_old_files(folder, {file, Path(file).with_suffix(SUFFIX).name, known.file if known else file})
    return made, True


def _switch_to(folder: Path, made: TableVersion) -> None:
    replace_file(folder / _CURRENT, json.dumps(asdict(made)).encode(), sync_folder=False)


def has_usable_version(folder: Path) -> bool:
    """Whether a folder has a version that workers can use."""
    known = read_version(folder)
    return known is not None and _is_whole(folder / known.file)


def _is_whole(file: Path) -> bool:
    """Whether the file of an earlier run exists, has the format of this version, is complete and unchanged."""
    try:
        SectionFile(file).verify()
    except (OSError, DamagedFileError):
        return False
    return True


def _remove_old_files(folder: Path, used_names: set[str]) -> None:
    """Remove files that no task can still open; a process that has mapped one keeps its memory."""
    for path in folder.iterdir():
        if path.name not in used_names and path.name != _CURRENT:
            path.unlink(missing_ok=True)


class LiveTable:
    """A task's view of a table: always the newest version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._looked = 0.0
        self._file: str | None = None
        self._mapped: MappedTable | None = None

    def newest(self) -> MappedTable:
        """Map the newest version. Raises OSError if there is none."""
        if self._mapped is None or time.monotonic() - self._looked > POLL_SECONDS:
            self._looked = time.monotonic()
            self._check_for_newer()
        assert self._mapped is not None
        return self._mapped

    def _check_for_newer(self) -> None:
        known = read_version(self.folder)
        if known is None:
            if self._mapped is None:
                raise FileNotFoundError(f"there is no table in {self.folder}")
        elif known.file != self._file:
            self._map_file(known.file)

    def _map_file(self, file: str) -> None:
        try:
            self._mapped, self._file = MappedTable(self.folder / file), file
        except (FileNotFoundError, DamagedFileError):  # replaced after the check: the next check finds the new version
            if self._mapped is None:
                raise


_temporary_tables: dict[str, Any] = {}


def build_temporary(request: TableRequest) -> LiveTable:
    """Read the table now, into a folder that is removed with this process: for steps that run outside of a run, as in tests."""
    import tempfile

    if request.id not in _temporary_tables:
        with ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(prefix="etl-tables-")
            undone.callback(folder.cleanup)
            refresh(request, Path(folder.name))
            undone.pop_all()
        _temporary_tables[request.id] = folder
    return LiveTable(Path(_temporary_tables[request.id].name) / request.id)
