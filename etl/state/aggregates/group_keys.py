"""Values in the form in which pyarrow's group_by finds equal ones, and finds them fast."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
"""An odd number, and the one with which their product is 1 in 64 bits."""


def canonical(values: pa.Array) -> pa.Array:
    """Values of which equal ones have the same bits."""
    if not pa.types.is_floating(values.type):
        return values
    positive = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), values.type), positive)


def scatter(values: pa.Array) -> pa.Array:
    """Values of 64 bits → other numbers, each of which stands for one value.

    group_by is up to 80 times as slow where the lower bits are alike, as those of doubles that are whole numbers.
    """
    if not _has_64_bits(values.type):
        return values
    return pa.array((values.to_numpy(zero_copy_only=False).view(np.uint64) * _FACTOR).byteswap())


def gather(scattered: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """The values of `scatter`."""
    array = scattered.combine_chunks()
    if not _has_64_bits(type_):
        return array
    return pa.array((array.to_numpy().byteswap() * _INVERSE).view(np.int64)).view(type_)


def _has_64_bits(type_: pa.DataType) -> bool:
    numeric = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_)
    return bool(numeric and type_.bit_width == 64)
