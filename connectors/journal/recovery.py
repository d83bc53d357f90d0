"""What a run that was killed left of its journal: whole records stay, a torn one is cut off."""

from __future__ import annotations

import logging
import mmap
import os

from connectors.journal.records import records
from connectors.journal.segments import Segments

log = logging.getLogger("sluice.journal")


def recover(segments: Segments) -> None:
    """Cut every segment back to its whole records. Only the last has a torn one, unless the machine lost power."""
    for start in segments.starts:
        size = segments.size(start)
        end = _sound(segments, start, size)
        if not end:
            segments.path(start).unlink()
        elif end < size:
            os.truncate(segments.path(start), end)
        if end < size:
            log.warning("%s: cut off a torn record of %d bytes", segments.path(start), size - end)


def _sound(segments: Segments, start: int, size: int) -> int:
    """Where the last record ends that is as it was written, in bytes from the segment's beginning."""
    if not size:
        return 0
    with (
        segments.path(start).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        return _last_whole(view)


def _last_whole(view: memoryview) -> int:
    end = 0
    for record in records(view):
        if not record.whole(view):
            break
        end = record.end
    return end
