"""Which events of slots can still matter after a micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.rules.correlation.member_table import VALUES
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.slots import Slots


def remaining_events(slots: Slots, rest: Any, watermark: int) -> tuple[Any, Any]:
    """bool[n]: the rows that can still matter; int64[slots]: the time of each slot's first row that is not old.

    Of events before the watermark the latest `MemberTable.settled` matter, and of all the latest `MAX_EVENTS`.
    """
    slot, at = slots.slot, np.arange(len(slots.order))
    monotonic = slots.monotonic[slot]
    young = np.where(monotonic, slots.micros > watermark - slots.spans[slot], at >= rest[slot])
    old = young & monotonic & (slots.micros < watermark)
    gone = np.bincount(slot[~young], minlength=len(slots))
    settled = np.bincount(slot[old], minlength=len(slots)) - slots.table.settled[slots.member]
    kept = young & (~old | (at - (slots.starts[:-1] + gone)[slot] >= settled[slot]))
    for full in np.flatnonzero(np.bincount(slot[kept], minlength=len(slots)) > MAX_EVENTS).tolist():
        rows = np.flatnonzero(kept & (slot == full))
        kept[rows] = _latest(slots, full, rows)
    earliest = np.full(len(slots), np.iinfo(np.int64).max)
    some = gone < slots.sizes
    earliest[some] = slots.micros[(slots.starts[:-1] + gone)[some]]
    return kept, earliest


def _latest(slots: Slots, slot: int, rows: Any) -> Any:
    """bool[rows]: the latest row of each rule or value first, then the latest, `MAX_EVENTS` in all."""
    name = "value" if slots.kinds[slot] == VALUES else "rule"
    codes = slots.text_codes(name)[rows]
    _, back = np.unique(codes[::-1], return_index=True)
    kept = np.zeros(len(rows), np.bool_)
    kept[np.sort(len(rows) - 1 - back)[-MAX_EVENTS:]] = True
    others = np.flatnonzero(~kept)
    kept[others[len(others) - (MAX_EVENTS - kept.sum()) :]] = True
    return kept
