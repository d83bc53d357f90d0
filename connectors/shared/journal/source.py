"""A source that reads a journal: what all receivers have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa
from pydantic import PrivateAttr

from connectors.shared.journal.batches import event_starts
from connectors.shared.journal.journal_position import JournalPosition, find_batch_end
from connectors.shared.journal.reader import Journal
from etl.api import Backlog, Limit, Offset, ReceivingSource, Rejects, Split

_MIN_SPLIT_BYTES = 4 << 20
"""Smallest number of bytes for which a split of its own is worth its cost."""


class JournalSource(ReceivingSource):
    """Plans splits of the journal in its folder, and deletes what all sinks have."""

    _folder: str = PrivateAttr(default="")

    @abstractmethod
    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events at positions from ``start`` to ``end``; ``record`` is the begin of a record, not after ``start``."""

    def with_folder(self, folder: str) -> Self:
        """Return this source with the folder of its journal."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def start(self) -> Offset:
        """Return the begin of the journal."""
        return JournalPosition(Journal(self._folder).first).to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: the last event in the journal, or what the limit allows."""
        journal, begin = Journal(self._folder), JournalPosition.from_offset(start)
        return find_batch_end(journal, begin, limit, event_starts).to_offset()

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the events in the journal after the offset; those of a record that is read in part count all."""
        journal = Journal(self._folder)
        return Backlog(sum(span.events for span in journal.walk(JournalPosition.from_offset(after).record)))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the journal into equal parts that end where records do."""
        first, last = JournalPosition.from_offset(start), JournalPosition.from_offset(end)
        parts = Journal(self._folder).divide(first.record, last.at, parallelism, _MIN_SPLIT_BYTES)
        return [Split(self.type, max(a, first.at), b, a) for a, b in parts]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        return self.read_range(Journal(self._folder), split.detail, split.start, split.end)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Delete delivered segments."""
        Journal(self._folder).delete_before(min(JournalPosition.from_offset(end).record for end in ends))
