"""The rows that a micro-batch adds to the state of the groups that it has evaluated: see `ROWS`.

Invariant: the rows of state files that count are, for each slot, those that still matter and rows that `remaining_events` and
`SlotBursts.alive` remove again. No earlier epoch is read without a row of the latest one, whose last pane is not before theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import NEVER, PANE
from etl.rules.correlation.evaluation import Evaluated
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.slots import NAMES, ROWS

PANES = 8
"""Panes in a timespan: rows stay an eighth of it longer than they are needed."""

_FEW = 16
"""Maximum number of rows that no longer matter and are read again, in addition to as many as those that matter, before a slot
is written again."""


def pane_lengths(spans: Any, max_length: int) -> Any:
    """int64: microseconds of a pane for these timespans, at most ``max_length``."""
    return np.clip(spans // PANES, 1, max_length)


@dataclass(frozen=True)
class StateUpdate:
    """The rows that a micro-batch adds to the state for the slots of a level."""

    level: Evaluated
    watermark: int
    longest_pane: int

    def table(self) -> pa.Table:
        """Events, bursts, and rows that only have an epoch, with `ROWS`."""
        return pa.concat_tables([self._events(), self._bursts(), self._epochs()])

    @cached_property
    def _find_rewritten_slots(self) -> Any:
        """bool[slots]: which are written as a whole, because rows would be read again that change results or are too many."""
        slots, is_remaining = self.level.slots, self.level.is_remaining
        again = slots.is_stored & ~is_remaining & (slots.numbers(PANE) > self.watermark)
        if not again.any():
            return np.zeros(len(slots), np.bool_)
        dropped, remaining = (np.bincount(slots.slot[some], minlength=len(slots)) for some in (again, is_remaining))
        too_many = (dropped > remaining + _FEW) | (remaining >= MAX_EVENTS)
        return (dropped > 0) & (~slots.monotonic | too_many)

    @cached_property
    def _epoch(self) -> Any:
        """int64[slots]"""
        return np.maximum(self.level.slots.stored.epochs, 0) + self._find_rewritten_slots

    @cached_property
    def _find_written_events(self) -> Any:
        """int64[m]: the numbers of the events that are written."""
        slots = self.level.slots
        return np.flatnonzero(self.level.is_remaining & (~slots.is_stored | self._find_rewritten_slots[slots.slot]))

    @cached_property
    def _written_bursts(self) -> Any:
        """int64[m]: the numbers of the bursts that are written: all of a slot where one has changed."""
        bursts = self.level.bursts
        return np.flatnonzero((bursts.changed | self._find_rewritten_slots)[bursts.slot])

    def _panes(self, times: Any, slot: Any) -> Any:
        """int64[n]: panes that begin at these times or later."""
        length = pane_lengths(self.level.slots.spans[slot], self.longest_pane)
        return -(-times // length) * length

    @cached_property
    def _event_panes(self) -> Any:
        slots, at = self.level.slots, self._find_written_events
        slot = slots.slot[at]
        return self._panes(slots.micros[at] + slots.spans[slot], slot)

    @cached_property
    def _burst_panes(self) -> Any:
        """A timespan after the last event that a burst keeps from giving an alert."""
        slots, bursts, at = self.level.slots, self.level.bursts, self._written_bursts
        slot = bursts.slot[at]
        return self._panes(bursts.last[at] + 2 * slots.spans[slot], slot)

    def _events(self) -> pa.Table:
        slots, at = self.level.slots, self._find_written_events
        slot = slots.slot[at]
        due = np.where(slots.monotonic[slot], NEVER, slots.micros[at] + slots.spans[slot])
        return _with(slots.events(at), {"epoch": self._epoch[slot], "due": due, PANE: self._event_panes})

    def _bursts(self) -> pa.Table:
        slots, bursts, at = self.level.slots, self.level.bursts, self._written_bursts
        slot = bursts.slot[at]
        first = np.append(True, slot[1:] != slot[:-1])[: len(slot)]
        number = np.arange(len(slot)) - np.flatnonzero(first)[np.cumsum(first) - 1]
        values = {"micros": bursts.since[at], "burst_end": bursts.last[at], "order": number.astype(np.int32)}
        return self._of_slots(slot, {**values, "offset": slots.stored.versions[slot] + 1, PANE: self._burst_panes})

    def _epochs(self) -> pa.Table:
        """A row for each slot that is written again and has no row as late as those that it replaces."""
        last = self.level.slots.stored.last_panes.copy()
        newest_pane = np.full(len(last), NEVER)
        np.maximum.at(newest_pane, self.level.slots.slot[self._find_written_events], self._event_panes)
        np.maximum.at(newest_pane, self.level.bursts.slot[self._written_bursts], self._burst_panes)
        slot = np.flatnonzero(self._find_rewritten_slots & (newest_pane < last))
        none, zeros = np.full(len(slot), NEVER), np.zeros(len(slot), np.int64)
        values = {"micros": none, "burst_end": none, "order": zeros.astype(np.int32), "offset": zeros, PANE: last[slot]}
        return self._of_slots(slot, values)

    def _of_slots(self, slot: Any, values: dict[str, Any]) -> pa.Table:
        """Rows of these slots without an event."""
        slots = self.level.slots
        names = slots.rows.select(NAMES).take(pa.array(slots.stored.some_row[slot]))
        columns = {name: names.column(name) for name in NAMES}
        columns |= {name: pa.array(column) for name, column in values.items()}
        columns |= {"epoch": pa.array(self._epoch[slot]), "due": pa.array(np.full(len(slot), NEVER))}
        return pa.table([columns.get(field.name, pa.nulls(len(slot), field.type)) for field in ROWS], ROWS.names).cast(ROWS)


def _with(rows: pa.Table, values: dict[str, Any]) -> pa.Table:
    for name, column in values.items():
        rows = rows.set_column(rows.column_names.index(name), ROWS.field(name), pa.array(column))
    return rows
