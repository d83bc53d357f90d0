"""Batches that may have to be written again: in memory up to a limit, then in an unnamed temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa

MAX_MEMORY_BYTES = 64 << 20
"""Bytes of batches held in memory."""


@dataclass
class WrittenBatches:
    """Batches in the order in which they were added, each with a label."""

    _items: list[tuple[int, pa.RecordBatch | tuple[int, int]]] = field(default_factory=list)
    _bytes: int = 0
    _file: IO[bytes] | None = None

    def add(self, label: int, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        if self._bytes + batch.nbytes <= MAX_MEMORY_BYTES:
            self._bytes += batch.nbytes
            self._items.append((label, batch))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this value
        at = self._file.seek(0, 2)
        with pa.ipc.new_stream(self._file, batch.schema) as writer:
            writer.write_batch(batch)
        self._items.append((label, (at, self._file.tell() - at)))

    def close(self) -> None:
        """Drop all batches."""
        self._items.clear()
        if self._file is not None:
            self._file.close()

    def __iter__(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        for label, item in self._items:
            yield label, self._read(*item) if isinstance(item, tuple) else item

    def _read(self, at: int, length: int) -> pa.RecordBatch:
        assert self._file is not None
        self._file.seek(at)
        return pa.ipc.open_stream(self._file.read(length)).read_next_batch()
