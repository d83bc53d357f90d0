"""Reading only the changed rows of a table: all rows are stored in a file next to the table file, and the next version combines
its unchanged rows with the changed ones.

Changed rows come after the others. Memory: the changed rows, and the ids of a million others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Changes, LookupTable
from etl.tables.keys import join_key_columns

SUFFIX = ".rows"
_ROWS_IN_BATCH = 65_536
"""Rows per batch in the file."""
_BATCHES_AT_ONCE = 16
"""Batches whose ids are compared with the changed ones at a time."""


@dataclass(frozen=True)
class ReadProgress:
    """How far a version has read a table with changes: the ``mark`` to read from, and when all rows were last read.

    ``whole`` is in seconds since 1970. Field names are those of ``current.json``.
    """

    mark: str | int | None
    whole: float
    read: int | None = None
    """Number of rows read for this version; None: all."""


@dataclass(frozen=True)
class RowsToBuild:
    """The rows of a version to be built; ``batches`` may be called twice."""

    batches: Callable[[], Iterable[pa.RecordBatch]]
    since: ReadProgress | None = None
    id: tuple[str, ...] = ()
    """The columns that identify a row, so that a changed row replaces the old one."""


def plan_reading(
    table: LookupTable, names: Sequence[str], file: Path, before: Path | None, since: ReadProgress | None
) -> RowsToBuild | None:
    """The rows for the version ``file``: all, or those of the version ``before`` with the changes ``since``. None: no change."""
    changes = table.changes()
    assert changes is not None
    columns = list(dict.fromkeys([*names, *changes.id, *([changes.gone] if changes.gone else [])]))
    mark, now = table.mark(), time.time()
    previous_rows = before.with_suffix(SUFFIX) if before is not None else None
    if previous_rows is None or since is None or not _is_complete(previous_rows) or _is_full_read_due(changes, since, now):
        return _record(lambda: _without_deleted(table.read(columns), changes), file, changes, ReadProgress(mark, now))
    changed = [batch for batch in table.read_since(columns, since.mark) if batch.num_rows]
    if not changed:
        return None
    rows = pa.Table.from_batches(changed)
    return _record(lambda: _merge(previous_rows, rows, changes), file, changes, ReadProgress(mark, since.whole, rows.num_rows))


def _is_full_read_due(changes: Changes, since: ReadProgress, now: float) -> bool:
    return changes.whole is not None and now - since.whole >= changes.whole.total_seconds()


def _is_complete(path: Path) -> bool:
    """Whether the file of an earlier run exists and is complete: its footer, which locates the batches, is at the end."""
    try:
        with pa.OSFile(str(path)) as file:
            pa.ipc.open_file(file)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def _without_deleted(batches: Iterable[pa.RecordBatch], changes: Changes) -> Iterator[pa.RecordBatch]:
    """The rows that are not marked as deleted."""
    for batch in batches:
        yield batch if changes.gone is None else batch.filter(pc.invert(_is_deleted(batch.column(changes.gone))))


def _is_deleted(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)
    if pa.types.is_integer(column.type):
        return pc.fill_null(pc.not_equal(column, 0), False)
    return pc.is_valid(column)


def _merge(path: Path, changed: pa.Table, changes: Changes) -> Iterator[pa.RecordBatch]:
    """The unchanged rows of the version before, then the changed rows."""
    new = _read_ids(changed.combine_chunks().to_batches(), changes)
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for first in range(0, reader.num_record_batches, _BATCHES_AT_ONCE):
            stop = min(first + _BATCHES_AT_ONCE, reader.num_record_batches)
            batches = [reader.get_batch(number) for number in range(first, stop)]
            rows = pa.Table.from_batches(batches)
            yield from rows.filter(pc.invert(pc.is_in(_read_ids(batches, changes), value_set=new))).to_batches()
    yield from _without_deleted(changed.to_batches(), changes)


def _read_ids(batches: Sequence[pa.RecordBatch], changes: Changes) -> pa.ChunkedArray:
    return pa.chunked_array([join_key_columns([batch.column(name) for name in changes.id]) for batch in batches])


def _record(batches: Callable[[], Iterable[pa.RecordBatch]], file: Path, changes: Changes, since: ReadProgress) -> RowsToBuild:
    """The same rows, which are also written to the file next to the table file while they are read."""

    def write() -> Iterator[pa.RecordBatch]:
        path = file.with_suffix(SUFFIX)
        writer: Any = None
        with path.open("wb") as rows:
            for batch in batches():
                writer = writer or pa.ipc.new_file(rows, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
                writer.write_table(pa.Table.from_batches([batch]), max_chunksize=_ROWS_IN_BATCH)
                yield batch
            if writer is not None:
                writer.close()
            rows.flush()
            os.fsync(rows.fileno())

    return RowsToBuild(write, since, changes.id)
