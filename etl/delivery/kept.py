"""A task's input that comes only once, kept so that it can be gone through again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from etl.delivery.spool_file import SpoolFile, batches

MEMORY_BYTES = 16 << 20


class Kept:
    """Each iteration gives all batches from the first; the last one goes on where an earlier one broke off.

    Memory: 16 MiB; what is more lies in a file, which `close` removes.
    """

    def __init__(self, arriving: Iterator[pa.RecordBatch], path: Path) -> None:
        self._arriving = arriving
        self._path = path
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[SpoolFile] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._held
        for file in self._files:
            file.close()
            yield from batches(file.path)
        behind: SpoolFile | None = None
        for batch in self._arriving:
            if self._bytes + batch.nbytes <= MEMORY_BYTES:
                self._held.append(batch)
                self._bytes += batch.nbytes
            else:
                self._bytes = MEMORY_BYTES  # what follows is behind it
                behind = behind or self._further()
                behind.write(batch)
            yield batch

    def close(self) -> None:
        """Nobody goes through it again."""
        self._held.clear()
        for file in self._files:
            file.discard()

    def _further(self) -> SpoolFile:
        self._files.append(SpoolFile(self._path.with_name(f"{self._path.name}.{len(self._files)}")))
        return self._files[-1]
