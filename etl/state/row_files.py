"""Rows of a step's state in files: what a task writes, and what the tasks of parts read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import (
    ALWAYS,
    NEVER,
    PANE,
    DroppedEvents,
    DropsRows,
    EmitProgress,
    LooksUpKeys,
    Operator,
    PartRows,
    TracksEmitProgress,
)
from etl.state.key_hash import HASH, HASH2, key_hashes, part_of
from etl.state.manifest import Manifests, StateFileEntry
from etl.state.state_file_writer import write_state_file
from etl.state.state_files import StateFile, open_state_file

ROWS_IN_MEMORY = 1 << 19
"""Prepared rows of a task that are held before they are combined, and written where that makes them not much fewer."""

BYTES_IN_MEMORY = 64 << 20
"""Bytes of such rows, where they are large. Combining and sorting takes up to eight times as much: a task that reads keys of 1 MB
has 0.6 GB at its peak; with four times as many bytes it had 1.6 GB, and took longer."""


NO_EMIT_PROGRESS = EmitProgress()
"""Before the first micro-batch."""


class RowWriter:
    """Writes the prepared rows of one task, a file for each half a million of them or 64 MiB."""

    def __init__(
        self, operator: Operator, state: Manifests, name: str, watermark: int = NEVER, emission: EmitProgress = NO_EMIT_PROGRESS
    ) -> None:
        """``watermark`` and ``emission`` are those before the micro-batch."""
        self._operator, self._state, self._name, self._watermark, self._emission = operator, state, name, watermark, emission
        self.clear()

    def clear(self) -> None:
        """Begin again: files that were written are written again."""
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._files: list[StateFileEntry] = []
        self.late = self.dropped = 0

    def add(self, events: pa.RecordBatch) -> None:
        """Prepare events."""
        operator = self._operator
        if isinstance(operator, TracksEmitProgress):
            rows, late = operator.prepare_after(events, self._watermark, self._emission)
        else:
            rows, late = operator.prepare(events, self._watermark)
        self.late += late
        self.add_rows(self._operator.combine(self._with_hashes(rows)) if self._operator.hashed else rows)

    def add_to_state(self, found: pa.Table | DroppedEvents) -> None:
        """Add rows that an operator remembers, or count events that it dropped."""
        if isinstance(found, DroppedEvents):
            self.dropped += found.events
        else:
            self.add_rows(found)

    def add_rows(self, rows: pa.Table) -> None:
        """Add prepared rows."""
        if len(rows):
            self._held.append(rows)
            self._rows += len(rows)
            self._bytes += rows.nbytes
        if self._rows > ROWS_IN_MEMORY or self._bytes > BYTES_IN_MEMORY:
            self._combine()
            if self._rows > ROWS_IN_MEMORY // 2 or self._bytes > BYTES_IN_MEMORY // 2:
                self._write()

    def close(self) -> tuple[StateFileEntry, ...]:
        """Write what is held; returns all files."""
        if self._held:
            self._combine()
            self._write()
        return tuple(self._files)

    def _combine(self) -> None:
        if len(self._held) > 1:
            self._held = [self._operator.combine(pa.concat_tables(self._held, promote_options="default"))]
            self._rows, self._bytes = len(self._held[0]), self._held[0].nbytes

    def _with_hashes(self, rows: pa.Table) -> pa.Table:
        hashes = key_hashes(rows, self._operator.keys, self._state.seed)
        return rows.append_column(HASH, pa.array(hashes[0])).append_column(HASH2, pa.array(hashes[1]))

    def _write(self) -> None:
        name, rows = f"{self._name}-{len(self._files)}", self._held[0]
        if HASH in rows.column_names:
            hashes = np.stack([rows.column(half).to_numpy() for half in (HASH, HASH2)])
        else:
            hashes = key_hashes(rows, self._operator.keys, self._state.seed)
            rows = rows.append_column(HASH, pa.array(hashes[0])) if is_indexed(self._operator) else rows
        panes = rows.column(PANE).to_numpy()
        entry = write_state_file(self._state.folder / name, rows, part_of(hashes), panes, self._state.durable)
        if entry is not None:
            self._files.append(entry)
        self._held, self._rows, self._bytes = [], 0, 0


def is_indexed(operator: Operator) -> bool:
    """Whether rows are stored with hashes that the operator itself does not see."""
    return isinstance(operator, LooksUpKeys) and operator.indexed and not operator.hashed


def combined(operator: Operator, rows: pa.Table, seed: int, watermark: int = NEVER) -> pa.Table:
    """Those rows of state files that are needed at this watermark combined, with their hashes."""
    found = operator.combine(operator.remaining(rows, watermark) if isinstance(operator, DropsRows) else rows)
    if not is_indexed(operator):
        return found
    plain = found.drop_columns([HASH]) if HASH in found.column_names else found
    return plain.append_column(HASH, pa.array(key_hashes(plain, operator.keys, seed)[0]))


def open_entry(folder: Path, entry: StateFileEntry) -> StateFile:
    """The file that a manifest or a receipt names. Raises DamagedStateError, also for another file of this name."""
    file = open_state_file(folder / entry.name)
    file.check(entry.rows, entry.bytes, entry.checksum)
    return file


class PartsOfFiles:
    """The rows of some parts in several files."""

    def __init__(self, files: Sequence[StateFile], parts: Sequence[int]) -> None:
        self._files, self._parts = files, parts

    def tables(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file, part and pane."""
        return [table for file in self._files for part in self._parts for table in file.tables(part, first, end)]

    def in_order(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file and part, in the order of their panes."""
        found = (file.slice(part, first, end) for file in self._files for part in self._parts)
        return [table for table in found if len(table)]

    def of_keys(self, others: PartRows, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end`` and keys of other rows: all rows of files without hashes."""
        assert isinstance(others, PartsOfFiles)
        hashes = {part: found for part in self._parts if len(found := others._hashes(part))}
        return [table for file in self._files for table in file.rows_of_keys(hashes, first, end)] if hashes else []

    def of_hashes(self, hashes: Any, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end`` and these hashes: all rows of files without hashes."""
        wanted = dict.fromkeys(self._parts, hashes)
        return [table for file in self._files for table in file.rows_of_keys(wanted, first, end)] if len(hashes) else []

    def _hashes(self, part: int) -> Any:
        """uint64[n]: the distinct hashes of a part's rows, sorted. Only for rows with hashes."""
        parts = [file.part(part) for file in self._files if part in file.parts]
        return np.unique(np.concatenate([rows.column(HASH).to_numpy() for rows in parts])) if parts else ()


class MappedStateFiles:
    """State files of one folder, each mapped into memory once, when the first part is read."""

    def __init__(self, folder: Path, files: Sequence[StateFileEntry]) -> None:
        self._folder, self._entries = folder, files

    @cached_property
    def _files(self) -> list[StateFile]:
        return [open_entry(self._folder, entry) for entry in self._entries]

    def parts(self, *numbers: int) -> PartsOfFiles:
        """The rows of some parts."""
        return PartsOfFiles(self._files, numbers)
