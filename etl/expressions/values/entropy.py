"""``entropy(text)``: Shannon's entropy of a text's bytes, 0 for ``aaaa``, 2 for ``abcd``, 4 and more for random names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel
from etl.columns.texts import Texts


def entropies(texts: pa.Array) -> pa.DoubleArray:
    """The entropy of each text; 0 of an empty one, null of null."""
    found = Texts.of(texts)
    values = np.empty(len(texts), np.float64)
    _byte_entropies(found.address, found.length, np.empty(256, np.int64), values)
    return pa.array(values, mask=found.length < 0)


def entropy(text: str | None) -> float | None:
    """The entropy of one text, for Spark."""
    value: float | None = entropies(pa.array([text], pa.string()))[0].as_py()
    return value


@kernel
def _byte_entropies(address: Any, length: Any, counts: Any, values: Any) -> None:
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
