"""Positions of a subscriber in a stream, and the micro-batches and splits between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from connectors.shared.journal.reader import Journal, RecordSpan
from connectors.stream.index import StreamIndex
from etl.api import Limit, Offset, Split

MIN_SPLIT_BYTES = 1 << 20
"""Smallest number of compressed bytes for which a split of its own is worth its cost."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Before the event ``number`` of a stream."""

    stream: str
    """Id of the stream; empty as long as it does not exist."""
    at: int = 0
    """Where the record of the event begins in the journal, or the end of the last one."""
    event: int = 0
    """Number of the first event of that record."""
    skip: int = 0
    """How many events of that record are before the position."""

    @property
    def number(self) -> int:
        """Number of the next event."""
        return self.event + self.skip

    @classmethod
    def from_offset(cls, offset: Offset) -> StreamPosition:
        """Read an offset of the source."""
        return cls(offset["stream"], offset["at"], offset["event"], offset["skip"])

    def to_offset(self) -> Offset:
        """Return the offset of the source, as JSON."""
        return {"stream": self.stream, "at": self.at, "event": self.event, "skip": self.skip}

    @classmethod
    def first_of(cls, index: StreamIndex) -> StreamPosition:
        """Before the first event that still exists."""
        return cls(index.id, index.first, index.first_event)

    @classmethod
    def end_of(cls, index: StreamIndex) -> StreamPosition:
        """After the last event."""
        return cls(index.id, index.end, index.events)

    def exists_in(self, index: StreamIndex) -> bool:
        """Whether no event from here on was deleted."""
        return not self.stream or (self.stream == index.id and self.at >= index.first)


class RecordRange(NamedTuple):
    """What a split reads: records from ``at`` on, the first of which begins with event ``event``."""

    at: int
    event: int


def find_batch_end(journal: Journal, start: StreamPosition, index: StreamIndex, limit: Limit) -> StreamPosition:
    """Return the end of the next micro-batch, which begins at ``start``."""
    end = StreamPosition.from_offset(limit.until) if limit.until else StreamPosition.end_of(index)
    if limit.max_events is None and end.at - start.at <= limit.max_bytes:
        return end
    position, left = start, limit.max_events
    for span in _spans(journal, start.at, end.at):
        coming = span.events - position.skip
        if left is not None and coming > left:
            return replace(position, skip=position.skip + left)
        left = None if left is None else left - coming
        position = StreamPosition(index.id, span.end, position.event + span.events)
        if position.at - start.at >= limit.max_bytes:
            return position
    if end.skip and left is not None:
        return replace(end, skip=min(end.skip, position.skip + left))
    return end


def divide(journal: Journal, first: StreamPosition, last: StreamPosition, parallelism: int) -> list[Split]:
    """Return about ``parallelism`` splits of equal size between two positions."""
    begin = RecordRange(first.at, first.event)
    size = max(MIN_SPLIT_BYTES, -(-(last.at - first.at) // parallelism))
    splits: list[Split] = []
    event, since = first.event, first.number
    for span in _spans(journal, first.at, last.at):
        event += span.events
        if span.end - begin.at >= size:
            splits.append(Split(first.stream, since, event, begin))
            begin, since = RecordRange(span.end, event), event
    return splits if since == last.number else [*splits, Split(first.stream, since, last.number, begin)]


def _spans(journal: Journal, start: int, end: int) -> Iterator[RecordSpan]:
    """The records that begin between two positions."""
    for span in journal.walk(start):
        if span.begin >= end:
            return
        yield span
