"""Kernels that find rows of state files by their hashes."""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel


@kernel
def find_in_runs(hashes: Any, stored: Any, bounds: Any, found: Any) -> Any:
    """Which rows have one of some hashes (sorted), in order; each run, from one bound to the next, is sorted by its hashes.

    Returns how many there are, of which ``found`` gets as many as it holds.
    """
    count = 0
    for run in range(bounds.shape[0] - 1):
        at, end = bounds[run], bounds[run + 1]
        for query in range(hashes.shape[0]):
            if at >= end:
                break
            hash_, step = hashes[query], 1
            while at + step < end and stored[at + step] < hash_:
                step *= 2
            high = min(at + step, end)
            if stored[at] < hash_:
                at += step // 2
            while at < high:
                middle = (at + high) >> 1
                if stored[middle] < hash_:
                    at = middle + 1
                else:
                    high = middle
            while at < end and stored[at] == hash_:
                if count < found.shape[0]:
                    found[count] = at
                count += 1
                at += 1
    return count
