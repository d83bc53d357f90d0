"""Where in its split each event stands: its offset, and which it is of the events that have the same offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from etl.api import OFFSET, ComponentError


class Position(NamedTuple):
    """An event's place. ``again`` counts events that one event was made into."""

    offset: int
    again: int


BEFORE_ALL = Position(-(2**63), -1)
WHOLE = Position(2**63 - 1, 0)
"""Behind all events: a split that was written in one transaction."""


@dataclass(frozen=True)
class Placed:
    """A batch whose events' positions are known."""

    batch: pa.RecordBatch
    again: pa.Array

    @property
    def last(self) -> Position:
        """The last event's."""
        return Position(self.batch.column(OFFSET)[-1].as_py(), self.again[-1].as_py())

    def behind(self, position: Position) -> Placed:
        """The events behind a position; they are in order, so the rest of the batch."""
        import numpy as np

        offsets = self.batch.column(OFFSET).to_numpy()
        first = int(np.searchsorted(offsets, position.offset, "left"))
        same = int(np.searchsorted(offsets, position.offset, "right"))
        first += int(np.searchsorted(self.again.slice(first, same - first).to_numpy(), position.again, "right"))
        return Placed(self.batch.slice(first), self.again.slice(first))


def placed(batch: pa.RecordBatch, before: Position) -> Placed:
    """The positions of a batch that follows ``before``. Raises ComponentError where events do not keep their order."""
    import numpy as np

    offsets = batch.column(OFFSET).to_numpy()
    steps = np.diff(offsets, prepend=before.offset if before.again >= 0 else offsets[0])
    if (steps < 0).any():
        raise ComponentError(
            "events come in another order than they were read in, and the ledger of sink database tells by their order what was "
            "written; delivery: at_least_once does without it"
        )
    rows = np.arange(len(offsets))
    same = steps == 0
    if before.again < 0:
        same[0] = False
    began = np.maximum.accumulate(np.where(same, -1 - before.again, rows))
    return Placed(batch, pa.array(rows - began, pa.int64()))
