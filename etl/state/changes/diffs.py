"""The difference of two results as events of a changelog."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Schema
from etl.state.aggregates.accumulator import Numbers
from etl.state.key_hash import key_hashes, new_seed
from etl.state.keyed.decisions import EventsByKey

_SEED = new_seed()
"""Of hashes that are compared within this process."""


class ChangeOrder(NamedTuple):
    """The events of a changelog."""

    rows: Numbers
    """int64[m]: the row of each."""
    kinds: Numbers
    """int8[m]"""
    positions: Numbers
    """int64[m]: the position that changes."""


def changelog(rows: pa.Table, before: Numbers, after: Numbers, fields: Schema) -> pa.RecordBatch:
    """Events of a changelog: of each position the row before and the row after it (int64[n] each, row numbers, -1 for none)."""
    order = change_order(before, after)
    return as_changes(rows.take(pa.array(order.rows)) if len(rows) else rows, order.kinds, fields)


def change_order(before: Numbers, after: Numbers) -> ChangeOrder:
    """The events of these positions. Of a position with a row before and one after it, the one follows the other."""
    has_before, has_after = before >= 0, after >= 0
    sizes = has_before.astype(np.int64) + has_after
    at = np.cumsum(sizes) - sizes
    chosen, kinds = np.empty(int(sizes.sum()), np.int64), np.empty(int(sizes.sum()), np.int8)
    chosen[at[has_before]] = before[has_before]
    kinds[at[has_before]] = np.where(has_after, UPDATE_BEFORE, DELETE)[has_before]
    chosen[(at + has_before)[has_after]] = after[has_after]
    kinds[(at + has_before)[has_after]] = np.where(has_before, UPDATE_AFTER, INSERT)[has_after]
    return ChangeOrder(chosen, kinds, np.repeat(np.arange(len(sizes)), sizes))


def as_changes(rows: pa.Table | pa.RecordBatch, kinds: Numbers, fields: Schema) -> pa.RecordBatch:
    """Rows as events of a changelog with these fields and kinds."""
    columns = [pa.array(kinds, pa.int8()) if field.name == CHANGE else _column(rows, field) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _column(rows: pa.Table | pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(field.name)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if whole.type == field.type or pa.types.is_null(field.type) else whole.cast(field.type)


def difference(before: pa.Table, after: pa.Table, fields: Schema, key: tuple[str, ...] | None) -> pa.RecordBatch:
    """What changes one result into the other, whose rows may occur several times. Rows with the same values of ``key`` replace
    each other; without a key a row that goes is deleted, and one that comes is inserted."""
    both = pa.concat_tables([before, after], promote_options="default").combine_chunks()
    weights = np.append(np.full(len(before), -1), np.full(len(after), 1))
    names = [name for name in fields.names if name in both.column_names]
    remaining = remaining_rows(both, weights, names)
    gone, come = remaining[weights[remaining] < 0], remaining[weights[remaining] > 0]
    if key is None:
        none = np.full(len(gone) + len(come), -1)
        old, new = none.copy(), none
        old[: len(gone)], new[len(gone) :] = gone, come
        return changelog(both, old, new, fields)
    return changelog(both, *_pairs(both, gone, come, key), fields)


def remaining_rows(rows: pa.Table, weights: Numbers, names: list[str]) -> Numbers:
    """Of rows with weights 1 and -1 those that are left when equal ones cancel each other: row numbers, ascending."""
    hashes = key_hashes(rows, names, _SEED)
    groups = EventsByKey.of(hashes, np.zeros(len(rows), np.int64), -weights)
    ordered = weights[groups.order]
    totals = np.add.reduceat(ordered, groups.firsts[:-1]) if len(ordered) else ordered
    sizes = groups.sizes
    index = np.arange(len(ordered)) - np.repeat(groups.firsts[:-1], sizes)
    total = np.repeat(totals, sizes)
    keeps = ((total > 0) & (index < total)) | ((total < 0) & (index >= np.repeat(sizes, sizes) + total))
    found: Numbers = np.sort(groups.order[keeps])
    return found


def _pairs(rows: pa.Table, gone: Numbers, come: Numbers, key: tuple[str, ...]) -> tuple[Numbers, Numbers]:
    """Of each key the row that goes and the one that comes, -1 for none."""
    chosen = np.append(gone, come)
    of_key = rows.select(list(key)).take(pa.array(chosen)) if key else rows.slice(0, len(chosen))
    hashes = key_hashes(of_key, key, _SEED)
    groups = EventsByKey.of(hashes, np.zeros(len(chosen), np.int64))
    keys: Any = groups.numbers()
    old, new = np.full(len(groups.hash), -1), np.full(len(groups.hash), -1)
    old[keys[: len(gone)]] = gone
    new[keys[len(gone) :]] = come
    order = np.lexsort((np.maximum(old, new),))
    return old[order], new[order]
