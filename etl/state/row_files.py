"""Rows of a step's state in files: what a task writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from etl.api import (
    NEVER,
    PANE,
    ComponentError,
    DroppedEvents,
    DropsRows,
    EmitProgress,
    LooksUpKeys,
    Operator,
    PreparedEvents,
    Rejects,
    RejectsEvents,
    TracksEmitProgress,
)
from etl.state.aggregates.accumulator import FailedRowsError
from etl.state.aggregates.groups import split_failed_rows
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
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._files: list[StateFileEntry] = []
        self.late = self.dropped = 0

    def add(self, events: pa.RecordBatch) -> Sequence[Rejects]:
        """Prepare events. Returns those that the operator rejects."""
        prepared = self._prepare(events)
        self.late += prepared.late
        rows = prepared.rows
        self.add_rows(self._operator.combine(self._with_hashes(rows)) if self._operator.hashed else rows)
        return prepared.rejects

    def add_accepted(self, events: pa.RecordBatch) -> None:
        """Prepare events where there are no dead letters. Raises ComponentError for one that the operator rejects."""
        for rejects in self.add(events):
            reasons = rejects.reasons
            raise ComponentError(reasons if isinstance(reasons, str) else str(reasons[0]))

    def _prepare(self, events: pa.RecordBatch) -> PreparedEvents:
        operator = self._operator
        if isinstance(operator, RejectsEvents):
            return operator.prepare_or_reject(events, self._watermark, self._emission)
        if isinstance(operator, TracksEmitProgress):
            return PreparedEvents(*operator.prepare_after(events, self._watermark, self._emission))
        rejects: list[Rejects] = []
        while True:
            try:
                return PreparedEvents(*operator.prepare(events, self._watermark), rejects)
            except FailedRowsError as error:
                passes, rejected = split_failed_rows(events, error)
                rejects.append(rejected)
                events = events.filter(passes)

    def add_to_state(self, found: pa.Table | DroppedEvents) -> None:
        """Add rows that an operator remembers, or count events that it dropped."""
        if isinstance(found, DroppedEvents):
            self.dropped += found.events
        else:
            self.add_rows(found)

    def add_rows(self, rows: pa.Table) -> None:
        """Add prepared rows."""
        if len(rows):
            self._pending.append(rows)
            self._rows += len(rows)
            self._bytes += rows.nbytes
        if self._rows > ROWS_IN_MEMORY or self._bytes > BYTES_IN_MEMORY:
            self._combine()
            if self._rows > ROWS_IN_MEMORY // 2 or self._bytes > BYTES_IN_MEMORY // 2:
                self._write()

    def close(self) -> tuple[StateFileEntry, ...]:
        """Write what is held; returns all files."""
        if self._pending:
            self._combine()
            self._write()
        return tuple(self._files)

    def _combine(self) -> None:
        if len(self._pending) > 1:
            self._pending = [self._operator.combine(pa.concat_tables(self._pending, promote_options="default"))]
            self._rows, self._bytes = len(self._pending[0]), self._pending[0].nbytes

    def _with_hashes(self, rows: pa.Table) -> pa.Table:
        hashes = key_hashes(rows, self._operator.keys, self._state.seed)
        return rows.append_column(HASH, pa.array(hashes[0])).append_column(HASH2, pa.array(hashes[1]))

    def _write(self) -> None:
        name, rows = f"{self._name}-{len(self._files)}", self._pending[0]
        if HASH in rows.column_names:
            hashes = np.stack([rows.column(half).to_numpy() for half in (HASH, HASH2)])
        else:
            hashes = key_hashes(rows, self._operator.keys, self._state.seed)
            rows = rows.append_column(HASH, pa.array(hashes[0])) if is_indexed(self._operator) else rows
        panes = rows.column(PANE).to_numpy()
        entry = write_state_file(self._state.folder / name, rows, part_of(hashes), panes, self._state.durable)
        if entry is not None:
            self._files.append(entry)
        self._pending, self._rows, self._bytes = [], 0, 0


def is_indexed(operator: Operator) -> bool:
    """Whether rows are stored with hashes that the operator itself does not see."""
    return isinstance(operator, LooksUpKeys) and operator.indexed and not operator.hashed


def combine_rows(operator: Operator, rows: pa.Table, seed: int, watermark: int = NEVER) -> pa.Table:
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
