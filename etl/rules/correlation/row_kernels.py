"""Kernels over the rows of slots: which count, their order, and what alerts show of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.kernels import kernel, kernel_function

_FEW_ROWS = 256
"""Rows of a slot that are sorted one by one."""


class StoredSlots(NamedTuple):
    """What state files hold of each slot: see `Slots`. `find_current` fills it."""

    epochs: Any
    """int64[slots]"""
    versions: Any
    last_panes: Any
    some_row: Any


@kernel
def find_current(slot: Any, epoch: Any, version: Any, is_burst: Any, pane: Any, stored: Any, current: Any) -> None:
    """bool[n]: the rows that count: new ones (``epoch`` below 0), stored ones of the latest epoch of their slot, and of its
    bursts those of the latest version."""
    for row in range(slot.shape[0]):
        own = slot[row]
        stored.epochs[own] = max(stored.epochs[own], epoch[row])
        stored.last_panes[own] = max(stored.last_panes[own], pane[row])
        stored.some_row[own] = row
    for row in range(slot.shape[0]):
        if is_burst[row] and epoch[row] == stored.epochs[slot[row]]:
            stored.versions[slot[row]] = max(stored.versions[slot[row]], version[row])
    for row in range(slot.shape[0]):
        own = slot[row]
        is_latest = epoch[row] == stored.epochs[own] and (not is_burst[row] or version[row] == stored.versions[own])
        current[row] = epoch[row] < 0 or is_latest


@kernel
def sort_by_slot(slot: Any, rows: Any, ends: Any, order: Any) -> None:
    """int64[n]: the numbers of these rows in the order of their slots; rows of a slot keep their order. ``ends`` (zeros) is
    set to where slots end."""
    for at in range(rows.shape[0]):
        ends[slot[rows[at]]] += 1
    total = np.int64(0)
    for number in range(ends.shape[0]):
        total, ends[number] = total + ends[number], total
    for at in range(rows.shape[0]):
        own = slot[rows[at]]
        order[ends[own]] = rows[at]
        ends[own] += 1


@kernel_function
def _is_before(row: Any, other: Any, micros: Any, offset: Any, rank: Any) -> Any:
    """Whether a row comes before another one by time, offset and rule."""
    if micros[row] != micros[other]:
        return micros[row] < micros[other]
    if offset[row] != offset[other]:
        return offset[row] < offset[other]
    return rank[row] < rank[other]


@kernel_function
def _insert(order: Any, first: Any, at: Any, micros: Any, offset: Any, rank: Any) -> None:
    """Move a row to its place among those of its slot before it, which are sorted."""
    row = order[at]
    while at > first and _is_before(row, order[at - 1], micros, offset, rank):
        order[at] = order[at - 1]
        at -= 1
    order[at] = row


@kernel
def sort_small_slots(starts: Any, order: Any, micros: Any, offset: Any, rank: Any) -> Any:
    """Sort the rows of each slot by time, offset and rule, but for slots with many rows: whether these are sorted."""
    all_sorted = True
    for number in range(starts.shape[0] - 1):
        first, end = starts[number], starts[number + 1]
        for at in range(first + 1, end):
            if end - first <= _FEW_ROWS:
                _insert(order, first, at, micros, offset, rank)
            elif _is_before(order[at], order[at - 1], micros, offset, rank):
                all_sorted = False
                break
    return all_sorted


@kernel
def first_distinct(firsts: Any, ends: Any, codes: Any, marks: Any, limit: Any, rows: Any, offsets: Any) -> None:
    """The rows of each window in which a code comes first, up to ``limit`` of them, one window after the other; ``offsets`` is
    where they begin. Codes below 0 count for nothing; ``marks`` (zeros) has a place for each other one."""
    count = np.int64(0)
    for window in range(firsts.shape[0]):
        offsets[window] = count
        at = firsts[window]
        while at < ends[window] and count - offsets[window] < limit:
            if codes[at] >= 0 and marks[codes[at]] != window + 1:
                marks[codes[at]] = window + 1
                rows[count] = at
                count += 1
            at += 1
    offsets[firsts.shape[0]] = count
