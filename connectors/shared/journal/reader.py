"""Reads a journal by position, in any process, while it is written.

A position is the begin of a record, or the end of the last one. Walking over records reads their headers only; payloads are
read, and their checksums verified, where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from connectors.shared.journal.records import HEADER_BYTES, Record, complete_records, parse_header
from connectors.shared.journal.segments import Segments

SLICE_BYTES = 4 << 20
"""Bytes read at a time."""


class RecordSpan(NamedTuple):
    """Begin and end of a record in the journal, and its number of events."""

    begin: int
    end: int
    events: int


@dataclass(frozen=True, slots=True)
class RecordSlice:
    """Consecutive complete records; ``at`` is the position of the buffer's first byte."""

    at: int
    buffer: pa.Buffer
    records: list[Record]


class Journal:
    """A journal that another process writes."""

    def __init__(self, folder: str) -> None:
        self._segments = Segments(folder)

    @property
    def first(self) -> int:
        """Position of the first byte that still exists."""
        return self._segments.first

    def walk(self, position: int) -> Iterator[RecordSpan]:
        """Yield the complete records from a position on."""
        for start in self._segments.starts_from(position):
            size, at = self._segments.size(start), max(position - start, 0)
            if at >= size:
                continue
            with self._segments.path(start).open("rb") as file:
                while found := _read_header(file, at):
                    if found.end > size:
                        break
                    yield RecordSpan(start + at, start + found.end, found.events)
                    at = found.end

    def divide(self, start: int, end: int, parts: int, min_bytes: int) -> list[tuple[int, int]]:
        """Divide the range between two positions into about ``parts`` equal parts that end at records' ends, each of at least
        ``min_bytes`` except the last.
        """
        spans = list(takewhile(lambda span: span.begin < end, self.walk(start)))
        size = max(min_bytes, -(-sum(span.end - span.begin for span in spans) // parts))
        bounds, taken = [start], 0
        for span in spans:
            taken += span.end - span.begin
            if taken >= size:
                bounds.append(min(span.end, end))
                taken = 0
        return list(pairwise([*bounds, end] if taken else bounds))

    def read_slices(self, start: int, end: int) -> Iterator[RecordSlice]:
        """Yield the records that begin between two positions, a few megabytes at a time; a longer record is a slice of its
        own.
        """
        for first in self._segments.starts_from(start):
            if first < end:
                yield from self._slices(first, max(start - first, 0), end - first)

    def delete_before(self, before: int) -> None:
        """Delete the segments that end at or before a delivered position."""
        self._segments.delete_before(before)

    def _slices(self, segment: int, at: int, end: int) -> Iterator[RecordSlice]:
        size, read_bytes = self._segments.size(segment), SLICE_BYTES
        if at >= min(size, end):
            return
        with self._segments.path(segment).open("rb", 0) as file:
            while at < min(size, end):
                file.seek(at)
                data = file.read(min(read_bytes, size - at))
                found = list(complete_records(data))
                if found:
                    inside = [record for record in found if at + record.begin - HEADER_BYTES < end]
                    yield RecordSlice(segment + at, pa.py_buffer(data), inside)
                    at, read_bytes = at + found[-1].end, SLICE_BYTES
                elif len(data) == size - at:
                    return  # the record is being written
                else:
                    read_bytes *= 4


def _read_header(file: BinaryIO, at: int) -> Record | None:
    file.seek(at)
    return parse_header(file.read(HEADER_BYTES), 0, at + HEADER_BYTES)
