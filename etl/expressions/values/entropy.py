"""``entropy(text)``: Shannon's entropy of a text's bytes, 0 for ``aaaa``, 2 for ``abcd``, 4 and more for random names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def entropies(texts: pa.Array) -> pa.DoubleArray:
    """The entropy of each text; 0 of an empty one, null of null."""
    from etl.columns.texts import Texts
    from etl.expressions.values.entropy_kernel import byte_entropies

    found = Texts.of(texts)
    values = np.empty(len(texts), np.float64)
    byte_entropies(found.address, found.length, np.empty(256, np.int64), values)
    return pa.array(values, mask=found.length < 0)


def entropy(text: str | None) -> float | None:
    """The entropy of one text, for Spark."""
    value: float | None = entropies(pa.array([text], pa.string()))[0].as_py()
    return value
