"""A file of events: Arrow IPC streams, a new one after each change of the schema."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import ComponentError, write_advice

COMPRESSION = "lz4"


class SpoolFile:
    """Writes batches to a file until it is closed. Memory: one batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        self._stream: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch, which has no string views. Raises ComponentError."""
        try:
            if self._stream is None or not batch.schema.equals(self._stream_schema):
                self._begin(batch.schema)
            self._stream.write_batch(batch)
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Finish the file. Raises ComponentError."""
        try:
            self._end()
            if self._file is not None:
                self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ComponentError:
        return ComponentError(f"cannot write {self.path}: {error}; nothing is lost: {write_advice(error)}, and start again")

    def discard(self) -> None:
        """Remove the file."""
        with suppress(OSError, ComponentError):
            self.close()
        self.path.unlink(missing_ok=True)

    def _begin(self, schema: pa.Schema) -> None:
        self._end()
        if self._file is None:
            self._file = pa.OSFile(os.fspath(self.path), "wb")
        self._stream_schema = schema
        self._stream = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression=COMPRESSION))

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Read the batches of a `SpoolFile`, one at a time."""
    with pa.OSFile(os.fspath(path), "rb") as file:
        end = file.size()
        while file.tell() < end:
            with pa.ipc.open_stream(file) as stream:
                yield from stream
