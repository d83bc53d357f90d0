"""Reading a table by its changes: its rows are kept in a file beside its own, and the next version is made of those whose
row did not change and of those that did.

Changed rows come behind the others. Memory: the changed rows, and the ids of a million others.
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
from etl.tables.keys import joined

SUFFIX = ".rows"
_ROWS = 65_536
"""Rows of a batch in the file."""
_TOGETHER = 16
"""Batches whose ids are looked for among those that changed at a time."""


@dataclass(frozen=True)
class Since:
    """What a version made of rows that may be read by their changes knows: where to go on, and when it was last read whole."""

    mark: str | int | None
    whole: float
    read: int | None = None
    """How many rows were read for this version; None: all."""


@dataclass(frozen=True)
class Reading:
    """The rows of a version to come; may be asked twice."""

    batches: Callable[[], Iterable[pa.RecordBatch]]
    since: Since | None = None
    id: tuple[str, ...] = ()
    """The columns by which a row that changed finds the one that it replaces."""


def reading(table: LookupTable, names: Sequence[str], file: Path, before: Path | None, since: Since | None) -> Reading | None:
    """The rows for ``file`` of a table that tells its changes: all of them, or those of the version ``before`` and what changed
    ``since``. None if nothing did."""
    told = table.changes()
    assert told is not None
    columns = list(dict.fromkeys([*names, *told.id, *([told.gone] if told.gone else [])]))
    mark, now = table.mark(), time.time()
    kept = before.with_suffix(SUFFIX) if before is not None else None
    if kept is None or since is None or not _readable(kept) or _due(told, since, now):
        return _kept(lambda: _present(table.read(columns), told), file, told, Since(mark, now))
    changed = [batch for batch in table.read_since(columns, since.mark) if batch.num_rows]
    if not changed:
        return None
    rows = pa.Table.from_batches(changed)
    return _kept(lambda: _merged(kept, rows, told), file, told, Since(mark, since.whole, rows.num_rows))


def _due(told: Changes, since: Since, now: float) -> bool:
    return told.whole is not None and now - since.whole >= told.whole.total_seconds()


def _readable(path: Path) -> bool:
    """Whether a file of a run before is there, and whole: what says where its batches are stands at its end."""
    try:
        with pa.OSFile(str(path)) as file:
            pa.ipc.open_file(file)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def _present(batches: Iterable[pa.RecordBatch], told: Changes) -> Iterator[pa.RecordBatch]:
    """Rows that are not gone."""
    for batch in batches:
        yield batch if told.gone is None else batch.filter(pc.invert(_gone(batch.column(told.gone))))


def _gone(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)
    if pa.types.is_integer(column.type):
        return pc.fill_null(pc.not_equal(column, 0), False)
    return pc.is_valid(column)


def _merged(path: Path, changed: pa.Table, told: Changes) -> Iterator[pa.RecordBatch]:
    """Rows of the version before of which no other state is known now, and behind them the changed ones."""
    new = _ids(changed.combine_chunks().to_batches(), told)
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for first in range(0, reader.num_record_batches, _TOGETHER):
            behind = min(first + _TOGETHER, reader.num_record_batches)
            batches = [reader.get_batch(number) for number in range(first, behind)]
            rows = pa.Table.from_batches(batches)
            yield from rows.filter(pc.invert(pc.is_in(_ids(batches, told), value_set=new))).to_batches()
    yield from _present(changed.to_batches(), told)


def _ids(batches: Sequence[pa.RecordBatch], told: Changes) -> pa.ChunkedArray:
    return pa.chunked_array([joined([batch.column(name) for name in told.id]) for batch in batches])


def _kept(batches: Callable[[], Iterable[pa.RecordBatch]], file: Path, told: Changes, since: Since) -> Reading:
    """The same rows, written to the file beside the table's while they are taken."""

    def taken() -> Iterator[pa.RecordBatch]:
        path = file.with_suffix(SUFFIX)
        writer: Any = None
        with path.open("wb") as rows:
            for batch in batches():
                writer = writer or pa.ipc.new_file(rows, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
                writer.write_table(pa.Table.from_batches([batch]), max_chunksize=_ROWS)
                yield batch
            if writer is not None:
                writer.close()
            rows.flush()
            os.fsync(rows.fileno())

    return Reading(taken, since, told.id)
