"""Positions of events in their split: the offset, and the ordinal among events of the same offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from etl.api import OFFSET, ComponentError


class EventPosition(NamedTuple):
    """Position of an event. ``ordinal`` counts, from 0, the events that a step made from the event at ``offset``."""

    offset: int
    ordinal: int


START_OF_SPLIT = EventPosition(-(2**63), -1)
"""The position before all events."""
END_OF_SPLIT = EventPosition(2**63 - 1, 0)
"""The position after all events: that of a split that was written in one transaction."""


@dataclass(frozen=True)
class PositionedBatch:
    """A batch in the order of offsets, with the ordinals (int64) of its events."""

    batch: pa.RecordBatch
    ordinal: pa.Array

    @property
    def last(self) -> EventPosition:
        """Position of the last event."""
        return EventPosition(self.batch.column(OFFSET)[-1].as_py(), self.ordinal[-1].as_py())

    def after(self, position: EventPosition) -> PositionedBatch:
        """Return the events after a position; events are in order, so they are the end of the batch."""
        import numpy as np

        offsets = self.batch.column(OFFSET).to_numpy()
        first = int(np.searchsorted(offsets, position.offset, "left"))
        same = int(np.searchsorted(offsets, position.offset, "right"))
        first += int(np.searchsorted(self.ordinal.slice(first, same - first).to_numpy(), position.ordinal, "right"))
        return PositionedBatch(self.batch.slice(first), self.ordinal.slice(first))


def add_positions(batch: pa.RecordBatch, before: EventPosition, sink: str) -> PositionedBatch:
    """Add ordinals to a batch whose events follow the position ``before``. Raises ComponentError if events are not in order."""
    import numpy as np

    offsets = batch.column(OFFSET).to_numpy()
    steps = np.diff(offsets, prepend=before.offset if before.ordinal >= 0 else offsets[0])
    if (steps < 0).any():
        raise ComponentError(
            f"events arrive in another order than they were read, but the ledger of sink {sink} relies on their order to know "
            "what is written; use delivery: at_least_once"
        )
    rows = np.arange(len(offsets))
    same = steps == 0
    if before.ordinal < 0:
        same[0] = False
    began = np.maximum.accumulate(np.where(same, -1 - before.ordinal, rows))
    return PositionedBatch(batch, pa.array(rows - began, pa.int64()))
