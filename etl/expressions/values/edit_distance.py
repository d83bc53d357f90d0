"""``edit_distance(one, other, [limit])`` and ``similarity(one, other)``: how far two texts are from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.rows import ActiveRows, broadcast

MAX_CHARACTERS = 1000
"""Characters of each text whose distance is computed: the time grows with their product."""


def distances(rows: ActiveRows, one: Any, other: Any, limit: Any = None) -> pa.Int32Array:
    """Levenshtein's distance of each pair, -1 if it is above the limit; fails rows with a text that is too long."""
    found, _ = _computed(rows, one, other)
    values = pa.array(found, mask=found < 0)
    if limit is None:
        return values
    return pc.if_else(pc.greater(values, broadcast(limit, rows.length)), pa.scalar(-1, pa.int32()), values)


def similarities(rows: ActiveRows, one: Any, other: Any) -> pa.DoubleArray:
    """1 for equal texts, less the greater their distance; fails rows with a text that is too long."""
    found, longest = _computed(rows, one, other)
    return pa.array(np.where(longest > 0, 1.0 - found / np.maximum(longest, 1), 1.0), mask=found < 0)


def _computed(rows: ActiveRows, one: Any, other: Any) -> tuple[Any, Any]:
    """int32[n]: distances, negative of null and of failed rows, and the lengths of the longer texts."""
    from etl.columns.texts import Texts
    from etl.expressions.values.edit_distance_kernel import BLOCKS, TOO_LONG, edit_distances

    texts, others = (Texts.of(broadcast(value, rows.length)) for value in (one, other))
    found, longest = np.empty(rows.length, np.int32), np.empty(rows.length, np.int32)
    characters = [np.empty(MAX_CHARACTERS, np.uint32) for _ in range(2)]
    blocks = [np.empty(BLOCKS, np.uint64) for _ in range(2)]
    equal = np.zeros(128 * BLOCKS, np.uint64)
    edit_distances(texts.address, texts.length, others.address, others.length, *characters, equal, *blocks, found, longest)
    rows.fail(pa.array(found == TOO_LONG), f"a text has more than {MAX_CHARACTERS:,} characters")
    return found, longest
