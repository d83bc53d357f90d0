"""The kernel of `entropy`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel


@kernel
def byte_entropies(address: Any, length: Any, counts: Any, values: Any) -> None:
    """float64[n]: the entropy of the bytes of each text, in bits; ``counts`` (int64[256]) is overwritten."""
    for text in range(length.shape[0]):
        size, total = length[text], 0.0
        for byte in range(256):
            counts[byte] = 0
        for at in range(size):
            counts[load_byte(address[text] + np.uint64(at))] += 1
        for byte in range(256):
            if counts[byte]:
                total += counts[byte] * math.log2(counts[byte])
        values[text] = max(0.0, math.log2(size) - total / size) if size > 0 else 0.0
