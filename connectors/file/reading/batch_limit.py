"""Limits a micro-batch: reduces offsets to what a limit allows, at ends of events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.file.reading.file_location import FileLostError, open_tracked
from connectors.file.reading.file_stream import CorruptError, FileStream
from connectors.file.reading.tracked_files import END, NO_TEXT, FileOffsets, TrackedFile, sample
from connectors.shared.lines.event_boundaries import LineBoundaries
from etl.api import Limit

COMPRESSION_RATIO = 8
"""Assumed bytes of text for one byte of a compressed file."""


def estimated_bytes(file: TrackedFile, begin: int) -> int:
    """Return the bytes between ``begin`` and the file's offset; an estimate for a compressed file that is read to its end."""
    return max(file.size * COMPRESSION_RATIO - begin, 1) if file.offset == END else file.offset - begin


def apply_limit(start: FileOffsets, target: FileOffsets, limit: Limit, boundaries: LineBoundaries) -> FileOffsets:
    """Return the target offsets, or as much as the limit allows: bytes divided over the files, events in their order."""
    work = [_FileRange(file, start.begin(file), start.files.get(file.name)) for file in target.ordered()]
    work = [one for one in work if one.file.offset > one.begin]
    chosen = _by_bytes(work, limit.max_bytes, boundaries)
    if limit.max_events is not None:
        chosen = _by_events([replace(one, file=chosen[one.file.name]) for one in work], limit.max_events, boundaries)
    return replace(target, files=target.files | chosen)


def unread_bytes(start: FileOffsets, target: FileOffsets) -> int:
    """Return the bytes of text between two offsets."""
    return sum(estimated_bytes(file, begin) for file in target.ordered() if file.offset > (begin := start.begin(file)))


@dataclass(frozen=True, slots=True)
class _FileRange:
    """What there is to read of one file: from ``begin`` to ``file.offset``."""

    file: TrackedFile
    begin: int
    before: TrackedFile | None
    """The file in the offset at the batch's start."""

    @property
    def estimated_bytes(self) -> int:
        return estimated_bytes(self.file, self.begin)

    def unread(self) -> TrackedFile:
        """Return the file at its current path, with the offset at the batch's start."""
        if self.file.codec:
            return replace(self.file, offset=self.begin)
        waiting = replace(self.file, offset=self.begin, sample=self.before.sample if self.before else NO_TEXT)
        return waiting if self.begin else replace(waiting, ahead=self.file.offset, ahead_sample=self.file.sample)


def _by_bytes(work: list[_FileRange], left: int, boundaries: LineBoundaries) -> dict[str, TrackedFile]:
    chosen = {}
    for count, one in enumerate(sorted(work, key=lambda one: one.estimated_bytes)):
        share = max(left, 0) // (len(work) - count)
        if left <= 0 and count:
            chosen[one.file.name] = one.unread()
            continue
        whole = one.estimated_bytes <= share or one.file.codec is not None
        chosen[one.file.name] = one.file if whole else _end_near(one.file, one.begin, one.begin + share, boundaries)
        left -= estimated_bytes(chosen[one.file.name], one.begin)
    return chosen


def _by_events(work: list[_FileRange], left: int, boundaries: LineBoundaries) -> dict[str, TrackedFile]:
    chosen = {}
    for one in work:
        chosen_file, events = _end_after_events(one.file, one.begin, left, boundaries) if left else (one.unread(), 0)
        chosen[one.file.name] = chosen_file
        left -= events
    return chosen


def _end_near(file: TrackedFile, begin: int, position: int, boundaries: LineBoundaries) -> TrackedFile:
    """Reduce to the end of the last event at or before ``position``, or to the end of the first event, however long."""
    try:
        with open_tracked(file) as stream:
            end = boundaries.last_event_end(stream, begin, position)
            if end == begin:
                end, _ = boundaries.count(stream, begin, file.offset, 1)
            return _with_offset(file, end, stream)
    except FileLostError:
        return file


def _end_after_events(file: TrackedFile, begin: int, max_events: int, boundaries: LineBoundaries) -> tuple[TrackedFile, int]:
    """Reduce to the end of its ``max_events``-th event; also return the number of events."""
    if file.offset == begin:
        return file, 0
    try:
        with open_tracked(file) as stream:
            end, events = boundaries.count(stream, begin, file.offset, max_events)
            return _with_offset(file, end, stream), events
    except (FileLostError, CorruptError):
        return file, max_events  # to its end: the read gives a dead letter for the broken part, and nothing after it


def _with_offset(file: TrackedFile, end: int, stream: FileStream) -> TrackedFile:
    return replace(file, offset=end) if file.codec else replace(file, offset=end, sample=sample(stream, end))
