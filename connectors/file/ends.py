"""Where events end, for whoever plans what is read: at every line's end, or where `multiline` says so.

A planner looks at as little of a file as it can. What it says is what reading from an event's beginning finds: places
at which a pattern tells that an event begins are the same from wherever one looks (`Grouping`), and behind such a place
events are cut as a reader cuts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.file.blocks import ReadInto
from connectors.file.charset import Charset, charset
from connectors.file.grouping import Grouping
from connectors.file.lines import Cutter
from connectors.file.multiline import Multiline
from connectors.file.newlines import Seekable, count_lines, last_line_end, next_line_end
from etl.api import OFFSET, Rejects

if TYPE_CHECKING:
    import numpy as np

NEAR = 64 << 10
"""Bytes in which an event's beginning is looked for first."""

_WIDER = 16
"""How many times more are looked at next."""


@dataclass(frozen=True, slots=True)
class LineEnds:
    """Every line is an event."""

    charset: Charset
    patience: float = 0.0
    """Seconds without a change after which the last event is taken as it is."""

    def last(self, stream: Seekable, start: int, end: int) -> int:
        """Where the last whole event between an event's beginning and any place ends; ``start`` when there is none."""
        return self.closed(stream, start, last_line_end(stream, start, end, self.charset))

    def closed(self, stream: Seekable, start: int, end: int) -> int:
        """The same up to a line's end."""
        return end

    def reached(self, stream: Seekable, start: int, end: int, most: int) -> int:
        """The same, or ``end`` where that is so far that a batch of ``most`` bytes is cut back anyway: a long file is not
        looked through for every batch."""
        return end

    def after(self, stream: Seekable, at: int, end: int) -> int | None:
        """Where a next event begins, at ``at`` or behind; None when none is found before ``end``."""
        return next_line_end(stream, at - self.charset.unit, end, self.charset)

    def count(self, stream: Seekable, begin: int, end: int, most: int) -> tuple[int, int]:
        """From an event's beginning: the offset after ``most`` events, or ``end``, and how many events that is."""
        stream.skip(begin - stream.at)
        return count_lines(stream, end, most, self.charset)


@dataclass(frozen=True, slots=True)
class EventEnds(LineEnds):
    """Lines make events."""

    cutter: Cutter = field(kw_only=True)

    def closed(self, stream: Seekable, start: int, end: int) -> int:
        begin = self._before(stream, start, end)
        for cut in self.cutter.cuts(_bounded(stream, begin, end), begin, closed=False):
            begin = cut.end
        return begin

    def reached(self, stream: Seekable, start: int, end: int, most: int) -> int:
        grouping = self.cutter.grouping
        assert grouping is not None
        largest = max(grouping.max_bytes, self.cutter.max_line_bytes) + 1
        return end if end - start > max(most, largest) else self.closed(stream, start, end)

    def after(self, stream: Seekable, at: int, end: int) -> int | None:
        begin, size = next_line_end(stream, at - 1, end, self.charset), NEAR
        while begin is not None and begin < end:
            until = last_line_end(stream, begin, min(begin + size, end), self.charset)
            if until == begin:
                until = next_line_end(stream, begin, end, self.charset) or end
            for found in self._beginnings(stream, begin, until):
                return int(found[0])
            begin, size = until, size * _WIDER
        return None

    def count(self, stream: Seekable, begin: int, end: int, most: int) -> tuple[int, int]:
        events = 0
        for cut in self.cutter.cuts(_bounded(stream, begin, end), begin):
            if events + len(cut.starts) > most:
                return int(cut.starts[most - events]), most
            events += len(cut.starts)
        return end, events

    def _before(self, stream: Seekable, start: int, end: int) -> int:
        """A place before ``end`` where an event begins, near to it when there is one."""
        size = NEAR
        while end - size > start:
            begin = next_line_end(stream, end - size - 1, end, self.charset)
            found = [places[-1] for places in self._beginnings(stream, begin or end, end)]
            if found:
                return int(found[-1])
            size *= _WIDER
        return start

    def _beginnings(self, stream: Seekable, begin: int, end: int) -> Iterator[np.ndarray[Any, Any]]:
        """Places of lines between two line ends that begin an event, block by block; not all, for the first line of each
        block tells nothing without the line before."""
        grouping = self.cutter.grouping
        assert isinstance(grouping, Grouping)
        lines = Cutter(self.charset, self.cutter.max_line_bytes)
        for batch in lines.lines(_bounded(stream, begin, end), begin):
            if isinstance(batch, Rejects):
                continue
            places = batch.column(OFFSET).to_numpy()[1:][grouping.begins(batch.column("message"))[1:]]
            if len(places):
                yield places


def event_cutter(codec: str, max_line_bytes: int, multiline: Multiline | None) -> Cutter:
    """What cuts the events of a source with these options."""
    return Cutter(charset(codec), max_line_bytes, multiline.grouping() if multiline else None)


def event_ends(codec: str, max_line_bytes: int, multiline: Multiline | None) -> LineEnds:
    """Where they end."""
    if multiline is None:
        return LineEnds(charset(codec))
    cutter = event_cutter(codec, max_line_bytes, multiline)
    return EventEnds(cutter.charset, multiline.timeout.total_seconds(), cutter=cutter)


def _bounded(stream: Seekable, begin: int, end: int) -> ReadInto:
    stream.skip(begin - stream.at)

    def readinto(view: memoryview) -> int:
        left = end - stream.at
        return stream.readinto(view[:left]) if left > 0 else 0

    return readinto
