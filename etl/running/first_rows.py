"""The first rows of many in an order, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema

_ROWS_AT_ONCE = 1 << 18
"""Rows that are gathered before all but the first ones of the order are dropped."""

SortKeys = Sequence[tuple[str, str]]
"""Fields, each with `ascending` or `descending`."""


def first_rows(batches: Iterable[pa.RecordBatch], fields: Schema, keys: SortKeys, limit: int) -> tuple[pa.Table, int]:
    """The first rows in an order, without keys those that come first, and the number of all. Null is last."""
    first, count, gathered_rows = fields.empty_table(), 0, 0
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        count += batch.num_rows
        gathered_rows += batch.num_rows
        if gathered_rows > _ROWS_AT_ONCE:
            first, gathered, gathered_rows = _first(first, gathered, keys, limit), [], 0
    return _first(first, gathered, keys, limit), count


def _first(first: pa.Table, more: list[pa.RecordBatch], keys: SortKeys, limit: int) -> pa.Table:
    rows = pa.concat_tables([first, pa.Table.from_batches(more, first.schema)])
    if not keys:
        return rows.slice(0, limit)
    return rows.take(pc.select_k_unstable(rows, min(limit, len(rows)), list(keys)))


def has_order(type_: pa.DataType) -> bool:
    """Whether rows can be sorted by values of a type."""
    return not (pa.types.is_nested(type_) or pa.types.is_null(type_))
