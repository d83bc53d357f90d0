"""Conditions that are evaluated over windows that have closed."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.rules.correlation.kernels import close_windows, measure_windows
from etl.rules.correlation.member_table import PERCENTILE
from etl.rules.correlation.slots import Slots
from etl.rules.correlation.windows import Windows


def close_slots(slots: Slots, watermark: int) -> tuple[Windows, Any]:
    """The windows that have closed and meet their conditions; and of each slot the first event that is in no closed one."""
    slot, firsts, ends = np.empty((3, len(slots.order)), np.int64)
    count = close_windows(slots.slot_events, slots.table.conditions, np.int64(watermark), slot, firsts, ends)
    slot, firsts, ends = slot[:count], firsts[:count], ends[:count]
    rest = slots.starts[:-1].copy()
    rest[slot] = ends
    measures, holds = _measure(slots, slot, firsts, ends)
    return Windows(slots, slot[holds], firsts[holds], ends[holds], measures[holds]), rest


def _measure(slots: Slots, slot: Any, firsts: Any, ends: Any) -> tuple[Any, Any]:
    """The measures of windows of these slots, and whether they meet the conditions."""
    measures, holds = np.empty(len(slot), np.float64), np.empty(len(slot), np.bool_)
    ranked, conditions = _rank(slots, slot, firsts, ends), slots.table.conditions
    measure_windows(
        firsts, ends, slots.member[slot], slots.slot_events, ranked, conditions, slots.scratch_buffers(), measures, holds
    )
    return measures, holds


def _rank(slots: Slots, slot: Any, firsts: Any, ends: Any) -> Any:
    """float64[n]: the weights sorted in each window, if a condition has a percentile."""
    if not (slots.kinds[slot] == PERCENTILE).any():
        return slots.weights
    edges = np.zeros(len(slots.order) + 1, np.int64)
    edges[firsts] = edges[ends] = 1
    return slots.weights[np.lexsort((slots.weights, np.cumsum(edges)[:-1]))]


def open_windows(slots: Slots) -> Windows:
    """The window of each slot that has events: that which ends with the latest event or, where windows follow one another, that
    which begins with the first."""
    slot = np.flatnonzero(slots.sizes)
    firsts, ends = slots.starts[slot], slots.starts[slot + 1]
    first, last = (np.repeat(slots.micros[at], slots.sizes[slot]) for at in (firsts, ends - 1))
    span = slots.spans[slots.slot]
    inside = np.where(slots.monotonic[slots.slot], slots.micros > last - span, slots.micros < first + span)
    counts = np.bincount(slots.slot[inside], minlength=len(slots))[slot]
    monotonic = slots.monotonic[slot]
    firsts, ends = np.where(monotonic, ends - counts, firsts), np.where(monotonic, ends, firsts + counts)
    return Windows(slots, slot, firsts, ends, _measure(slots, slot, firsts, ends)[0])
