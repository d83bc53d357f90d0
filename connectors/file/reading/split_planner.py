"""Plans splits: divides large files at events, and packs small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from connectors.file.reading.batch_limit import estimated_bytes
from connectors.file.reading.file_location import FileLostError, open_tracked
from connectors.file.reading.tracked_files import FileOffsets, TrackedFile
from connectors.shared.lines.event_boundaries import LineBoundaries
from etl.api import Split

MIN_SPLIT_BYTES = 4 << 20
"""Smallest part for which a task of its own is worth its cost, in bytes."""

PACK_SLOT = 1 << 40
"""In a pack of ranges, the offsets of the n-th range begin at n times this."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file that one task reads: complete events from ``begin`` to ``end``."""

    file: TrackedFile
    begin: int
    end: int

    @property
    def estimated_bytes(self) -> int:
        """Estimated bytes of the range."""
        return estimated_bytes(self.file, self.begin) if self.end == self.file.offset else self.end - self.begin


def plan_splits(start: FileOffsets, end: FileOffsets, parallelism: int, boundaries: LineBoundaries) -> list[Split]:
    """Divide the work between two offsets in the order of delivery, into about ``parallelism`` equal splits."""
    ranges = [FileRange(file, start.begin(file), file.offset) for file in end.ordered() if file.offset > start.begin(file)]
    size = max(MIN_SPLIT_BYTES, -(-sum(one.estimated_bytes for one in ranges) // parallelism))
    found: list[Split] = []
    pack: list[FileRange] = []
    packed = 0
    for part in (part for one in ranges for part in _parts(one, size, boundaries)):
        if pack and packed + part.estimated_bytes > size:
            found.append(_split(pack))
            pack, packed = [], 0
        pack.append(part)
        packed += part.estimated_bytes
    return [*found, _split(pack)] if pack else found


def _parts(whole: FileRange, size: int, boundaries: LineBoundaries) -> Iterator[FileRange]:
    """Divide a range into parts of about ``size`` bytes; a compressed file is one part."""
    count = round(whole.estimated_bytes / size)
    if count < 2 or whole.file.codec:
        yield whole
        return
    begin = whole.begin
    for cut in _cuts(whole, count, boundaries):
        if cut > begin:
            yield FileRange(whole.file, begin, cut)
            begin = cut
    yield FileRange(whole.file, begin, whole.end)


def _cuts(whole: FileRange, count: int, boundaries: LineBoundaries) -> list[int]:
    length = whole.end - whole.begin
    try:
        with open_tracked(whole.file) as stream:
            desired = [whole.begin + boundaries.charset.whole(length * part // count) for part in range(1, count)]
            found = [boundaries.next_event_begin(stream, at, until) for at, until in pairwise([*desired, whole.end])]
    except FileLostError:
        return []
    return [cut for cut in found if cut is not None and cut < whole.end]


def _split(pack: list[FileRange]) -> Split:
    first = pack[0]
    if len(pack) == 1:
        return Split(first.file.name, first.begin, first.end, (first,))
    content = ",".join(f"{one.file.name}:{one.begin}:{one.end}" for one in pack)
    digest = blake2b(content.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return Split(f"{first.file.name}+{len(pack) - 1}.{digest}", 0, len(pack) * PACK_SLOT, tuple(pack))
