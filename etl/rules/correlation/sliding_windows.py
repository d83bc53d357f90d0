"""Conditions that are evaluated with each event, over the window that ends with it; and the bursts in which they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from etl.rules.correlation.kernels import AlertBuffer, BurstBuffer, slide
from etl.rules.correlation.slots import Slots
from etl.rules.correlation.windows import Windows


@dataclass(frozen=True)
class SlotBursts:
    """The bursts of slots."""

    since: Any
    """int64[n]: when the condition first held."""
    last: Any
    slot: Any
    changed: Any
    """bool[slots]: whether a burst of the slot is new or has become longer."""

    def filter(self, selection: Any) -> SlotBursts:
        """Some of them."""
        return SlotBursts(self.since[selection], self.last[selection], self.slot[selection], self.changed)

    def alive(self, slots: Slots, earliest: Any) -> SlotBursts:
        """The bursts that an event can prolong: ``earliest`` (int64[slots]) is the first event that is not old."""
        return self.filter(self.last + slots.spans[self.slot] > earliest[self.slot])


def slide_windows(slots: Slots) -> tuple[Windows, SlotBursts]:
    """The alerts and bursts of monotonic conditions."""
    begins = np.append(0, np.cumsum(slots.burst_counts + slots.sizes))
    bursts = BurstBuffer(begins, slots.burst_counts.copy(), np.empty(begins[-1], np.int64), np.empty(begins[-1], np.int64))
    known = _spread(begins[:-1], slots.burst_counts)
    bursts.since[known], bursts.last[known] = slots.bursts
    events = len(slots.order)
    found = AlertBuffer(np.empty(events, np.int64), np.empty(events, np.int64), np.empty(events, np.float64))
    count = slide(slots.slot_events, slots.table.conditions, bursts, found, slots.scratch_buffers())
    at = found.rows[:count]
    alerts = Windows(slots, slots.slot[at], found.firsts[:count], at + 1, found.measures[:count])
    differs = (bursts.since[known] != slots.bursts[0]) | (bursts.last[known] != slots.bursts[1])
    changed = bursts.counts != slots.burst_counts
    changed[np.repeat(np.arange(len(slots)), slots.burst_counts)[differs]] = True
    alive = _spread(begins[:-1], bursts.counts)
    return alerts, SlotBursts(bursts.since[alive], bursts.last[alive], np.repeat(np.arange(len(slots)), bursts.counts), changed)


def _spread(begins: Any, counts: Any) -> Any:
    """int64: ``counts[i]`` numbers from ``begins[i]`` on, one group after the other."""
    return np.arange(counts.sum()) + np.repeat(begins - np.append(0, np.cumsum(counts)[:-1])[: len(counts)], counts)
