"""Event identities: a unique text for each event of a sink, which stays the same when the event is read again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import IDENTITY, OFFSET
from etl.events import RepeatCounter


@dataclass
class EventIdentities:
    """Identities of the events of one sink in one split: ``prefix-offset``.

    Where a step made several events of one, they follow each other, perhaps over several batches, with the same offset: those
    after the first get ``prefix-offset.n``, n counting from 1.
    """

    prefix: str
    _repeats: RepeatCounter = field(default_factory=RepeatCounter)

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Append the column `IDENTITY`."""
        offsets = batch.column(OFFSET)
        texts = pc.binary_join_element_wise(self.prefix, pc.cast(offsets, pa.string()), "-")
        numbers = self._repeats.numbers(offsets)
        if numbers is not None:
            again = pa.array(numbers)
            numbered = pc.binary_join_element_wise(texts, pc.cast(again, pa.string()), ".")
            texts = pc.if_else(pc.greater(again, 0), numbered, texts)
        return batch.append_column(IDENTITY, texts)


@dataclass
class DeadLetterIdentities:
    """Identities of the dead letters of one split; an event may have several, each from another step or sink."""

    prefix: str
    _by_origin: dict[tuple[str, str], EventIdentities] = field(default_factory=dict)

    def add_to(self, letters: pa.RecordBatch, at: str, code: str) -> pa.RecordBatch:
        """Append the column `IDENTITY`; all letters come from the step, sink or source ``at`` and have the same code."""
        identities = self._by_origin.get((at, code))
        if identities is None:
            digest = hashlib.sha256(f"{at}\0{code}".encode()).hexdigest()[:8]
            identities = self._by_origin[at, code] = EventIdentities(f"{self.prefix}-{digest}")
        return identities.add_to(letters)
