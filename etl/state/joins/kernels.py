"""Kernels that find the pairs of a join."""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel


@kernel
def paired_rows(
    hash2: Any, sides: Any, times: Any, low: Any, high: Any,
    rows_hash2: Any, rows_side: Any, rows_time: Any,
    before: Any, after: Any, queries: Any, rows: Any,
) -> Any:  # fmt: skip
    """Of the rows found for each query (from ``low`` to ``high``) those of the other side, with the same second hash and in time:
    the query's number and the row's. Returns how many there are.

    Sides are 0 and 1; a row of another side has no match. The right row (1) is at most ``before`` earlier and ``after`` later.
    """
    count = 0
    for query in range(hash2.shape[0]):
        is_left = sides[query] == 0
        for row in range(low[query], high[query]):
            if rows_hash2[row] != hash2[query] or sides[query] + rows_side[row] != 1:
                continue
            distance = rows_time[row] - times[query] if is_left else times[query] - rows_time[row]
            if -before <= distance <= after:
                queries[count], rows[count] = query, row
                count += 1
    return count
