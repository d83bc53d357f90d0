"""The kernel of running ranks."""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel


@kernel
def rank_events(
    known: Any, firsts: Any, rows: Any, values: Any, subjects: Any, limit: Any, best: Any, ranks: Any, updates: Any, left: Any
) -> None:
    """Of each event, in the order of time: its rank among the best rows of its key so far, 0 if it is not one of them (int64[n]);
    whether its subject was one of them before (bool[n]); the row that is none of them any more, or -1 (int64[n]).

    Key k has the best rows from ``known[k]`` to ``known[k + 1]`` in the order of their ranks, and the events
    ``rows[firsts[k]]`` to ``rows[firsts[k + 1]]``; ``values`` and ``subjects`` (int64) are of all rows, the smallest value is
    the best. Of rows with the same subject the best one counts. ``best`` is int64[limit].
    """
    for key in range(firsts.shape[0] - 1):
        size = 0
        for row in range(known[key], known[key + 1]):
            best[size] = row
            size += 1
        for event in range(firsts[key], firsts[key + 1]):
            row = rows[event]
            ranks[event], updates[event], left[event] = 0, False, -1
            if size == limit and values[row] >= values[best[size - 1]]:
                continue
            at = 0
            while at < size and subjects[best[at]] != subjects[row]:
                at += 1
            if at < size:
                if values[row] >= values[best[at]]:
                    continue
                updates[event] = True
            elif size < limit:
                size += 1
            else:
                at = size - 1
                left[event] = best[at]
            while at > 0 and values[best[at - 1]] > values[row]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = row
            ranks[event] = at + 1
