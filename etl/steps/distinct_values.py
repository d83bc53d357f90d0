"""The different values of several text columns, row by row, as one column of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.byte_runs import same_bytes
from etl.columns.kernels import kernel
from etl.columns.texts import Texts, copy_texts

Array = np.ndarray[Any, Any]


def distinct_values(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Texts and lists of texts → the values of each row in order, each once; null where a row has none, empty texts left out."""
    length = len(columns[0]) if columns else 0
    parts = [_locate(column) for column in columns if column.null_count < length]
    if not parts:
        return pa.nulls(length, pa.list_(pa.string()))
    address = np.concatenate([texts.address for texts, _ in parts])
    lengths = np.concatenate([texts.length for texts, _ in parts])
    first = np.cumsum([0, *(len(texts.address) for texts, _ in parts[:-1])])
    found, sizes, offsets = np.empty_like(address), np.empty_like(lengths), np.empty(length + 1, np.int32)
    count = _distinct(address, lengths, first, np.stack([ends for _, ends in parts]), found, sizes, offsets)
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


@kernel
def _distinct(address: Any, length: Any, first: Any, ends: Any, found_address: Any, found_length: Any, offsets: Any) -> Any:
    """Write the distinct texts of each row to ``found_address`` and ``found_length``, without null and empty ones; returns their
    number.

    ``address`` and ``length`` have the texts of all columns, those of column c from ``first[c]`` on; row r has those from
    ``ends[c, r]`` to ``ends[c, r + 1]``. ``offsets`` (int32[rows + 1]) are the offsets of the rows in the result.
    """
    count = 0
    offsets[0] = 0
    for row in range(offsets.shape[0] - 1):
        begin = count
        for column in range(first.shape[0]):
            for at in range(first[column] + ends[column, row], first[column] + ends[column, row + 1]):
                if length[at] <= 0:
                    continue
                known = False
                for other in range(begin, count):
                    if found_length[other] == length[at] and same_bytes(found_address[other], address[at], length[at]):
                        known = True
                        break
                if not known:
                    found_address[count], found_length[count] = address[at], length[at]
                    count += 1
        offsets[row + 1] = count
    return count
