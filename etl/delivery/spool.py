"""A sink's spool: events that it did not take, on disk, in the order of their micro-batches.

::

    detour            there while events go to the spool instead of to the sink
    ledger.json       {"id": …, "next": number of the next entry, "taken": {query: number of its last micro-batch}}
    NUMBER.json       an entry: one micro-batch, with its files in the order of delivery
    NUMBER-PLACE.arrow

The driver adds an entry when the micro-batch is committed, as it does with any staged output, and removes it when the sink
has it. An entry counts from its JSON on: files without one are of a run that was killed, and so of a micro-batch that will
be run again. A micro-batch that is in the spool, or was, is not taken a second time.
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
class Entry:
    """One micro-batch that waits."""

    number: int
    batch: BatchId
    items: tuple[Spooled, ...]


class SinkSpool:
    """A folder. Tasks look whether events go there; the driver alone changes it, but for `begin`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # ── Tasks ──

    @property
    def detour(self) -> bool:
        """Whether events go to the spool instead of to the sink."""
        return (self.folder / "detour").exists()

    def begin(self) -> None:
        """From now on they do, until the spool was empty once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "detour").touch()

    def bytes(self) -> int:
        """What it takes on disk."""
        if not self.folder.is_dir():
            return 0
        with os.scandir(self.folder) as files:
            return sum(_size(file) for file in files)

    # ── The driver ──

    def recover(self) -> None:
        """After a run that was perhaps killed: files that belong to no entry go, and the detour stays if there are entries."""
        if not self.folder.is_dir():
            return
        entries = list(self.entries())
        known = {Path(item.path).name for entry in entries for item in entry.items}
        for path in self.folder.glob("*.arrow"):
            if path.name not in known:
                path.unlink()
        for entry in entries:
            self._remember(entry.number, entry.batch)
        if not entries:
            self.end()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return next(self._numbers(), None) is None

    @property
    def waiting(self) -> int:
        """Events that wait."""
        return sum(item.events for entry in self.entries() for item in entry.items if Path(item.path).exists())

    def entries(self) -> Iterator[Entry]:
        """All that waits, in order."""
        return (self._entry(number) for number in sorted(self._numbers()))

    def first(self) -> Entry | None:
        """What is next."""
        number = min(self._numbers(), default=None)
        return None if number is None else self._entry(number)

    def holds(self, batch: BatchId) -> bool:
        """Whether this micro-batch is here, or was."""
        return bool(batch.number <= self._ledger()["taken"].get(batch.query, -1))

    def add(self, batch: BatchId, items: Sequence[Spooled]) -> None:
        """Take over the files of a micro-batch, durably."""
        self.begin()
        number = self._ledger()["next"]
        taken = [self._take(item, f"{number:012d}-{place}") for place, item in enumerate(items)]
        _sync_folder(self.folder)
        self._write(f"{number:012d}.json", {"query": batch.query, "batch": batch.number, "items": [_plain(i) for i in taken]})
        self._remember(number, batch)

    def remove(self, entry: Entry) -> None:
        """The sink has it."""
        self._path(entry.number).unlink()
        for item in entry.items:
            Path(item.path).unlink(missing_ok=True)

    def end(self) -> None:
        """Events go to the sink again."""
        (self.folder / "detour").unlink(missing_ok=True)

    @property
    def id(self) -> str:
        """Another one for every spool, for ledgers of others."""
        ledger = self._ledger()
        if not (self.folder / "ledger.json").exists():
            self._write("ledger.json", ledger)
        return str(ledger["id"])

    def _take(self, item: Spooled, name: str) -> Spooled:
        path = self.folder / f"{name}.arrow"
        os.rename(item.path, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return replace(item, path=str(path))

    def _remember(self, number: int, batch: BatchId) -> None:
        ledger = self._ledger()
        taken = {**ledger["taken"], batch.query: max(batch.number, ledger["taken"].get(batch.query, -1))}
        self._write("ledger.json", {**ledger, "next": max(number + 1, ledger["next"]), "taken": taken})

    def _numbers(self) -> Iterator[int]:
        return (int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.json"

    def _entry(self, number: int) -> Entry:
        path = self._path(number)
        data = self._read(path)
        try:
            items = tuple(_item(self.folder, each) for each in data["items"])
            return Entry(number, BatchId(data["query"], data["batch"]), items)
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(path, error) from error

    def _ledger(self) -> dict[str, Any]:
        path = self.folder / "ledger.json"
        if not path.exists():
            return {"id": uuid.uuid4().hex, "next": 0, "taken": {}}
        known = self._read(path)
        if not isinstance(known, dict) or not {"id", "next", "taken"} <= known.keys():
            raise self._damaged(path, "it is no ledger")
        return known

    def _read(self, path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise self._damaged(path, error) from error

    def _damaged(self, path: Path, why: object) -> ComponentError:
        return ComponentError(
            f"{path} cannot be read ({why}); restore it from a backup, or remove {self.folder}: its events are lost then"
        )

    def _write(self, name: str, value: Any) -> None:
        replace_file(self.folder / name, json.dumps(value).encode())


def discard(items: Iterable[Spooled]) -> None:
    """Remove files that go to no spool."""
    for item in items:
        Path(item.path).unlink(missing_ok=True)


def _plain(item: Spooled) -> dict[str, Any]:
    return {**asdict(item), "path": Path(item.path).name, "schema": b64encode(item.schema).decode()}


def _item(folder: Path, data: dict[str, Any]) -> Spooled:
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
