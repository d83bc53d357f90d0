"""Functions of arrays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.bound_node import BoundNode, apply_failing
from etl.expressions.library.flink.array_aggregates import ARRAY_SUMS
from etl.expressions.library.function import LibraryFunction
from etl.expressions.output_limit import fail_largest
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import INT64

MAX_NUMBERS = 1_000_000
"""Numbers of one event."""

_BYTES_OF_A_NUMBER = 3 * INT64.byte_width
"""With what is needed to compute it."""


def _whole_numbers(last: BoundNode) -> BoundNode:
    def run(rows: ActiveRows, given: Any) -> pa.Array:
        import numpy as np

        counts = broadcast(given, rows.length)
        too_many = pc.fill_null(pc.greater(counts, MAX_NUMBERS), False)
        rows.fail(too_many, f"more than {MAX_NUMBERS:,} numbers")
        lengths = np.maximum(pc.if_else(too_many, 0, pc.fill_null(counts, 0)).to_numpy(zero_copy_only=False), 0)
        left_out = fail_largest(rows, lengths * _BYTES_OF_A_NUMBER)
        lengths = lengths if left_out is None else np.where(left_out, 0, lengths)
        ends = np.cumsum(lengths)
        numbers = np.arange(1, (ends[-1] if len(ends) else 0) + 1) - np.repeat(ends - lengths, lengths)
        offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(numbers), mask=counts.is_null() if counts.null_count else None)

    return apply_failing(pa.list_(INT64), run, last)


FUNCTIONS = (
    *ARRAY_SUMS,
    LibraryFunction(
        "whole_numbers",
        "last: bigint",
        "array<bigint>",
        _whole_numbers,
        "The numbers from 1 to the last one, none for 0 and less.",
        "whole_numbers(3)",
        [1, 2, 3],
        errors=f"more than {MAX_NUMBERS:,} numbers",
    ),
)
"""Functions of arrays."""
