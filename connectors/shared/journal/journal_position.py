"""Position of a source in a journal: at a record, or before an event inside a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from connectors.shared.journal.reader import Journal, RecordSlice, RecordSpan
from etl.api import Limit, Offset


class JournalPosition(NamedTuple):
    """``at`` is the begin of the next event, or the end of the last record; ``record_begin`` is the begin of the record
    around it.
    """

    at: int
    record_begin: int | None = None

    @property
    def record(self) -> int:
        """Where reading the journal may begin."""
        return self.at if self.record_begin is None else self.record_begin

    @classmethod
    def from_offset(cls, offset: Offset) -> JournalPosition:
        """Read an offset of the source."""
        return cls(offset["offset"], offset.get("record"))

    def to_offset(self) -> Offset:
        """Return the offset of the source, as JSON."""
        return {"offset": self.at} if self.record_begin is None else {"offset": self.at, "record": self.record_begin}


EventStarts = Callable[[RecordSlice], list[int]]
"""Returns the begins of the events of a slice's only record, in its buffer and in order."""


def find_batch_end(journal: Journal, start: JournalPosition, limit: Limit, event_starts: EventStarts) -> JournalPosition:
    """Return the end of the next micro-batch."""
    if limit.max_events == 0:
        return start
    until = JournalPosition.from_offset(limit.until) if limit.until else None
    position, taken, left = start, 0, limit.max_events
    for record in journal.walk(start.record):
        if until is not None and record.end > until.at:
            return max(until, position)
        if left is not None:
            coming = (
                record.events if position.record_begin is None else len(_events_from(journal, record, position, event_starts))
            )
            if coming > left:
                return (
                    JournalPosition(_events_from(journal, record, position, event_starts)[left], record.begin)
                    if left
                    else position
                )
            left -= coming
        position, taken = JournalPosition(record.end), taken + record.end - record.begin
        if taken >= limit.max_bytes:
            break
    return position


def _events_from(journal: Journal, record: RecordSpan, position: JournalPosition, event_starts: EventStarts) -> list[int]:
    """Return the begins of a record's events from ``position`` on."""
    (piece,) = journal.read_slices(record.begin, record.begin + 1)
    return [piece.at + at for at in event_starts(piece) if piece.at + at >= position.at]
