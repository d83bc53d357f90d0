"""Reads a range of events of a stream, in a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from connectors.shared.journal.reader import Journal
from connectors.shared.journal.records import HEADER_BYTES
from connectors.stream.positions import RecordRange
from connectors.stream.records import conform, decode_record, join_batches
from etl.api import OFFSET, Rejects

BATCH_BYTES = 4 << 20
"""Bytes of events after which a batch is complete."""

BATCH_EVENTS = 20_000
"""Number of events after which a batch is complete."""


class LostEventsError(Exception):
    """The publisher deleted events while they were to be read; ``first`` is the number of the first of them."""

    def __init__(self, first: int) -> None:
        super().__init__(f"events from {first} on no longer exist")
        self.first = first


@dataclass(frozen=True, slots=True)
class StreamReader:
    """Reads events with these fields. Many small records become one batch."""

    folder: str
    fields: Mapping[str, pa.DataType]

    def read(self, begin: RecordRange, first: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events ``first`` to before ``end``. Raises LostEventsError if they have been deleted."""
        waiting: list[pa.RecordBatch] = []
        for events in self._batches(begin, first, end):
            full = sum(one.num_rows for one in waiting) >= BATCH_EVENTS or sum(one.nbytes for one in waiting) >= BATCH_BYTES
            if waiting and (full or isinstance(events, Rejects)):
                yield join_batches(waiting)
                waiting = []
            if isinstance(events, Rejects):
                yield events
            else:
                waiting.append(events)
        if waiting:
            yield join_batches(waiting)

    def _batches(self, begin: RecordRange, first: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of each record."""
        at, number = begin
        for piece in Journal(self.folder).read_slices(at, 1 << 62):
            for record in piece.records:
                if piece.at + record.begin - HEADER_BYTES != at:
                    break  # a segment between was deleted
                if number >= end:
                    return
                low, high = max(first - number, 0), min(end - number, record.events)
                if high > low:
                    events = decode_record(piece, record, self.folder).slice(low, high - low)
                    offsets = pa.array(range(number + low, number + high), pa.int64())
                    yield from conform(events.append_column(OFFSET, offsets), self.fields)
                at, number = piece.at + record.end, number + record.events
            else:
                continue
            break
        if number < end:
            raise LostEventsError(max(number, first))
