"""Stages the events of one split in a task, in one file for each expanded path."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from connectors.file.writing.disk_sync import write_back
from connectors.file.writing.encodings import Encoding
from connectors.shared.path_template import Template
from etl.api import ComponentError, Rejects, Result, Staged, Task, nest, visible, with_kind_field, with_kinds, write_advice
from etl.columns.texts import materialize

MAX_OPEN_FILES = 64
"""Maximum number of staged files that a writer holds open; beyond it the least recently used is closed."""

TOO_MANY_PATHS = "too-many-paths"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Part of a `Staged` output: the events of a split that belong to one expanded path."""

    key: str
    path: str
    bytes: int
    header: int
    """Number of bytes of the header."""

    shape: str
    """Files with different shapes are never joined."""


class StagingWriter:
    """Writer that divides batches by path and holds a bounded number of files open."""

    def __init__(
        self, task: Task, template: Template, encoding: Encoding, time_field: str | None, max_paths: int = 1 << 62
    ) -> None:
        if "://" in task.folder:
            raise ComponentError(
                f"the file sink needs a local or mounted folder for staging, not {task.folder}; set --state to one"
            )
        self.task, self.template, self.encoding, self.time_field = task, template, encoding, time_field
        self.max_paths = max_paths
        self.schema = visible(with_kind_field(task.schema) if encoding.changes == "kind" else task.schema)
        self.writes_views = encoding.format == "json" and not template.fields
        self.files: dict[str, Any] = {}
        self.open: OrderedDict[str, Any] = OrderedDict()
        self.events = 0

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event before compression, for JSON lines."""
        return self.encoding.sizes(with_kinds(batch) if self.encoding.changes == "kind" else batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write the whole batch or, with an OSError, nothing of it. Events of paths beyond ``max_paths`` are rejected."""
        if not batch.num_rows:
            return Result()
        batch = with_kinds(batch) if self.encoding.changes == "kind" else batch
        batch = batch if self.writes_views else materialize(batch)
        written: list[tuple[Any, int]] = []
        rejected: list[Rejects] = []
        try:
            for key, events in self.template.groups(batch, self.time_field):
                if key not in self.files and len(self.files) >= self.max_paths:
                    rejected.append(Rejects(events, TOO_MANY_PATHS, f"{key} would exceed max_paths, {self.max_paths:,}"))
                    continue
                file = self._file(key)
                written.append((file, file.length))
                file.write(events)
        except OSError:
            for file, length in written:
                file.truncate(length)
            raise
        self.events += batch.num_rows - sum(refused.events.num_rows for refused in rejected)
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Return the staged files, for the driver."""
        pieces = tuple(piece for file in self.files.values() for piece in file.finish())
        if not pieces:
            return None
        return Staged(self.task.folder, sum(piece.bytes for piece in pieces), self.events, pieces)

    def abort(self) -> None:
        """Close and remove the staged files."""
        for file in self.files.values():
            file.abandon()

    def _file(self, key: str) -> Any:
        file = self.files.get(key)
        if file is None:
            path = os.path.join(self.task.folder, f"{self.task.split}.{len(self.files)}{self.encoding.extension}")
            make = ParquetFile if self.encoding.format == "parquet" else AppendableFile
            file = self.files[key] = make(key, path, self.encoding, self.schema)
        self.open[key] = file
        self.open.move_to_end(key)
        if len(self.open) > MAX_OPEN_FILES:
            self.open.popitem(last=False)[1].suspend()
        return file


class AppendableFile:
    """JSON lines or CSV. Bytes after ``length`` belong to a failed write."""

    def __init__(self, key: str, path: str, encoding: Encoding, schema: pa.Schema) -> None:
        self.key, self.path, self.encoding = key, path, encoding
        self.header = encoding.header(schema)
        self.length = 0
        self.handle: int | None = None
        self.flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the encoded batch."""
        data = memoryview(self.encoding.encode(batch))
        if not self.length and self.header:
            self._write(memoryview(self.header))
        self._write(data)

    def truncate(self, length: int) -> None:
        """Drop what was written after ``length``."""
        self.length = length

    def suspend(self) -> None:
        """Close the file; the next write opens it again."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def finish(self) -> list[StagedFile]:
        """Close the file finally, truncated to its length."""
        self.suspend()
        if not self.length:
            return []
        if os.path.getsize(self.path) != self.length:
            os.truncate(self.path, self.length)
        return [StagedFile(self.key, self.path, self.length, len(self.header), shape(self.header))]

    def abandon(self) -> None:
        """Remove the file."""
        self.suspend()
        Path(self.path).unlink(missing_ok=True)

    def _write(self, data: memoryview) -> None:
        if self.handle is None:
            self.handle = os.open(self.path, self.flags, 0o644)
            self.flags &= ~os.O_TRUNC
        try:
            while data:
                put = os.pwrite(self.handle, data, self.length)
                write_back(self.handle, self.length, self.length + put)
                self.length += put
                data = data[put:]
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error


class ParquetFile:
    """Parquet, a row group for each batch. A failed write ends the task, because row groups cannot be removed."""

    length = 0

    def __init__(self, key: str, path: str, encoding: Encoding, schema: pa.Schema) -> None:
        self.key, self.path, self.encoding = key, path, encoding
        self.writer: Any = None
        self.mark = ""
        self.finished: list[StagedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a row group."""
        import pyarrow.parquet as pq

        events = nest(batch.select(visible(batch.schema).names))
        try:
            if self.writer is None:
                self.mark = shape(events.schema.serialize().to_pybytes())
                self.writer = pq.ParquetWriter(self._part(), events.schema, compression=self.encoding.compression)
            self.writer.write_batch(events)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def truncate(self, length: int) -> None:
        """Do nothing: a failed write has ended the task."""

    def suspend(self) -> None:
        """Write the footer; the next write begins another file."""
        if self.writer is None:
            return
        try:
            self.writer.close()
            part = self._part()
            self.finished.append(StagedFile(self.key, part, os.path.getsize(part), 0, self.mark))
        except OSError as error:
            raise _unwritable(self.path, error) from error
        finally:
            self.writer = None

    def finish(self) -> list[StagedFile]:
        """Close the file finally."""
        self.suspend()
        return self.finished

    def abandon(self) -> None:
        """Remove all files."""
        with suppress(OSError, ComponentError):
            self.suspend()
        for number in range(len(self.finished) + 1):
            Path(f"{self.path}.{number}").unlink(missing_ok=True)

    def _part(self) -> str:
        return f"{self.path}.{len(self.finished)}"


def _unwritable(path: str, error: OSError) -> ComponentError:
    return ComponentError(f"cannot stage {path}: {error}; nothing is lost: {write_advice(error)}, and start again")


def shape(description: bytes) -> str:
    """Return a short hash of a file's columns; empty if they do not matter."""
    return f"{zlib.crc32(description):08x}" if description else ""
