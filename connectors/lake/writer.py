"""Writes the events of one split to data files, which the driver's commit adds to the table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from connectors.lake.batch_fitting import BatchFitting
from connectors.lake.lake_table import TableLayout
from connectors.lake.parquet_files import Compression, ParquetFiles
from connectors.lake.partition_division import Key, divide_by_key
from etl.api import Result, SplitLostError, Staged, Task

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]")

_BEGUN = ".begun"
"""Extension of the files that list the data files which a task has begun."""


class LakeWriter:
    """Rows are buffered, so a failed write loses the split, which then runs again."""

    def __init__(self, task: Task, layout: TableLayout, compression: Compression) -> None:
        self.task, self.layout = task, layout
        self.fitting = BatchFitting(layout.schema, task.schema)
        self.files = ParquetFiles(
            layout.file_system, self._new_path, layout.stored(self.fitting.file_schema), compression, layout.column_options
        )
        self.events = 0
        self._number = 0
        self._attempt = uuid4().hex[:12]

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return None: what an event takes in Parquet is not known."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Buffer the rows of a batch and reject events that do not fit the table."""
        if not batch.num_rows:
            return Result()
        rows, rejected = self.fitting.fit(batch)
        with self._lost_on_error():
            for key, part in divide_by_key(rows, self.layout.partition_keys(rows)):
                if part.num_rows:
                    self.files.write(key, part)
        self.events += rows.num_rows
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Finish the files, and return what the commit adds to the table."""
        with self._lost_on_error():
            written = self.files.close()
        if not written:
            return None
        detail = tuple((file.path, self.layout.describe(file)) for file in written)
        return Staged(self.task.folder, sum(file.bytes for file in written), self.events, detail)

    def abort(self) -> None:
        """Remove the data files."""
        self.files.abort()

    @contextmanager
    def _lost_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SplitLostError(f"cannot write to the table: {error}") from error

    def _new_path(self, key: Key) -> str:
        """A path that no other attempt has: a micro-batch that runs again must not replace files of its first commit."""
        batch, split = self.task.batch, _UNSAFE_CHARACTERS.sub("_", self.task.split)[-40:]
        name = f"sluice-{batch.query[:8]}-{batch.number:08d}-{split}-{self._attempt}-{self._number}.parquet"
        self._number += 1
        path = self.layout.new_path(key, name)
        if "://" not in self.task.folder:
            with open(os.path.join(self.task.folder, f"{self._attempt}{_BEGUN}"), "a") as begun:
                begun.write(f"{path}\n")
        return path


def begun_paths(folders: Sequence[str]) -> set[str]:
    """Data files that tasks with these folders have begun, those of killed attempts included."""
    lists = [path for folder in folders if os.path.isdir(folder) for path in Path(folder).glob(f"*{_BEGUN}")]
    return {line for path in lists for line in path.read_text().splitlines()}


def staged_files(staged: Sequence[Staged]) -> Iterator[tuple[str, Any]]:
    """Paths of finished data files, and what the commit adds for each."""
    for output in staged:
        yield from output.detail
