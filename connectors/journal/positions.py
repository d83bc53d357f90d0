"""Where a source over a journal stands: at a record, or in front of an event inside one where events are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from connectors.journal.reader import Journal, Slice, Stop
from etl.api import Limit, Offset


class Position(NamedTuple):
    """``at`` is where the next event begins or the last record ended; ``record``, where the record around it begins."""

    at: int
    inside: int | None = None

    @property
    def record(self) -> int:
        """Where a walk over the journal may begin."""
        return self.at if self.inside is None else self.inside

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """What `offset` made."""
        return cls(offset["offset"], offset.get("record"))

    def offset(self) -> Offset:
        """For Spark's log."""
        return {"offset": self.at} if self.inside is None else {"offset": self.at, "record": self.inside}


Members = Callable[[Slice], list[int]]
"""Where the events of a slice's only record begin, in its buffer and in order."""


def latest(journal: Journal, start: Position, limit: Limit, members: Members) -> Position:
    """How far a micro-batch may go."""
    if limit.max_events == 0:
        return start
    until = Position.of(limit.until) if limit.until else None
    here, taken, left = start, 0, limit.max_events
    for stop in journal.walk(start.record):
        if until is not None and stop.end > until.at:
            return max(until, here)
        if left is not None:
            coming = stop.events if here.inside is None else len(_from(journal, stop, here, members))
            if coming > left:
                return Position(_from(journal, stop, here, members)[left], stop.begin) if left else here
            left -= coming
        here, taken = Position(stop.end), taken + stop.end - stop.begin
        if taken >= limit.max_bytes:
            break
    return here


def _from(journal: Journal, stop: Stop, here: Position, members: Members) -> list[int]:
    """The positions of the events of a record from ``here`` on."""
    (piece,) = journal.slices(stop.begin, stop.begin + 1)
    return [piece.at + at for at in members(piece) if piece.at + at >= here.at]
