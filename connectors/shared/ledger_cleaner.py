"""Deletes entries of the ledgers of exactly-once sinks that have one entry for each split."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import BatchId, Staged, replace_file


@dataclass
class LedgerCleaner:
    """Committer that deletes entries no longer needed, whose names are the details of what tasks have staged.

    ``folder`` stores which entries are to be deleted: those of a micro-batch when the next one is committed, because until then
    it may have to be written again.
    """

    delete: Callable[[Sequence[str]], None]
    folder: str
    _pending: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with suppress(
            FileNotFoundError, ValueError, TypeError, AttributeError
        ):  # a damaged file only means that some entries expire instead of being deleted
            self._pending = {query: (number, names) for query, (number, names) in json.loads(self._path.read_text()).items()}

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Store the entries of this micro-batch, and delete those of the one before."""
        number, names = self._pending.get(batch.query, (batch.number, []))
        mine = [one.detail for one in staged]
        if batch.number > number:
            if names:
                self.delete(names)
        elif names:
            mine = list(dict.fromkeys([*names, *mine]))
        if mine or names:
            self._pending[batch.query] = (batch.number, mine)
            self._save()

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Leave the last entries: the last micro-batch may be written again."""

    def _save(self) -> None:
        replace_file(self._path, json.dumps(self._pending).encode(), sync_folder=False)

    @property
    def _path(self) -> Path:
        return Path(self.folder) / "ledger.json"
