"""Divides rows by the values of their partition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array, take_rows

Key = tuple[Any, ...]
"""The values of a partition, one for each partition field."""


def divide_by_key(rows: pa.RecordBatch, keys: Sequence[pa.Array]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Yield each key and its rows, in their order. Keys are computed once a batch, then rows are sorted by their key's number."""
    import numpy as np

    if not keys or not rows.num_rows:
        yield (), rows
        return
    numbers = np.zeros(rows.num_rows, np.int64)
    encoded = [pc.dictionary_encode(materialize_array(key), null_encoding="encode") for key in keys]
    for one in encoded:
        numbers = numbers * len(one.dictionary) + one.indices.to_numpy(zero_copy_only=False)
        numbers = np.unique(numbers, return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    bounds = [*np.flatnonzero(np.diff(numbers[order], prepend=-1)), rows.num_rows]
    if len(bounds) == 2:
        yield _key(encoded, 0), rows
        return
    taken = pa.RecordBatch.from_arrays([take_rows(column, order) for column in rows.columns], names=rows.schema.names)
    for begin, end in itertools.pairwise(bounds):
        yield _key(encoded, int(order[begin])), taken.slice(begin, end - begin)


def _key(encoded: Sequence[pa.DictionaryArray], row: int) -> Key:
    return tuple(one.dictionary[one.indices[row].as_py()].as_py() for one in encoded)
