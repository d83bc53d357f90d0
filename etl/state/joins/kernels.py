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


@kernel
def narrow_by_time(times: Any, earliest: Any, latest: Any, low: Any, high: Any) -> None:
    """Narrow the rows of each query (from ``low`` to ``high``), which are sorted by time, to those from its earliest time to its
    latest one."""
    for query in range(low.shape[0]):
        first, end = low[query], high[query]
        while first < end:
            middle = (first + end) // 2
            if times[middle] < earliest[query]:
                first = middle + 1
            else:
                end = middle
        low[query], end = first, high[query]
        while first < end:
            middle = (first + end) // 2
            if times[middle] <= latest[query]:
                first = middle + 1
            else:
                end = middle
        high[query] = first


@kernel
def latest_versions(
    hash2: Any, sides: Any, times: Any, low: Any, high: Any,
    rows_hash2: Any, rows_side: Any, rows_time: Any, rows_order: Any,
    before: Any, number: Any, found: Any, at: Any, best_time: Any, best_order: Any,
) -> None:  # fmt: skip
    """Of the rows found for each query the latest right one that is not later, and at most ``before`` earlier.

    ``found`` and ``at`` (int64[n]) get the ``number`` of these rows and the row's, where it is better than what they hold: its
    ``best_time``, or at the same time its ``best_order``, is larger.
    """
    for query in range(hash2.shape[0]):
        if sides[query] != 0:
            continue
        for row in range(low[query], high[query]):
            time = rows_time[row]
            if rows_hash2[row] != hash2[query] or rows_side[row] != 1 or time > times[query] or time < times[query] - before:
                continue
            is_better = found[query] < 0 or time > best_time[query]
            if is_better or (time == best_time[query] and rows_order[row] >= best_order[query]):
                found[query], at[query] = number, row
                best_time[query], best_order[query] = time, rows_order[row]


@kernel
def count_rows_of_spans(
    hash2: Any, sides: Any, spans: Any, low: Any, high: Any,
    rows_hash2: Any, rows_side: Any, rows_time: Any, length: Any, counts: Any,
) -> None:  # fmt: skip
    """For each query, add to its count (int64[n]) how many of the rows found for it have its second hash, its side, and a time in
    the span of this length that begins at its time."""
    for query in range(hash2.shape[0]):
        for row in range(low[query], high[query]):
            is_own = rows_hash2[row] == hash2[query] and rows_side[row] == sides[query]
            if is_own and 0 <= rows_time[row] - spans[query] < length:
                counts[query] += 1
