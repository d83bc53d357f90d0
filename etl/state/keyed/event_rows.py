"""Events as rows for the parts of a keyed step, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import PANE, TIMESTAMP, Schema
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME
from etl.state.windows.aggregation import event_times


def prepare_rows(
    events: pa.RecordBatch, fields: Schema, time: str, pane: int, oldest: int, more: Mapping[str, Any] | None = None
) -> tuple[pa.Table, int]:
    """Events → their fields, `TIME`, `PANE` (of ``pane`` microseconds) and further numbers of each; and how many are too old."""
    times = event_times(events, time)
    columns = {name: events.column(name) for name in fields.names if name in events.schema.names}
    columns |= {PANE: pa.array(times - times % pane), TIME: pa.array(times)}
    columns |= {name: pa.array(numbers) for name, numbers in (more or {}).items()}
    rows = pa.table(columns)
    late = times < oldest
    lost = int(late.sum())
    return (rows.filter(pa.array(~late)) if lost else rows), lost


def whole(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several files as one table, with a chunk for each column."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def hashes_of(rows: pa.Table) -> Any:
    """uint64[2, rows]"""
    return np.stack([numbers(rows, HASH), numbers(rows, HASH2)])


def numbers(rows: pa.Table, name: str) -> Any:
    """The values of a column of numbers without nulls."""
    return rows.column(name).to_numpy()


def arrival_order(times: Any, offsets: Any) -> Any:
    """int64[rows]: the order of rows by time, at the same time by offset, then by row. Where times have the order of offsets, as
    in most sources, one sort of numbers that differ does it, which takes a fifth of the time."""
    order = np.argsort(offsets)
    ordered, at = offsets[order], times[order]
    if ((ordered[1:] > ordered[:-1]) & (at[1:] >= at[:-1])).all():
        return order
    return np.lexsort((offsets, times))


def as_events(rows: pa.Table, fields: Schema) -> pa.RecordBatch:
    """The events of rows, with the types of these fields."""
    columns = [_column(rows, field) for field in fields]
    return pa.RecordBatch.from_arrays(columns, names=fields.names)


def _column(rows: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in rows.column_names:
        return pa.nulls(len(rows), field.type)
    column = rows.column(field.name).combine_chunks()
    return column if column.type == field.type or pa.types.is_null(field.type) else column.cast(field.type)


KEY_HASH = "key_hash"
"""Field of a state as people read it: the hash of a key, 32 hexadecimal digits. Keys themselves are not stored."""


def as_hex(rows: pa.Table) -> pa.Array:
    """The hash of each row's key, in hexadecimal digits."""
    digits = hashes_of(rows).T.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(0, 32 * len(rows) + 1, 32, dtype=np.int64)
    return pa.Array.from_buffers(pa.large_string(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(digits)]).cast(
        pa.string()
    )


def as_times(values: Any) -> pa.Array:
    """Microseconds since the epoch as timestamps."""
    return pa.array(values, pa.int64()).cast(TIMESTAMP)


def unused_name(name: str, others: Sequence[str]) -> str:
    """The name, with as many underscores appended as make it different from the others."""
    while name in others:
        name += "_"
    return name
