"""Kernels over frames: the frame of a row is the rows of its key from a first row to the row itself.

The rows of a key are in the order of their times, so the first row of a frame is never before that of the row before.
"""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel


@kernel
def find_starts(begins: Any, times: Any, within: Any, rows: Any, starts: Any) -> None:
    """int64[n]: the first row of each frame, which is less than ``within`` earlier; a frame has at most ``rows`` rows.

    The rows of key k are those from ``begins[k]`` to ``begins[k + 1]``.
    """
    for key in range(begins.shape[0] - 1):
        start = begins[key]
        for row in range(begins[key], begins[key + 1]):
            start = max(start, row - rows + 1)
            while times[row] - times[start] >= within:
                start += 1
            starts[row] = start


@kernel
def add_floats(begins: Any, starts: Any, values: Any, valid: Any, suffixes: Any, sums: Any) -> None:
    """float64[n]: the sums of the values of each frame.

    Nothing is ever subtracted, so that neither a large number nor an infinity that has left a frame spoils later sums. Rows are
    added to a running sum; when one of them leaves the frame, ``suffixes`` (float64[n]) get the sums from each row of the frame
    to its end, and another running sum begins (a queue of two stacks).
    """
    for key in range(begins.shape[0] - 1):
        turn, recent = begins[key], 0.0
        for row in range(begins[key], begins[key + 1]):
            if valid[row]:
                recent += values[row]
            if starts[row] > turn:
                total = 0.0
                for at in range(row, starts[row] - 1, -1):
                    if valid[at]:
                        total += values[at]
                    suffixes[at] = total
                turn, recent = row + 1, 0.0
            sums[row] = suffixes[starts[row]] + recent if starts[row] < turn else recent


@kernel
def find_smallest(begins: Any, starts: Any, values: Any, valid: Any, queue: Any, rows: Any) -> None:
    """int64[n]: the row of each frame with the smallest value, of equal ones the first; -1 where no value is valid.

    ``queue`` (int64[n]) holds the rows that can still be the smallest: each one's value is greater than that of the one before.
    """
    for key in range(begins.shape[0] - 1):
        head, tail = begins[key], begins[key]
        for row in range(begins[key], begins[key + 1]):
            if valid[row]:
                while tail > head and values[queue[tail - 1]] > values[row]:
                    tail -= 1
                queue[tail] = row
                tail += 1
            while head < tail and queue[head] < starts[row]:
                head += 1
            rows[row] = queue[head] if head < tail else -1


@kernel
def count_distinct(begins: Any, starts: Any, codes: Any, counts: Any, distinct: Any) -> None:
    """int64[n]: the number of distinct codes in each frame; -1 is null and not counted. ``counts`` (int64[codes]) must be zeros,
    and are zeros again at the end."""
    for key in range(begins.shape[0] - 1):
        start, number = begins[key], 0
        for row in range(begins[key], begins[key + 1]):
            if codes[row] >= 0:
                number += counts[codes[row]] == 0
                counts[codes[row]] += 1
            while start < starts[row]:
                if codes[start] >= 0:
                    counts[codes[start]] -= 1
                    number -= counts[codes[start]] == 0
                start += 1
            distinct[row] = number
        while start < begins[key + 1]:
            if codes[start] >= 0:
                counts[codes[start]] -= 1
            start += 1


@kernel
def find_previous(begins: Any, codes: Any, last: Any, previous: Any) -> None:
    """int64[n]: for each row the latest one of its key before it with the same code; -1 if there is none. ``last``
    (int64[codes]) must be -1."""
    for key in range(begins.shape[0] - 1):
        for row in range(begins[key], begins[key + 1]):
            code = codes[row]
            previous[row] = last[code] if code >= 0 and last[code] >= begins[key] else -1
            if code >= 0:
                last[code] = row
