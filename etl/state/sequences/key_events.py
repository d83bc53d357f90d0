"""The events of some keys, found in state rows and put in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from etl.state.key_hash import HASH2, part_of
from etl.state.keyed.decisions import TIME, EventsByKey, keys_by_part, matching_keys
from etl.state.keyed.event_rows import hashes_of, numbers
from etl.state.windows.aggregation import Numbers

MASK = "\0mask"
"""Column (int64) of state rows: a bit for each condition that an event meets; inverted, for where a match ended: after the event
of this mask, time and order."""

ORDER = "\0order"
"""Column (int64): the order of events of the same time, their offsets."""


class KeyEvents(NamedTuple):
    """Events in the order of their keys, times and offsets, without those that a match has taken."""

    bounds: Numbers
    """int64[keys, 2]: where the events of each key begin and end."""
    times: Numbers
    masks: Numbers
    tables: Sequence[pa.Table]
    table: Numbers
    """int64[n]: which of the tables an event is in."""
    row: Numbers
    """int64[n]: its row there."""
    copy: Numbers | None = None
    """int64[n]: its number, from 1, among the events of its key with its time, order and mask, which are made of one event; None:
    no event has such others."""

    def up_to(self, events: Numbers) -> Numbers:
        """These events, each once, and those before them of which they are copies."""
        if self.copy is None:
            return np.unique(events)
        begins = self.bounds[np.searchsorted(self.bounds[:, 1], events, side="right"), 0]
        firsts = np.maximum(events - self.copy[events] + 1, begins)
        ranges = [np.arange(first, last + 1) for first, last in zip(firsts.tolist(), events.tolist(), strict=True)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *ranges]))

    def rows(self, events: Numbers, names: Sequence[str]) -> pa.Table:
        """Columns of events by their numbers; null where a table does not have one, and missing where none has."""
        if not len(events):
            return pa.table({})
        found, order = [], []
        tables = self.table[events]
        for number in np.unique(tables).tolist():
            own = np.flatnonzero(tables == number)
            table = self.tables[number]
            table = table.select([TIME, *(name for name in names if name in table.column_names and name != TIME)])
            found.append(table.take(pa.array(self.row[events[own]])))
            order.append(own)
        positions = np.empty(len(events), np.int64)
        positions[np.concatenate(order)] = np.arange(len(events))
        rows = pa.concat_tables(found, promote_options="default").take(pa.array(positions))
        return rows.select([name for name in names if name in rows.column_names])


def keys_of(tables: Sequence[pa.Table], chosen: Callable[[pa.Table], Numbers]) -> Numbers:
    """uint64[2, keys]: the hashes of the keys of the rows that are chosen, in order."""
    found = [hashes_of(table)[:, mask] for table in tables if (mask := chosen(table)).any()]
    if not found:
        return np.empty((2, 0), np.uint64)
    hashes = np.concatenate(found, axis=1)
    keys = EventsByKey.of(hashes, np.zeros(hashes.shape[1], np.int64))
    return np.stack([keys.hash, keys.hash2])


def rows_of_keys(tables: Sequence[pa.Table], keys: Numbers, after: int, end: int) -> KeyEvents:
    """The events of these keys with ``after < time < end``. A table has rows of one part, sorted by hash."""
    own = keys_by_part(keys)
    hashes = {part: keys[:, queries] for part, queries in own.items()}
    found = [np.empty((6, 0), np.int64)]
    for number, table in enumerate(tables):
        part = int(part_of((None, table.column(HASH2)[:1].to_numpy()))[0])
        if part in own:
            queries = own[part]
            key, row = matching_keys(hashes[part], table)
            times = numbers(table, TIME)[row]
            given = (queries[key], times, numbers(table, ORDER)[row], numbers(table, MASK)[row], np.full(len(row), number), row)
            found.append(np.stack(given)[:, (after < times) & (times < end)])
    key, times, order, masks, table_numbers, row = np.concatenate(found, axis=1)
    ends = masks < 0
    positions = (np.where(ends, ~masks, masks), order, times, key)
    sorted_ = np.lexsort((ends, *positions))
    copy = _copies(np.stack([masks, order, times, key])[:, sorted_])
    if copy is not None:  # the end of a match stands after the copy with which the match ended
        again = np.lexsort((ends[sorted_], copy, *(one[sorted_] for one in positions)))
        sorted_, copy = sorted_[again], copy[again]
    return KeyEvents(
        _bounds(key[sorted_], ends[sorted_]), times[sorted_], masks[sorted_], tables, table_numbers[sorted_], row[sorted_], copy
    )


def _copies(rows: Numbers) -> Numbers | None:
    """The number of each row, int64[4, n], among equal ones, which are next to each other; None if there are no equal ones."""
    is_copy = (rows[:, 1:] == rows[:, :-1]).all(axis=0)
    if not is_copy.any():
        return None
    numbers_ = np.arange(rows.shape[1])
    begins = np.where(np.append(False, is_copy), 0, numbers_)
    return numbers_ - np.maximum.accumulate(begins) + 1


def _bounds(key: Numbers, ends: Numbers) -> Numbers:
    """The range of each key's events after the end of its last match."""
    if not len(key):
        return np.empty((0, 2), np.int64)
    firsts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    next_events = np.where(ends, np.arange(1, len(key) + 1), 0)
    begins = np.maximum(np.maximum.reduceat(next_events, firsts), firsts)
    return np.stack([begins, np.append(firsts[1:], len(key))], axis=1)
