"""A buffer that replays a task's input, which Spark hands over only once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from etl.delivery.spool_file import SpoolFile, batches

MEMORY_BYTES = 16 << 20
"""Bytes of batches held in memory; later batches go to a file."""


class ReplayBuffer:
    """Each iteration yields all batches from the first on: those read before, then the rest of the input.

    Memory: `MEMORY_BYTES`; further batches are in files, which `close` removes.
    """

    def __init__(self, input_: Iterator[pa.RecordBatch], path: Path) -> None:
        self._input = input_
        self._path = path
        self._in_memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[SpoolFile] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._in_memory
        for file in self._files:
            file.close()
            yield from batches(file.path)
        overflow: SpoolFile | None = None
        for batch in self._input:
            if self._bytes + batch.nbytes <= MEMORY_BYTES:
                self._in_memory.append(batch)
                self._bytes += batch.nbytes
            else:
                self._bytes = MEMORY_BYTES
                overflow = overflow or self._add_file()
                overflow.write(batch)
            yield batch

    def close(self) -> None:
        """Free the memory and remove the files."""
        self._in_memory.clear()
        for file in self._files:
            file.discard()

    def _add_file(self) -> SpoolFile:
        self._files.append(SpoolFile(self._path.with_name(f"{self._path.name}.{len(self._files)}")))
        return self._files[-1]
