"""The time to live of a key's state: it expires when no event of the key has come for that long, or never.

The pane of a past row says when the state of its key expires. When a key gets a later pane, all past rows that are still
needed are written again with it. So of the past rows of a key only those with the last pane count; the others are replaced. A
pane is a quarter of the time to live, so a row is written again at most four times in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from etl.api import NEVER, PANE
from etl.state.aggregates.accumulator import Numbers
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import hashes_of, numbers

UNLIMITED_PANE = 253_402_300_799_999_999
"""The pane of past rows that never expire: the end of the year 9999, microseconds since the epoch."""

_PANES = 4
"""Panes in a time to live: state stays up to a quarter of it longer than needed."""


def panes_after(times: Numbers, length: int) -> Numbers:
    """int64[n]: the panes of past rows that are needed for ``length`` microseconds after these times. They are odd."""
    pane = max(2, length // _PANES // 2 * 2)
    return (times + length + pane) // pane * pane + 1


class KeyLifetimes(NamedTuple):
    """The events of some keys, grouped by lifetimes: a key's state expires and begins again where no event comes for the time to
    live. With the past rows of the lifetimes that have not ended."""

    groups: EventsByKey
    past_keys: Numbers
    """int64[past rows]: the number of the lifetime."""
    past: pa.Table
    is_last: Numbers
    """bool[lifetimes]: whether it is the last one of its key."""


@dataclass(frozen=True)
class TimeToLive:
    """How long the state of a key is kept after its last event."""

    micros: int | None
    """Microseconds; None if state never expires."""

    def expiry_panes(self, times: Numbers) -> Numbers:
        """int64[n]: the panes of keys whose last events have these times."""
        return np.full(len(times), UNLIMITED_PANE) if self.micros is None else panes_after(times, self.micros)

    def are_current(self, past: pa.Table) -> Numbers:
        """bool[rows]: which past rows are not replaced: those with the last pane of their key."""
        if self.micros is None:
            return np.ones(len(past), bool)
        panes = numbers(past, PANE)
        groups = EventsByKey.of(hashes_of(past), panes)
        found = np.empty(len(past), bool)
        ordered = panes[groups.order]
        found[groups.order] = ordered == np.repeat(ordered[groups.firsts[1:] - 1], groups.sizes)
        return found

    def are_alive(self, past: pa.Table, watermark: int) -> Numbers:
        """bool[rows]: which past rows are not replaced, and of keys whose state has not expired at this watermark."""
        found = self.are_current(past)
        if self.micros is None:
            return found
        times = np.where(found, numbers(past, TIME), NEVER)
        groups = EventsByKey.of(hashes_of(past), times)
        last = np.empty(len(past), np.int64)
        last[groups.order] = np.repeat(times[groups.order][groups.firsts[1:] - 1], groups.sizes)
        return found & (last + self.micros > watermark)

    def split_lifetimes(self, keys: EventsByKey, times: Numbers, past_keys: Numbers, past: pa.Table) -> KeyLifetimes:
        """The lifetimes of the keys' state. ``past_keys`` are the numbers of the past rows' keys."""
        if self.micros is None:
            return KeyLifetimes(keys, past_keys, past, np.ones(len(keys.hash), bool))
        ordered = times[keys.order]
        firsts = np.union1d(keys.firsts, np.flatnonzero(np.diff(ordered) >= self.micros) + 1)
        owners = np.searchsorted(keys.firsts, firsts[:-1], side="right") - 1
        groups = EventsByKey(keys.order, firsts, keys.hash[owners], keys.hash2[owners])
        panes, latest = numbers(past, PANE), np.full((2, len(keys.hash)), NEVER)
        np.maximum.at(latest[0], past_keys, panes)
        current = panes == latest[0][past_keys]
        np.maximum.at(latest[1], past_keys[current], numbers(past, TIME)[current])
        continues = latest[1] + self.micros > ordered[keys.firsts[:-1]]
        chosen = current & continues[past_keys]
        lifetimes = np.searchsorted(firsts, keys.firsts[:-1])[past_keys[chosen]]
        return KeyLifetimes(groups, lifetimes, past.filter(pa.array(chosen)), np.append(np.diff(owners) > 0, True))


UNLIMITED = TimeToLive(None)
