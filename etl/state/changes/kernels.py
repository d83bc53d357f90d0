"""Kernels that say which rows of a changelog are left."""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel


@kernel
def remaining_weights(firsts: Any, times: Any, weights: Any, ttl: Any, stack: Any, left: Any) -> None:
    """Of equal rows, sorted by time, those that are left (int64[n]): a row that is removed takes away the latest one that was
    added and has not expired by then. Of one that finds too few, the negative rest is left. ``stack`` has room for n numbers."""
    for group in range(firsts.shape[0] - 1):
        depth = 0
        for row in range(firsts[group], firsts[group + 1]):
            left[row] = weights[row]
            if weights[row] > 0:
                stack[depth] = row
                depth += 1
                continue
            while left[row] < 0 and depth and times[stack[depth - 1]] + ttl > times[row]:
                top = stack[depth - 1]
                taken = min(left[top], -left[row])
                left[top] -= taken
                left[row] += taken
                if left[top] == 0:
                    depth -= 1
