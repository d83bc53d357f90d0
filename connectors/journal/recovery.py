"""Repairs the journal of a killed run: complete records stay, a torn one is cut off."""

from __future__ import annotations

import logging
import mmap
import os

from connectors.journal.records import complete_records
from connectors.journal.segments import Segments

log = logging.getLogger("sluice.journal")


def recover(segments: Segments) -> None:
    """Truncate every segment to its intact records. Only the last can have a torn one, unless the machine lost power."""
    for start in segments.starts:
        size = segments.size(start)
        end = _intact_bytes(segments, start, size)
        if not end:
            segments.path(start).unlink()
        elif end < size:
            os.truncate(segments.path(start), end)
        if end < size:
            log.warning("%s: cut off a torn record of %d bytes", segments.path(start), size - end)


def _intact_bytes(segments: Segments, start: int, size: int) -> int:
    """Return the end of the last intact record, in bytes from the begin of the segment."""
    if not size:
        return 0
    with (
        segments.path(start).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        return _end_of_intact_records(view)


def _end_of_intact_records(view: memoryview) -> int:
    end = 0
    for record in complete_records(view):
        if not record.is_intact(view):
            break
        end = record.end
    return end
