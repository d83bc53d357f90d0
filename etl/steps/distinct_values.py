"""The different values of several text columns, row by row, as one column of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, copy_texts

Array = np.ndarray[Any, Any]


def distinct_values(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Texts and lists of texts → the values of each row in order, each once; null where a row has none, empty texts left out."""
    from etl.columns.distinct import distinct

    length = len(columns[0]) if columns else 0
    parts = [_locate(column) for column in columns if column.null_count < length]
    if not parts:
        return pa.nulls(length, pa.list_(pa.string()))
    address = np.concatenate([texts.address for texts, _ in parts])
    lengths = np.concatenate([texts.length for texts, _ in parts])
    first = np.cumsum([0, *(len(texts.address) for texts, _ in parts[:-1])])
    found, sizes, offsets = np.empty_like(address), np.empty_like(lengths), np.empty(length + 1, np.int32)
    count = distinct(address, lengths, first, np.stack([ends for _, ends in parts]), found, sizes, offsets)
    return _lists(copy_texts(found[:count], sizes[:count]), offsets)


def _locate(column: pa.Array) -> tuple[Texts, Array]:
    """The texts of a column, and where those of each row begin and end."""
    if not pa.types.is_list(column.type):
        return Texts.of(column), np.arange(len(column) + 1)
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return Texts.of(column.flatten()), np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _lists(values: pa.Array, offsets: Array) -> pa.ListArray:
    empty = offsets[1:] == offsets[:-1]
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(empty) if empty.any() else None)
