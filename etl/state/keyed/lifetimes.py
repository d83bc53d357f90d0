"""How long the state of a key lives: for ever, or until so much time has passed since its last event.

The pane of a past row says when its key's state is needed no more. When a key gets a later pane, all past rows that are still
needed are written again with it: so of the past rows of a key those with the last pane count, and others are replaced. A pane is
a quarter of the time, so a row is written again four times in it at most.
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

FOREVER = 253_402_300_799_999_999
"""The pane of past rows that are always needed: the end of the year 9999."""

_PANES = 4
"""Panes in a length of time: state stays a quarter longer than needed."""


def panes_behind(times: Numbers, length: int) -> Numbers:
    """int64[n]: the panes of past rows that are needed until so many microseconds behind these times. They are odd."""
    pane = max(2, length // _PANES // 2 * 2)
    return (times + length + pane) // pane * pane + 1


class Lives(NamedTuple):
    """The events of some keys, where a key is one for each of its lives, and the past rows of the lives that go on."""

    groups: EventsByKey
    past_keys: Numbers
    """int64[past rows]: the number of the life."""
    past: pa.Table
    is_last: Numbers
    """bool[lives]: whether it is the last one of its key."""


@dataclass(frozen=True)
class Lifetime:
    """``ttl`` in microseconds; None if keys live for ever."""

    ttl: int | None

    def panes(self, times: Numbers) -> Numbers:
        """int64[n]: the panes of keys whose last events have these times."""
        return np.full(len(times), FOREVER) if self.ttl is None else panes_behind(times, self.ttl)

    def current(self, past: pa.Table) -> Numbers:
        """bool[rows]: which past rows are not replaced: those with the last pane of their key."""
        if self.ttl is None:
            return np.ones(len(past), bool)
        panes = numbers(past, PANE)
        groups = EventsByKey.of(hashes_of(past), panes)
        found = np.empty(len(past), bool)
        ordered = panes[groups.order]
        found[groups.order] = ordered == np.repeat(ordered[groups.firsts[1:] - 1], groups.sizes)
        return found

    def alive(self, past: pa.Table, watermark: int) -> Numbers:
        """bool[rows]: which past rows are of keys that live at this watermark, and not replaced."""
        found = self.current(past)
        if self.ttl is None:
            return found
        times = np.where(found, numbers(past, TIME), NEVER)
        groups = EventsByKey.of(hashes_of(past), times)
        last = np.empty(len(past), np.int64)
        last[groups.order] = np.repeat(times[groups.order][groups.firsts[1:] - 1], groups.sizes)
        return found & (last + self.ttl > watermark)

    def divide(self, keys: EventsByKey, times: Numbers, past_keys: Numbers, past: pa.Table) -> Lives:
        """The lives of keys: one ends where no event follows in time. ``past_keys`` are the numbers of the past rows' keys."""
        if self.ttl is None:
            return Lives(keys, past_keys, past, np.ones(len(keys.hash), bool))
        ordered = times[keys.order]
        firsts = np.union1d(keys.firsts, np.flatnonzero(np.diff(ordered) >= self.ttl) + 1)
        owners = np.searchsorted(keys.firsts, firsts[:-1], side="right") - 1
        groups = EventsByKey(keys.order, firsts, keys.hash[owners], keys.hash2[owners])
        panes, latest = numbers(past, PANE), np.full((2, len(keys.hash)), NEVER)
        np.maximum.at(latest[0], past_keys, panes)
        current = panes == latest[0][past_keys]
        np.maximum.at(latest[1], past_keys[current], numbers(past, TIME)[current])
        goes_on = latest[1] + self.ttl > ordered[keys.firsts[:-1]]
        chosen = current & goes_on[past_keys]
        lives = np.searchsorted(firsts, keys.firsts[:-1])[past_keys[chosen]]
        return Lives(groups, lives, past.filter(pa.array(chosen)), np.append(np.diff(owners) > 0, True))


FOR_EVER = Lifetime(None)
