"""Kernels that find keys in rows sorted by hash, and decide which events of a key are its first ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel, kernel_function

_NEAR = 16
"""Rows that are read one after the other around the expected one."""


@kernel_function
def _bisect(sorted_hashes: Any, hash_: Any, low: Any, high: Any) -> Any:
    """The first row from ``low`` to ``high`` whose hash is not less."""
    while low < high:
        middle = (low + high) >> 1
        if sorted_hashes[middle] < hash_:
            low = middle + 1
        else:
            high = middle
    return low


@kernel_function
def _lower_bound(sorted_hashes: Any, hash_: Any, begin: Any, density: Any) -> Any:
    """The first row from ``begin`` on whose hash is not less.

    Hashes are evenly spread, so that the distance to ``begin`` is known but for its square root: rows near it are read one after
    the other, which the processor predicts better than a bisection, and then the search widens.
    """
    rows = sorted_hashes.shape[0]
    if begin >= rows or sorted_hashes[begin] >= hash_:
        return begin
    expected = np.float64(hash_ - sorted_hashes[begin]) * density
    at = begin if expected < _NEAR / 2 else begin + np.int64(min(expected, np.float64(rows - 1 - begin)))
    if sorted_hashes[at] < hash_:
        low, end = at + 1, min(at + 1 + _NEAR, rows)
        while low < end and sorted_hashes[low] < hash_:
            low += 1
        if low < end or end == rows:
            return low
        step = np.int64(_NEAR)
        while low + step < rows and sorted_hashes[low + step] < hash_:
            low, step = low + step + 1, step * 2
        return _bisect(sorted_hashes, hash_, low, min(low + step, rows))
    high, first, step = at, max(at - _NEAR, begin), np.int64(_NEAR)
    while high > first and sorted_hashes[high - 1] >= hash_:
        high -= 1
    if high > first:
        return high
    while high - step > begin and sorted_hashes[high - step] >= hash_:
        high, step = high - step, step * 2
    return _bisect(sorted_hashes, hash_, max(begin, high - step), high)


@kernel
def find_rows(hashes: Any, sorted_hashes: Any, low: Any, high: Any) -> Any:
    """int64[n] each: the first row with each hash and the row after the last; ``hashes`` are sorted. Returns the rows found."""
    at, end, total, rows = np.int64(0), np.int64(0), np.int64(0), sorted_hashes.shape[0]
    density = 0.0
    if rows:  # of a file with a range of keys it is a multiple of rows / 2**64
        density = rows / (np.float64(sorted_hashes[rows - 1] - sorted_hashes[0]) + 1.0)
    for query in range(hashes.shape[0]):
        if query == 0 or hashes[query] != hashes[query - 1]:  # else many events of a key would each count the rows of the key
            at = _lower_bound(sorted_hashes, hashes[query], at, density)
            end = at
            while end < rows and sorted_hashes[end] == hashes[query]:
                end += 1
        low[query], high[query] = at, end
        total += end - at
    return total


@kernel
def matching_rows(hash2: Any, low: Any, high: Any, rows_hash2: Any, queries: Any, rows: Any) -> Any:
    """Of the rows found for each query those with the same second hash: the query's number and the row's. Returns how many there
    are."""
    count = 0
    for query in range(hash2.shape[0]):
        for row in range(low[query], high[query]):
            if rows_hash2[row] == hash2[query]:
                queries[count], rows[count] = query, row
                count += 1
    return count


@kernel
def choose_first(firsts: Any, times: Any, known_firsts: Any, known: Any, within: Any, passes: Any) -> None:
    """bool[n]: which events pass, for times in order: none that is less than ``within`` from a time that passed.

    Key k has the events from ``firsts[k]`` to ``firsts[k + 1]``, and its times that passed before are ``known`` from
    ``known_firsts[k]`` to ``known_firsts[k + 1]``, in order.
    """
    for key in range(firsts.shape[0] - 1):
        at, end = known_firsts[key], known_firsts[key + 1]
        has_last, last = False, np.int64(0)
        for event in range(firsts[key], firsts[key + 1]):
            time = times[event]
            while at < end and known[at] <= time:
                if not has_last or known[at] > last:
                    has_last, last = True, known[at]
                at += 1
            near = (has_last and time - last < within) or (at < end and known[at] - time < within)
            passes[event] = not near
            if not near:
                has_last, last = True, time


@kernel_function
def _slot(slots: Any, hash_: Any, hash2: Any, row: Any) -> Any:
    """The slot of a row's key: that which holds a row of it, or an empty one (-1). The number of slots is a power of two."""
    last = slots.shape[0] - 1
    at = np.int64(hash_[row] & np.uint64(last))
    while slots[at] >= 0 and (hash_[slots[at]] != hash_[row] or hash2[slots[at]] != hash2[row]):
        at = (at + 1) & last
    return at


@kernel
def drop_same_times(hash_: Any, hash2: Any, times: Any, slots: Any, keeps: Any) -> None:
    """bool[n]: which rows stay: not those with the key and the time of the row of their key that stayed last."""
    for row in range(times.shape[0]):
        at = _slot(slots, hash_, hash2, row)
        keeps[row] = slots[at] < 0 or times[slots[at]] != times[row]
        if keeps[row]:
            slots[at] = row


@kernel
def drop_later_ones(hash_: Any, hash2: Any, times: Any, limit: Any, slots: Any, counts: Any, latest: Any, keeps: Any) -> None:
    """bool[n]: which rows stay: not those that are not earlier than the first ``limit`` rows of their key.

    ``counts`` and ``latest`` (int64[n]) hold, at the first row of a key, how many these are so far and the latest time of them.
    """
    for row in range(times.shape[0]):
        at = _slot(slots, hash_, hash2, row)
        if slots[at] < 0:
            slots[at], counts[row], latest[row] = row, 0, times[row]
        first = slots[at]
        keeps[row] = counts[first] < limit or times[row] < latest[first]
        if counts[first] < limit:
            counts[first] += 1
            latest[first] = max(latest[first], times[row])


@kernel
def assign_spans(firsts: Any, times: Any, within: Any, known: Any, starts: Any) -> None:
    """int64[n]: the start of the span that each event is in, for times in order. A span starts at a key's first event that is
    in no earlier span, and ends ``within`` later; key k has the events from ``firsts[k]`` to ``firsts[k + 1]``, and a span that
    starts at ``known[k]``."""
    for key in range(firsts.shape[0] - 1):
        start = known[key]
        for event in range(firsts[key], firsts[key + 1]):
            if times[event] - start >= within:
                start = times[event]
            starts[event] = start


@kernel
def suppress_repeats(
    firsts: Any, times: Any, weights: Any, within: Any, passed: Any, waiting: Any, passes: Any, counts: Any
) -> None:
    """bool[n]: which events pass, for times in order: those that are ``within`` or more after the one that passed before.
    int64[n]: of those that pass, how many were suppressed since then.

    Key k has the events from ``firsts[k]`` to ``firsts[k + 1]``; an event stands for as many as its weight, of which the first
    can pass, and none if it is 0. Of each key ``passed`` is the time of the event that passed last and ``waiting`` the number
    of those suppressed since, before these events and then after them.
    """
    for key in range(firsts.shape[0] - 1):
        for event in range(firsts[key], firsts[key + 1]):
            passes[event] = weights[event] > 0 and times[event] - passed[key] >= within
            if passes[event]:
                counts[event], passed[key], waiting[key] = waiting[key], times[event], weights[event] - 1
            else:
                waiting[key] += weights[event]
