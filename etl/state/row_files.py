"""Rows of a step's state in files: what a task writes, and what the tasks of parts read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.state import ALWAYS, NEVER, PANE, Operator
from etl.state.manifest import StateFile

PARTS = 16
"""Parts of the state of a step."""

ROWS_IN_MEMORY = 1 << 19
"""Prepared rows of a task that are held before they are combined, and written where that makes them no fewer."""


def part_of(table: pa.Table, keys: tuple[str, ...]) -> np.ndarray:
    """int64[n]: the part of each row, by a hash of its keys."""
    from etl.columns.texts import Texts
    from etl.tables.hash_kernel import hash_numbers, hash_texts

    rows = len(table)
    mixed = np.zeros(rows, np.uint64)
    for name in keys:
        column = table.column(name).combine_chunks()
        hashes = np.empty(rows, np.uint64)
        if pa.types.is_integer(column.type):
            hash_numbers(pc.fill_null(column.cast(pa.int64()), -1).to_numpy(), hashes)
        else:
            texts = Texts.of(column.cast(pa.string()))
            hash_texts(texts.address, texts.length, hashes)
        mixed = mixed * np.uint64(31) + hashes
    return (mixed >> np.uint64(33)).astype(np.int64) % PARTS


class RowWriter:
    """Writes the prepared rows of one task."""

    def __init__(self, operator: Operator, folder: Path, name: str, watermark: int = NEVER) -> None:
        self._operator, self._folder, self._name, self._watermark = operator, folder, name, watermark
        self._held: list[pa.Table] = []
        self._rows = 0
        self._files: list[StateFile] = []
        self.late = 0

    def add(self, events: pa.RecordBatch) -> None:
        """Prepare events."""
        rows, late = self._operator.prepare(events, self._watermark)
        self.late += late
        self.add_rows(rows)

    def add_rows(self, rows: pa.Table) -> None:
        """Add prepared rows."""
        if len(rows):
            self._held.append(rows)
            self._rows += len(rows)
        if self._rows > ROWS_IN_MEMORY:
            self._combine()
            if self._rows > ROWS_IN_MEMORY // 2:
                self._write()

    def clear(self) -> None:
        """Begin again: files that were written are written again."""
        self._held, self._rows, self._files, self.late = [], 0, [], 0

    def close(self) -> tuple[StateFile, ...]:
        """Write what is held; returns the files."""
        if self._held:
            self._combine()
            self._write()
        return tuple(self._files)

    def _combine(self) -> None:
        self._held = [self._operator.combine(pa.concat_tables(self._held))]
        self._rows = len(self._held[0])

    def _write(self) -> None:
        name = f"{self._name}-{len(self._files)}"
        self._files.append(write_rows(self._folder / name, self._held[0], self._operator.keys))
        self._held, self._rows = [], 0


def write_rows(path: Path, table: pa.Table, keys: tuple[str, ...]) -> StateFile:
    """Write prepared rows as a file, a record batch for each part and pane."""
    panes, parts = table.column(PANE).to_numpy(), part_of(table, keys)
    order = np.lexsort((panes, parts))
    table, panes, parts = table.take(pa.array(order)).combine_chunks(), panes[order], parts[order]
    found = list(_runs(panes, parts))
    schema = table.schema.with_metadata({"runs": json.dumps([run[:2] for run in found])})
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.tmp", "wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for _, _, first, end in found:
                writer.write_table(table.slice(first, end - first), max_chunksize=1 << 30)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)
    return StateFile(path.name, int(panes.min()), int(panes.max()), len(table))


def _runs(panes: np.ndarray, parts: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    at = np.flatnonzero((np.diff(panes) != 0) | (np.diff(parts) != 0)) + 1
    for a, b in zip([0, *at], [*at, len(panes)], strict=True):
        yield int(parts[a]), int(panes[a]), int(a), int(b)


class RowFile:
    """A file of prepared rows, mapped."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        self._runs = {tuple(run): number for number, run in enumerate(json.loads(self._file.schema.metadata[b"runs"]))}

    def tables(self, part: int, first: int, end: int) -> Iterator[pa.Table]:
        """The rows of a part with ``first <= pane < end``."""
        for (p, pane), number in self._runs.items():
            if p == part and first <= pane < end:
                yield pa.Table.from_batches([self._file.get_batch(number)]).replace_schema_metadata(None)


class PartOfFiles:
    """The rows of one part in several files."""

    def __init__(self, files: Sequence[RowFile], part: int) -> None:
        self._files, self._part = files, part

    def tables(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file and pane."""
        return [table for file in self._files for table in file.tables(self._part, first, end)]


class RowFolder:
    """The state files of a folder, each mapped once."""

    def __init__(self, folder: Path, files: Sequence[StateFile]) -> None:
        self._folder, self._names = folder, [file.name for file in files]

    @cached_property
    def _files(self) -> list[RowFile]:
        return [RowFile(self._folder / name) for name in self._names]

    def part(self, number: int) -> PartOfFiles:
        """The rows of one part."""
        return PartOfFiles(self._files, number)
