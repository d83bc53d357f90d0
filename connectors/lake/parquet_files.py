"""Data files of one split: Parquet, with bounded buffers, one open file for each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from connectors.lake.batch_fitting import nested_rows
from connectors.lake.partition_division import Key

Compression = Literal["zstd", "snappy", "none"]

ROW_GROUP_BYTES = 64 << 20
"""Bytes in Arrow from which the buffered rows of a file become a row group."""

MAX_BUFFERED_BYTES = 128 << 20
"""Bytes in Arrow that all files of a task buffer together; beyond it the largest buffer becomes a row group."""

MAX_FILE_ROW_GROUPS = 16
"""Row groups after which the next file begins: about 1 GiB of rows in Arrow."""

MAX_OPEN_FILES = 64
"""Maximum number of files that a task writes at the same time; the one with the most rows is finished for the next."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished data file. ``metadata`` is its Parquet footer."""

    path: str
    """Path in the table's file system."""
    key: Key
    bytes: int
    rows: int
    metadata: Any


@dataclass(slots=True)
class _OpenFile:
    key: Key
    buffered: list[pa.RecordBatch] = field(default_factory=list)
    buffered_bytes: int = 0
    path: str = ""
    sink: Any = None
    writer: Any = None
    schema: pa.Schema | None = None
    row_groups: int = 0
    rows: int = 0


class ParquetFiles:
    """Writes flat rows of partitions to files. An OSError means that rows are lost: the split has to be written again."""

    def __init__(
        self,
        file_system: Any,
        new_path: Callable[[Key], str],
        schema: pa.Schema,
        compression: Compression,
        column_options: Mapping[str, Any] | None = None,
        nested: bool = False,
    ) -> None:
        self.file_system, self.new_path, self.schema = file_system, new_path, schema
        self.compression = compression
        self.column_options = column_options or {}
        self.nested = nested
        """Whether rows come with their structs."""
        self.open: dict[Key, _OpenFile] = {}
        self.finished: list[WrittenFile] = []
        self.begun: list[str] = []
        """Paths of all files that were begun."""
        self.buffered_bytes = 0

    def write(self, key: Key, rows: pa.RecordBatch) -> None:
        """Buffer rows, and write row groups when limits are reached."""
        file = self.open.get(key)
        if file is None:
            if len(self.open) >= MAX_OPEN_FILES:
                self._finish(max(self.open.values(), key=lambda one: one.rows + one.buffered_bytes))
            file = self.open[key] = _OpenFile(key)
        size = rows.nbytes
        file.buffered.append(rows)
        file.buffered_bytes += size
        self.buffered_bytes += size
        if file.buffered_bytes >= ROW_GROUP_BYTES:
            self._write_row_group(file)
        while self.buffered_bytes > MAX_BUFFERED_BYTES:
            self._write_row_group(max(self.open.values(), key=lambda one: one.buffered_bytes))

    def close(self) -> Sequence[WrittenFile]:
        """Finish all files."""
        for file in list(self.open.values()):
            self._finish(file)
        return self.finished

    def abort(self) -> None:
        """Remove all files."""
        for file in self.open.values():
            for closing in (file.writer, file.sink):
                with suppress(Exception):
                    if closing is not None:
                        closing.close()
        for path in self.begun:
            with suppress(OSError):
                self.file_system.delete_file(path)

    def _write_row_group(self, file: _OpenFile) -> None:
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(
            file.buffered if self.nested else [nested_rows(rows, self.schema) for rows in file.buffered]
        )
        if file.writer is not None and file.schema != table.schema:
            raise ValueError(f"row groups of {file.path} have different columns")  # batches of a split have one schema
        if file.writer is None:
            file.path, file.schema = self.new_path(file.key), table.schema
            self.begun.append(file.path)
            if self.file_system.type_name in ("local", "subtree"):
                self.file_system.create_dir(file.path.rpartition("/")[0], recursive=True)
            file.sink = self.file_system.open_output_stream(file.path)
            file.writer = pq.ParquetWriter(
                file.sink,
                table.schema,
                compression=self.compression,
                store_schema=False,
                write_page_index=False,
                **self.column_options,
            )
        file.writer.write_table(table, row_group_size=max(table.num_rows, 1))
        file.rows += table.num_rows
        file.row_groups += 1
        self.buffered_bytes -= file.buffered_bytes
        file.buffered, file.buffered_bytes = [], 0
        if file.row_groups >= MAX_FILE_ROW_GROUPS:
            self._finish(file)

    def _finish(self, file: _OpenFile) -> None:
        """Write the rest and the footer; the next rows of the partition begin another file."""
        if file.buffered:
            self._write_row_group(file)
        if self.open.get(file.key) is not file:
            return  # its last row group has finished it
        del self.open[file.key]
        if file.writer is None:
            return
        file.writer.close()
        size = file.sink.tell()
        file.sink.close()
        self.finished.append(WrittenFile(file.path, file.key, size, file.rows, file.writer.writer.metadata))
