"""A sink's spool: events on disk that the sink has not accepted yet, in the order of their micro-batches.

::

    detour            there while events go to the spool instead of to the sink
    ledger.json       {"id": …, "next": number of the next entry, "taken": {query: number of its last micro-batch}}
    NUMBER.json       an entry: one micro-batch, with its files in the order of delivery
    NUMBER-PLACE.arrow

The driver adds an entry when it commits the micro-batch, like any staged output, and removes it when the sink has the events.
An entry exists from the moment its JSON file does: Arrow files without one come from a killed run, which will run that
micro-batch again. A micro-batch that is or was in the spool is not added a second time.
"""

from __future__ import annotations

import json
import os
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from etl.api import BatchId, ComponentError, replace_file
from etl.receipts import Spooled


@dataclass(frozen=True)
class SpoolEntry:
    """One micro-batch in the spool."""

    number: int
    batch: BatchId
    items: tuple[Spooled, ...]


class SinkSpool:
    """The spool's folder. Tasks only check `is_active` and call `activate`; the driver makes all other changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # ── Tasks ──

    @property
    def is_active(self) -> bool:
        """Whether events go to the spool instead of the sink."""
        return (self.folder / "detour").exists()

    def activate(self) -> None:
        """Send events to the spool from now on, until it has been emptied."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "detour").touch()

    def bytes(self) -> int:
        """Bytes on disk."""
        if not self.folder.is_dir():
            return 0
        with os.scandir(self.folder) as files:
            return sum(_size(file) for file in files)

    # ── The driver ──

    def recover(self) -> None:
        """Repair the spool after a killed run: remove files without an entry, and deactivate a spool without entries."""
        if not self.folder.is_dir():
            return
        entries = list(self.entries())
        known = {Path(item.path).name for entry in entries for item in entry.items}
        for path in self.folder.glob("*.arrow"):
            if path.name not in known:
                path.unlink()
        for entry in entries:
            self._record(entry.number, entry.batch)
        if not entries:
            self.deactivate()

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return next(self._numbers(), None) is None

    @property
    def pending_events(self) -> int:
        """Number of events in all entries."""
        return sum(item.events for entry in self.entries() for item in entry.items if Path(item.path).exists())

    def entries(self) -> Iterator[SpoolEntry]:
        """All entries, in order."""
        return (self._entry(number) for number in sorted(self._numbers()))

    def first_entry(self) -> SpoolEntry | None:
        """The oldest entry, or None."""
        number = min(self._numbers(), default=None)
        return None if number is None else self._entry(number)

    def has_batch(self, batch: BatchId) -> bool:
        """Whether this micro-batch is or was in the spool."""
        return bool(batch.number <= self._ledger()["taken"].get(batch.query, -1))

    def add(self, batch: BatchId, items: Sequence[Spooled]) -> None:
        """Move the files of a micro-batch into the spool, durably (fsync)."""
        self.activate()
        number = self._ledger()["next"]
        moved = [self._move_in(item, f"{number:012d}-{index}") for index, item in enumerate(items)]
        _sync_folder(self.folder)
        self._write(f"{number:012d}.json", {"query": batch.query, "batch": batch.number, "items": [_to_json(i) for i in moved]})
        self._record(number, batch)

    def remove(self, entry: SpoolEntry) -> None:
        """Remove an entry whose events the sink has."""
        self._path(entry.number).unlink()
        for item in entry.items:
            Path(item.path).unlink(missing_ok=True)

    def deactivate(self) -> None:
        """Send events to the sink again."""
        (self.folder / "detour").unlink(missing_ok=True)

    @property
    def id(self) -> str:
        """A unique id of this spool, which sinks put into their ledgers."""
        ledger = self._ledger()
        if not (self.folder / "ledger.json").exists():
            self._write("ledger.json", ledger)
        return str(ledger["id"])

    def _move_in(self, item: Spooled, name: str) -> Spooled:
        path = self.folder / f"{name}.arrow"
        os.rename(item.path, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return replace(item, path=str(path))

    def _record(self, number: int, batch: BatchId) -> None:
        ledger = self._ledger()
        taken = {**ledger["taken"], batch.query: max(batch.number, ledger["taken"].get(batch.query, -1))}
        self._write("ledger.json", {**ledger, "next": max(number + 1, ledger["next"]), "taken": taken})

    def _numbers(self) -> Iterator[int]:
        return (int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.json"

    def _entry(self, number: int) -> SpoolEntry:
        path = self._path(number)
        data = self._read(path)
        try:
            items = tuple(_from_json(self.folder, each) for each in data["items"])
            return SpoolEntry(number, BatchId(data["query"], data["batch"]), items)
        except (KeyError, TypeError, ValueError) as error:
            raise self._make_damage_error(path, error) from error

    def _ledger(self) -> dict[str, Any]:
        path = self.folder / "ledger.json"
        if not path.exists():
            return {"id": uuid.uuid4().hex, "next": 0, "taken": {}}
        known = self._read(path)
        if not isinstance(known, dict) or not {"id", "next", "taken"} <= known.keys():
            raise self._make_damage_error(path, "it is not a ledger")
        return known

    def _read(self, path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise self._make_damage_error(path, error) from error

    def _make_damage_error(self, path: Path, why: object) -> ComponentError:
        return ComponentError(
            f"{path} cannot be read ({why}); restore it from a backup, or remove {self.folder}: its events are lost then"
        )

    def _write(self, name: str, value: Any) -> None:
        replace_file(self.folder / name, json.dumps(value).encode())


def discard_files(items: Iterable[Spooled]) -> None:
    """Remove files that are not needed for a spool."""
    for item in items:
        Path(item.path).unlink(missing_ok=True)


def _to_json(item: Spooled) -> dict[str, Any]:
    return {**asdict(item), "path": Path(item.path).name, "schema": b64encode(item.schema).decode()}


def _from_json(folder: Path, data: dict[str, Any]) -> Spooled:
    return Spooled(**{**data, "path": str(folder / data["path"]), "schema": b64decode(data["schema"])})


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:  # drained meanwhile
        return 0


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
