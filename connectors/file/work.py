"""Two positions → splits: large files cut where events begin, small ones packed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from connectors.file.ends import LineEnds
from connectors.file.identity import Known, Position
from connectors.file.locate import LostError, located
from connectors.file.reach import weight
from etl.api import Split

SMALLEST = 4 << 20
"""Bytes below which a part is not worth a task of its own."""

SLOT = 1 << 40
"""In a pack of ranges, the offsets of the n-th begin at n times this."""


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file that one task reads: whole events from ``begin`` to ``end``."""

    file: Known
    begin: int
    end: int

    @property
    def weight(self) -> int:
        """About how many bytes it is."""
        return weight(self.file, self.begin) if self.end == self.file.offset else self.end - self.begin


def splits(start: Position, end: Position, parallelism: int, ends: LineEnds) -> list[Split]:
    """The work between two positions in the order of delivery, in about ``parallelism`` equal parts."""
    ranges = [Range(file, start.begin(file), file.offset) for file in end.ordered() if file.offset > start.begin(file)]
    size = max(SMALLEST, -(-sum(one.weight for one in ranges) // parallelism))
    found: list[Split] = []
    pack: list[Range] = []
    packed = 0
    for part in (part for one in ranges for part in _parts(one, size, ends)):
        if pack and packed + part.weight > size:
            found.append(_split(pack))
            pack, packed = [], 0
        pack.append(part)
        packed += part.weight
    return [*found, _split(pack)] if pack else found


def _parts(whole: Range, size: int, ends: LineEnds) -> Iterator[Range]:
    """A range in parts of about ``size`` bytes, a compressed one in one."""
    count = round(whole.weight / size)
    if count < 2 or whole.file.codec:
        yield whole
        return
    begin = whole.begin
    for cut in _cuts(whole, count, ends):
        if cut > begin:
            yield Range(whole.file, begin, cut)
            begin = cut
    yield Range(whole.file, begin, whole.end)


def _cuts(whole: Range, count: int, ends: LineEnds) -> list[int]:
    length = whole.end - whole.begin
    try:
        with located(whole.file) as stream:
            wanted = [whole.begin + ends.charset.whole(length * part // count) for part in range(1, count)]
            found = [ends.after(stream, at, until) for at, until in pairwise([*wanted, whole.end])]
    except LostError:
        return []
    return [cut for cut in found if cut is not None and cut < whole.end]


def _split(pack: list[Range]) -> Split:
    first = pack[0]
    if len(pack) == 1:
        return Split(first.file.name, first.begin, first.end, (first,))
    content = ",".join(f"{one.file.name}:{one.begin}:{one.end}" for one in pack)
    digest = blake2b(content.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return Split(f"{first.file.name}+{len(pack) - 1}.{digest}", 0, len(pack) * SLOT, tuple(pack))
