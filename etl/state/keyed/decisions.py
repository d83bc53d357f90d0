"""The first event of each key within a time, and the first few of each key: what `dedupe` and `throttle` decide.

State rows are appended and never changed. Runs of them are of one part each and sorted by `HASH`; a key can have rows in several
runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.state.key_hash import HASH, HASH2, PARTS, part_of, sort_by_hash
from etl.state.keyed.kernels import choose_first, drop_later_ones, drop_same_times, find_rows, matching_rows
from etl.state.state_files import limit_mapped_memory

TIME, COUNT = "\0time", "\0count"
"""Columns (int64) of state rows: the time of an event that passed, microseconds since the epoch; how many passed."""


LARGE_RUN = 1 << 15
"""Rows of a run from which on a look-up limits the mapped memory afterwards."""


class EventsByKey(NamedTuple):
    """Events in the order of their keys, within a key of time, and of ``ties``; then they keep their order."""

    order: Any
    """int64[n]: row numbers."""
    firsts: Any
    """int64[keys + 1]: where in that order the events of each key begin."""
    hash: Any
    """uint64[keys]: of each key, in order."""
    hash2: Any

    @classmethod
    def of(cls, hashes: Any, times: Any, *ties: Any) -> EventsByKey:
        """Group events by their keys' hashes (uint64[2, n])."""
        order = sort_by_hash(hashes[0], *ties, times, hashes[1])
        hash_, hash2 = hashes[0][order], hashes[1][order]
        begins = (hash_[1:] != hash_[:-1]) | (hash2[1:] != hash2[:-1])
        firsts = np.flatnonzero(np.append(True, begins)) if len(order) else np.empty(0, np.int64)
        return cls(order, np.append(firsts, len(order)), hash_[firsts], hash2[firsts])

    @property
    def sizes(self) -> Any:
        """int64[keys]: the number of events of each key."""
        return np.diff(self.firsts)

    def numbers(self) -> Any:
        """int64[n]: the number of each event's key."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.repeat(np.arange(len(self.hash)), self.sizes)
        return found

    def last(self, count: int) -> Any:
        """bool[n]: which events are among the last ``count`` of their key."""
        found = np.empty(len(self.order), bool)
        found[self.order] = np.arange(len(self.order)) >= np.repeat(self.firsts[1:] - count, self.sizes)
        return found


def first_within(hashes: Any, times: Any, known: Sequence[pa.Table], within: int) -> Any:
    """bool[n]: which events pass: those for which no event of their key has passed less than ``within`` before or after.

    Events that passed before are the state rows ``known``; the others are decided in the order of their times. Invariant: two
    events of a key that pass are at least ``within`` apart, and each event that does not pass is nearer to one that does.
    """
    groups = EventsByKey.of(hashes, times)
    found, at = _values_of_keys(groups, known, TIME)
    order = np.lexsort((at, found))
    firsts = np.searchsorted(found[order], np.arange(len(groups.hash) + 1))
    in_order, passes = np.empty(len(times), bool), np.empty(len(times), bool)
    choose_first(groups.firsts, times[groups.order], firsts, at[order], np.int64(within), in_order)
    passes[groups.order] = in_order
    return passes


def first_of_each(hashes: Any, times: Any, known: Sequence[pa.Table], limit: int) -> Any:
    """bool[n]: which events pass: the earliest ones of each key, until ``limit`` of it have passed with those before."""
    groups = EventsByKey.of(hashes, times)
    found, counts = _values_of_keys(groups, known, COUNT)
    before = np.zeros(len(groups.hash), np.int64)
    np.add.at(before, found, counts)
    sizes = np.diff(groups.firsts)
    rank = np.arange(len(times)) - np.repeat(groups.firsts[:-1], sizes)
    passes = np.empty(len(times), bool)
    passes[groups.order] = rank + np.repeat(before, sizes) < limit
    return passes


def first_of_each_time(hashes: Any, times: Any) -> Any:
    """bool[n]: which events remain: not those with the time of the remaining event of their key before them."""
    keeps, slots = np.empty(len(times), bool), _empty_slots(len(times))
    drop_same_times(hashes[0], hashes[1], times, slots, keeps)
    return keeps


def may_be_first(hashes: Any, times: Any, limit: int) -> Any:
    """bool[n]: which events may be among the earliest ``limit`` of their key: not those after ``limit`` others, in time or, at
    the same time, in the order of reading. Of events out of order more may remain than
    necessary."""
    rows = len(times)
    keeps, slots = np.empty(rows, bool), _empty_slots(rows)
    counts, latest = np.empty((2, rows), np.int64)
    drop_later_ones(hashes[0], hashes[1], times, np.int64(limit), slots, counts, latest, keeps)
    return keeps


def _empty_slots(rows: int) -> Any:
    """int64[2**k]: a hash table for a number of keys, at most half full."""
    return np.full(1 << max(1, (2 * rows - 1).bit_length()), -1, np.int64)


def counts_of(hashes: Any) -> tuple[Any, Any]:
    """For each distinct key of events (hashes uint64[2, n]): the number of one of its events, and how many there are."""
    groups = EventsByKey.of(hashes, np.zeros(hashes.shape[1], np.int64))
    return groups.order[groups.firsts[:-1]], np.diff(groups.firsts)


def _values_of_keys(groups: EventsByKey, known: Sequence[pa.Table], name: str) -> tuple[Any, Any]:
    """For the state rows of these keys: the number of the key and the row's value (int64[m] each)."""
    empty = np.empty(0, np.int64)
    found = list(rows_of_keys(groups, known))
    keys = np.concatenate([empty, *(keys for keys, _, _ in found)])
    return keys, np.concatenate([empty, *(run.column(name).to_numpy()[rows] for _, run, rows in found)])


def rows_of_keys(groups: EventsByKey, known: Sequence[pa.Table]) -> Iterator[tuple[Any, pa.Table, Any]]:
    """The state rows of these keys in each run that has some: the number of the key (int64[m]), the run, and the number of the
    row (int64[m])."""
    queries = keys_by_part((groups.hash, groups.hash2))
    hashes = {part: (groups.hash[own], groups.hash2[own]) for part, own in queries.items()}
    for run in known:
        part = int(part_of((None, run.column(HASH2)[:1].to_numpy()))[0]) if len(run) else None
        if part in queries:
            found, rows = matching_keys(hashes[part], run)
            if len(run) >= LARGE_RUN:
                limit_mapped_memory(run.get_total_buffer_size())  # `nbytes` takes 60 µs
            if len(found):
                yield queries[part][found], run, rows


def keys_by_part(hashes: Any) -> dict[int, Any]:
    """Part → int64[n]: the numbers of its keys, in order."""
    parts = part_of(hashes).astype(np.uint8)  # numpy sorts 8 bits in linear time
    order = np.argsort(parts, kind="stable")
    bounds = np.searchsorted(parts[order], np.arange(PARTS + 1, dtype=np.uint8)).tolist()
    return {part: order[first:end] for part, (first, end) in enumerate(pairwise(bounds)) if first < end}


def matching_keys(hashes: Any, run: pa.Table) -> tuple[Any, Any]:
    """For the rows of a run that have these hashes (uint64[2, n], sorted): the number of the hash and that of the row."""
    low, high = np.empty((2, len(hashes[0])), np.int64)
    total = find_rows(hashes[0], run.column(HASH).to_numpy(), low, high)
    keys, rows = np.empty((2, total), np.int64)
    count = matching_rows(hashes[1], low, high, run.column(HASH2).to_numpy(), keys, rows)
    return keys[:count], rows[:count]
