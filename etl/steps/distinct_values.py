"""The different values of several text columns, row by row, as one column of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, Any]


def distinct_values(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Texts and lists of texts → the values of each row in order, each once; null where a row has none, empty texts left out."""
    parts = [_flat(column) for column in columns if column.null_count < len(column)]
    rows = np.concatenate([np.zeros(0, np.int64), *(row for row, _ in parts)])
    values = pa.chunked_array([pa.array([], pa.string()), *(text for _, text in parts)]).combine_chunks()
    order = np.argsort(rows, kind="stable")
    rows, encoded = rows[order], values.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)[order]
    first = _firsts(rows, codes)
    return _lists(encoded.dictionary, codes[first], rows[first], len(columns[0]) if columns else 0)


def _flat(column: pa.Array) -> tuple[Array, pa.Array]:
    """Rows and values of a column, without null and empty ones."""
    if pa.types.is_list(column.type):
        rows, values = pc.list_parent_indices(column), pc.list_flatten(column)
    else:
        rows, values = pa.array(np.arange(len(column))), column
    wanted = pc.fill_null(pc.not_equal(values, ""), False)
    return rows.filter(wanted).to_numpy(zero_copy_only=False).astype(np.int64), values.filter(wanted)


def _firsts(rows: Array, codes: Array) -> Array:
    """Places of values that come for the first time in their row; rows are in order."""
    keys = rows * (int(codes.max(initial=0)) + 1) + codes
    found: Array = np.sort(np.unique(keys, return_index=True)[1])
    return found


def _lists(texts: pa.Array, codes: Array, rows: Array, length: int) -> pa.ListArray:
    sizes = np.bincount(rows, minlength=length)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    mask = pa.array(sizes == 0) if (sizes == 0).any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(codes)), mask=mask)
