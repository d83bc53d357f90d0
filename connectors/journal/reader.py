"""Reading a journal by position, in any process, while it is written to.

A position is where a record begins (or the last one ends). The walk over records looks at their heads only; a payload
is read, and its checksum looked at, where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from connectors.journal.records import HEAD_BYTES, Record, record_at, records
from connectors.journal.segments import Segments

SLICE = 4 << 20
"""Bytes read at once."""


class Stop(NamedTuple):
    """A record on the way: where it begins and ends in the journal, and how many events it holds."""

    begin: int
    end: int
    events: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole records, side by side: ``at`` is the position of the buffer's first byte."""

    at: int
    buffer: pa.Buffer
    records: list[Record]


class Journal:
    """A journal that another process writes."""

    def __init__(self, folder: str) -> None:
        self._segments = Segments(folder)

    @property
    def first(self) -> int:
        """Where what is kept begins."""
        return self._segments.first

    def walk(self, position: int) -> Iterator[Stop]:
        """The records from a position on that are there whole."""
        for start in self._segments.since(position):
            size, at = self._segments.size(start), max(position - start, 0)
            if at >= size:
                continue
            with self._segments.path(start).open("rb") as file:
                while found := _next(file, at):
                    if found.end > size:
                        break
                    yield Stop(start + at, start + found.end, found.events)
                    at = found.end

    def cuts(self, start: int, end: int, parts: int, least: int) -> list[tuple[int, int]]:
        """The stretch between two positions in about so many equal parts that end where records do, none below
        ``least`` bytes but the last."""
        stops = list(takewhile(lambda stop: stop.begin < end, self.walk(start)))
        size = max(least, -(-sum(stop.end - stop.begin for stop in stops) // parts))
        bounds, taken = [start], 0
        for stop in stops:
            taken += stop.end - stop.begin
            if taken >= size:
                bounds.append(min(stop.end, end))
                taken = 0
        return list(pairwise([*bounds, end] if taken else bounds))

    def slices(self, start: int, end: int) -> Iterator[Slice]:
        """The records that begin between two positions, a few megabytes at a time; a longer one is a slice of its own."""
        for first in self._segments.since(start):
            if first < end:
                yield from self._slices(first, max(start - first, 0), end - first)

    def forget(self, before: int) -> None:
        """What ends at or before a position is delivered: delete the segments that hold nothing else."""
        self._segments.forget(before)

    def _slices(self, segment: int, at: int, end: int) -> Iterator[Slice]:
        size, wanted = self._segments.size(segment), SLICE
        if at >= min(size, end):
            return
        with self._segments.path(segment).open("rb", 0) as file:
            while at < min(size, end):
                file.seek(at)
                data = file.read(min(wanted, size - at))
                found = list(records(data))
                if found:
                    here = [record for record in found if at + record.begin - HEAD_BYTES < end]
                    yield Slice(segment + at, pa.py_buffer(data), here)
                    at, wanted = at + found[-1].end, SLICE
                elif len(data) == size - at:
                    return  # it is being written
                else:
                    wanted *= 4


def _next(file: BinaryIO, at: int) -> Record | None:
    file.seek(at)
    return record_at(file.read(HEAD_BYTES), 0, at + HEAD_BYTES)
