"""Where events begin and end, for planning: at every newline, or by the rules of `multiline`.

A planner reads as little of a file as possible. Its result equals that of reading from an event's beginning: a line at which
patterns say that an event begins is the same wherever reading starts (`LineGrouping`), and after it events are split as the
reader splits them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.shared.lines.blocks import ReadInto
from connectors.shared.lines.charset import Charset, charset
from connectors.shared.lines.line_cutter import LineCutter
from connectors.shared.lines.line_grouping import LineGrouping
from connectors.shared.lines.multiline import Multiline
from connectors.shared.lines.newlines import Seekable, count_lines, last_line_end, next_line_end
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

FIRST_SEARCH_BYTES = 64 << 10
"""Bytes in which the beginning of an event is searched first."""

_SEARCH_GROWTH = 16
"""Factor by which the searched range grows."""


@dataclass(frozen=True, slots=True)
class LineBoundaries:
    """Finds begins and ends of events if every line is an event."""

    charset: Charset
    idle_timeout: float = 0.0
    """Seconds without a change after which the last event counts as complete."""

    def last_event_end(self, stream: Seekable, start: int, end: int) -> int:
        """Return the end of the last complete event between an event's beginning and any position; ``start`` if there is
        none.
        """
        return self.complete_events_end(stream, start, last_line_end(stream, start, end, self.charset))

    def complete_events_end(self, stream: Seekable, start: int, end: int) -> int:
        """Like `last_event_end`, up to the end of a line."""
        return end

    def batch_end(self, stream: Seekable, start: int, end: int, max_bytes: int) -> int:
        """Like `complete_events_end`, or ``end`` if a batch of ``max_bytes`` ends earlier anyway: a long file is not
        searched for every batch.
        """
        return end

    def next_event_begin(self, stream: Seekable, at: int, end: int) -> int | None:
        """Return the beginning of the first event at or after ``at``; None if there is none before ``end``."""
        return next_line_end(stream, at - self.charset.unit, end, self.charset)

    def count(self, stream: Seekable, begin: int, end: int, max_events: int) -> tuple[int, int]:
        """Return the offset after ``max_events`` from an event's beginning, or ``end``, and the number of events."""
        stream.skip(begin - stream.at)
        return count_lines(stream, end, max_events, self.charset)


@dataclass(frozen=True, slots=True)
class MultilineBoundaries(LineBoundaries):
    """Finds begins and ends of events of several lines."""

    cutter: LineCutter = field(kw_only=True)

    def complete_events_end(self, stream: Seekable, start: int, end: int) -> int:
        begin = self._event_begin_before(stream, start, end)
        for block in self.cutter.cut_blocks(_bound_reads(stream, begin, end), begin, closed=False):
            begin = block.end
        return begin

    def batch_end(self, stream: Seekable, start: int, end: int, max_bytes: int) -> int:
        grouping = self.cutter.grouping
        assert grouping is not None
        largest = max(grouping.max_bytes, self.cutter.max_line_bytes) + 1
        return end if end - start > max(max_bytes, largest) else self.complete_events_end(stream, start, end)

    def next_event_begin(self, stream: Seekable, at: int, end: int) -> int | None:
        begin, size = next_line_end(stream, at - 1, end, self.charset), FIRST_SEARCH_BYTES
        while begin is not None and begin < end:
            until = last_line_end(stream, begin, min(begin + size, end), self.charset)
            if until == begin:
                until = next_line_end(stream, begin, end, self.charset) or end
            for found in self._event_begins(stream, begin, until):
                return int(found[0])
            begin, size = until, size * _SEARCH_GROWTH
        return None

    def count(self, stream: Seekable, begin: int, end: int, max_events: int) -> tuple[int, int]:
        events = 0
        for block in self.cutter.cut_blocks(_bound_reads(stream, begin, end), begin):
            if events + len(block.starts) > max_events:
                return int(block.starts[max_events - events]), max_events
            events += len(block.starts)
        return end, events

    def _event_begin_before(self, stream: Seekable, start: int, end: int) -> int:
        """Return the beginning of an event before ``end``, near it if possible."""
        size = FIRST_SEARCH_BYTES
        while end - size > start:
            begin = next_line_end(stream, end - size - 1, end, self.charset)
            found = [begins[-1] for begins in self._event_begins(stream, begin or end, end)]
            if found:
                return int(found[-1])
            size *= _SEARCH_GROWTH
        return start

    def _event_begins(self, stream: Seekable, begin: int, end: int) -> Iterator[np.ndarray[Any, Any]]:
        """Yield offsets of lines that begin an event, block by block; the first line of a block is undecided and left out."""
        grouping = self.cutter.grouping
        assert isinstance(grouping, LineGrouping)
        cutter = LineCutter(self.charset, self.cutter.max_line_bytes)
        for batch in cutter.cut_batches(_bound_reads(stream, begin, end), begin):
            if isinstance(batch, Rejects):
                continue
            begins = batch.column(OFFSET).to_numpy()[1:][grouping.begins(batch.column("message"))[1:]]
            if len(begins):
                yield begins


def create_cutter(codec: str, max_line_bytes: int, multiline: Multiline | None) -> LineCutter:
    """Return the cutter for a source's options."""
    return LineCutter(charset(codec), max_line_bytes, multiline.grouping() if multiline else None)


def create_boundaries(codec: str, max_line_bytes: int, multiline: Multiline | None) -> LineBoundaries:
    """Return the event boundaries for a source's options."""
    if multiline is None:
        return LineBoundaries(charset(codec))
    cutter = create_cutter(codec, max_line_bytes, multiline)
    return MultilineBoundaries(cutter.charset, multiline.timeout.total_seconds(), cutter=cutter)


def _bound_reads(stream: Seekable, begin: int, end: int) -> ReadInto:
    stream.skip(begin - stream.at)

    def readinto(view: memoryview) -> int:
        left = end - stream.at
        return stream.readinto(view[:left]) if left > 0 else 0

    return readinto
