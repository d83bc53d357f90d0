"""A text of its own for every event that a sink gets, the same each time the event is read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import IDENTITY, OFFSET


@dataclass
class Identities:
    """Names the events of one sink in one split: ``begin-offset``, and ``begin-offset.n`` for the n-th after the first of the
    events that one event became. They come one behind the other, but perhaps in several batches."""

    begin: str
    _last: int | None = None
    _again: int = 0

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the column `IDENTITY`."""
        offsets = batch.column(OFFSET)
        texts = pc.binary_join_element_wise(self.begin, pc.cast(offsets, pa.string()), "-")
        again = self._repeats(offsets)
        if again is not None:
            numbered = pc.binary_join_element_wise(texts, pc.cast(again, pa.string()), ".")
            texts = pc.if_else(pc.greater(again, 0), numbered, texts)
        return batch.append_column(IDENTITY, texts)

    def _repeats(self, offsets: pa.Array) -> pa.Array | None:
        """How many events with the same offset stand before each; None where there is none."""
        import numpy as np

        numbers = offsets.to_numpy()
        if not len(numbers):
            return None
        same = np.append(numbers[0] == self._last, numbers[1:] == numbers[:-1])
        rows = np.arange(len(numbers))
        began = np.maximum.accumulate(np.where(same, -1 - self._again, rows))  # the row where its run of equal offsets began
        again = rows - began
        self._last, self._again = int(numbers[-1]), int(again[-1])
        return pa.array(again) if same.any() else None


@dataclass
class LetterIdentities:
    """Names the dead letters of one split: of one event there may be several, each from another step or sink."""

    begin: str
    _places: dict[tuple[str, str], Identities] = field(default_factory=dict)

    def added(self, letters: pa.RecordBatch, at: str, code: str) -> pa.RecordBatch:
        """The batch with the column `IDENTITY`; all of it was rejected at one place with one code."""
        place = self._places.get((at, code))
        if place is None:
            digest = hashlib.sha256(f"{at}\0{code}".encode()).hexdigest()[:8]
            place = self._places[at, code] = Identities(f"{self.begin}-{digest}")
        return place.added(letters)
