"""How far a micro-batch goes: a far position cut back to what a limit allows, where events end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.file.ends import LineEnds
from connectors.file.identity import END, NO_TEXT, Known, Position, sample
from connectors.file.locate import LostError, located
from connectors.file.streams import CorruptError, Stream
from etl.api import Limit

INFLATION = 8
"""Bytes of text for a byte of a compressed file, about."""


def weight(file: Known, begin: int) -> int:
    """Bytes between ``begin`` and the file's offset; estimated where a compressed file is read to its end."""
    return max(file.size * INFLATION - begin, 1) if file.offset == END else file.offset - begin


def cut_back(start: Position, target: Position, limit: Limit, ends: LineEnds) -> Position:
    """The target, or as much of it as the limit allows: bytes spread over the files, events in their order."""
    work = [_Work(file, start.begin(file), start.files.get(file.name)) for file in target.ordered()]
    work = [one for one in work if one.file.offset > one.begin]
    kept = _by_bytes(work, limit.max_bytes, ends)
    if limit.max_events is not None:
        kept = _by_events([replace(one, file=kept[one.file.name]) for one in work], limit.max_events, ends)
    return Position(target.files | kept, target.next)


@dataclass(frozen=True, slots=True)
class _Work:
    """What there is to read of one file: from ``begin`` to ``file.offset``."""

    file: Known
    begin: int
    before: Known | None
    """The file as the batch's start knows it."""

    @property
    def weight(self) -> int:
        return weight(self.file, self.begin)

    def nothing(self) -> Known:
        """The file where it is now, and no further than before."""
        if self.file.codec:
            return replace(self.file, offset=self.begin)
        waiting = replace(self.file, offset=self.begin, sample=self.before.sample if self.before else NO_TEXT)
        return waiting if self.begin else replace(waiting, ahead=self.file.offset, ahead_sample=self.file.sample)


def _by_bytes(work: list[_Work], left: int, ends: LineEnds) -> dict[str, Known]:
    kept = {}
    for count, one in enumerate(sorted(work, key=lambda one: one.weight)):
        share = max(left, 0) // (len(work) - count)
        if left <= 0 and count:
            kept[one.file.name] = one.nothing()
            continue
        whole = one.weight <= share or one.file.codec is not None
        kept[one.file.name] = one.file if whole else _event_near(one.file, one.begin, one.begin + share, ends)
        left -= weight(kept[one.file.name], one.begin)
    return kept


def _by_events(work: list[_Work], left: int, ends: LineEnds) -> dict[str, Known]:
    kept = {}
    for one in work:
        reached, events = _after_events(one.file, one.begin, left, ends) if left else (one.nothing(), 0)
        kept[one.file.name] = reached
        left -= events
    return kept


def _event_near(file: Known, begin: int, wanted: int, ends: LineEnds) -> Known:
    """Up to the last event's end at or before ``wanted``, or to the end of the first event, however long."""
    try:
        with located(file) as stream:
            end = ends.last(stream, begin, wanted)
            if end == begin:
                end, _ = ends.count(stream, begin, file.offset, 1)
            return _ending_at(file, end, stream)
    except LostError:
        return file


def _after_events(file: Known, begin: int, most: int, ends: LineEnds) -> tuple[Known, int]:
    """Up to the end of its ``most``-th event, and how many events that is."""
    if file.offset == begin:
        return file, 0
    try:
        with located(file) as stream:
            end, events = ends.count(stream, begin, file.offset, most)
            return _ending_at(file, end, stream), events
    except (LostError, CorruptError):
        return file, most  # to its end: the dead letter that says what is broken, and nothing behind it


def _ending_at(file: Known, end: int, stream: Stream) -> Known:
    return replace(file, offset=end) if file.codec else replace(file, offset=end, sample=sample(stream, end))
