"""Comparing runs of bytes, for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, load_long
from etl.columns.kernels import part

_ONE, _EIGHT = np.uint64(1), np.uint64(8)


@part
def same_bytes(one: Any, other: Any, size: Any) -> Any:
    """Whether two runs of ``size`` bytes are equal. Compares eight bytes at a time; the last eight may overlap those before."""
    end = one + np.uint64(size)
    if size >= 8:
        last = end - _EIGHT
        while one < last:
            if load_long(one) != load_long(other):
                return False
            one += _EIGHT
            other += _EIGHT
        return load_long(last) == load_long(other - (one - last))
    while one < end:
        if load_byte(one) != load_byte(other):
            return False
        one += _ONE
        other += _ONE
    return True
