"""Binds calls of random functions: ``rand()``, ``uuid()``. Their values are those of `etl.expressions.random_values`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.expressions.bound_node import BoundNode
from etl.expressions.random_values import RandomSource, unrepeatable_source
from etl.expressions.widening import DOUBLE, INT32, STRING

if TYPE_CHECKING:
    from etl.expressions.random_values import Words


def _random(type_: pa.DataType, make: Callable[[RandomSource], pa.Array]) -> BoundNode:
    return BoundNode(type_, lambda rows: make(rows.random or unrepeatable_source(rows.length)))


def rand(seed: int | None = None) -> BoundNode:
    """A double from 0 to less than 1; calls with the same seed give the same values."""
    return _random(DOUBLE, lambda random: pa.array((random.words(seed=seed) >> 11) * 2.0**-53))


def rand_integer(limit: int, seed: int | None = None) -> BoundNode:
    """A whole number from 0 to less than ``limit``, which is less than 2³²."""
    return _random(INT32, partial(_integers_below, limit, seed))


def _integers_below(limit: int, seed: int | None, random: RandomSource) -> pa.Array:
    import numpy as np

    high = random.words(seed=seed) >> np.uint64(32)
    return pa.array((high * np.uint64(limit) >> np.uint64(32)).astype(np.int32))


def uuid() -> BoundNode:
    """A UUID of version 4 (RFC 9562), of 122 random bits."""
    return _random(STRING, lambda random: _uuid_texts(random.words(0), random.words(1)))


def _uuid_texts(first: Words, second: Words) -> pa.StringArray:
    """UUIDs from 128 random bits each: ``first`` and ``second`` are uint64[rows]."""
    import numpy as np

    octets = np.stack((first, second), axis=1).view(np.uint8).reshape(-1, 16)
    octets[:, 6] = octets[:, 6] & 0x0F | 0x40
    octets[:, 8] = octets[:, 8] & 0x3F | 0x80
    texts = np.full((len(octets), _UUID_LENGTH), ord("-"), np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    texts[:, _HEX_POSITIONS[::2]] = digits[octets >> 4]
    texts[:, _HEX_POSITIONS[1::2]] = digits[octets & 0x0F]
    offsets = np.arange(len(octets) + 1, dtype=np.int32) * _UUID_LENGTH
    return pa.StringArray.from_buffers(len(octets), pa.py_buffer(offsets), pa.py_buffer(texts))


_UUID_LENGTH = 36

_HEX_POSITIONS = [at for at in range(_UUID_LENGTH) if at not in (8, 13, 18, 23)]
"""Indexes of the hexadecimal digits in the text; dashes are at the others."""
