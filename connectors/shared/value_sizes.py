"""How many bytes the values of each event have, about: a number that depends on the event alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

FIXED_BYTES = 8
"""Bytes of a number, a time or null, and of the length of a text or list."""


def sum_value_sizes(columns: Iterable[pa.Array], rows: int) -> pa.Array:
    """Return the bytes of each row (int64): eight for each value, and the bytes of texts and elements."""
    import numpy as np

    total = np.zeros(rows, np.int64)
    for column in columns:
        total += _sizes(column)
    return pa.array(total)


def _sizes(values: pa.Array) -> Any:
    import numpy as np

    type_ = values.type
    fixed = np.full(len(values), FIXED_BYTES, np.int64)
    if _is_text(type_):
        return fixed + pc.fill_null(pc.binary_length(values).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if pa.types.is_struct(type_):
        return fixed + sum(_sizes(part) for part in values.flatten())
    if pa.types.is_map(type_):
        values = values.cast(pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)])))
        type_ = values.type
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        elements = np.bincount(pc.list_parent_indices(values).to_numpy(), weights=_sizes(values.flatten()), minlength=len(values))
        return fixed + elements.astype(np.int64)
    return fixed


def _is_text(type_: pa.DataType) -> bool:
    return any(
        is_type(type_) for is_type in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
