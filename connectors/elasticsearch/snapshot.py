"""Reads a point in time once: in parallel slices, or from one document to another if events are counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.elasticsearch.hits import Hits
from connectors.elasticsearch.searches import PointInTime, Search
from etl.api import Offset

SKIP_PAGE_DOCUMENTS = 10_000
"""Documents that one request skips."""


@dataclass(frozen=True)
class Snapshot:
    """Progress of reading a point in time: ``count`` documents are read, the last has the sort values ``after``."""

    pit: PointInTime | None
    after: list[Any] | None = None
    count: int = 0
    over: bool = False

    def to_offset(self) -> Offset:
        """Return the offset of the source, as JSON."""
        pit = self.pit and {"id": self.pit.id, "native": self.pit.native}
        return {"pit": pit, "after": self.after, "count": self.count, "over": self.over}

    @classmethod
    def from_offset(cls, offset: Offset) -> Snapshot:
        """Read an offset of the source."""
        pit = offset["pit"] and PointInTime(**offset["pit"])
        return cls(pit, offset.get("after"), offset.get("count", 0), offset.get("over", False))


@dataclass(frozen=True)
class SnapshotSplit:
    """What a split reads: a slice, or a number of documents after given sort values."""

    pit: PointInTime
    after: list[Any] | None = None
    slice: tuple[int, int] | None = None
    """Its number, and how many there are."""
    max_documents: int | None = None

    def pages(self, search: Search, size: int, more: Mapping[str, Any]) -> Iterator[Hits]:
        """Yield the documents of the split."""
        number, slices = self.slice or (0, 1)
        sliced = {"slice": {"id": number, "max": slices}} if slices > 1 else {}
        left = self.max_documents
        for hits in search.pages(self.pit, size, {**more, **sliced}, self.after):
            if left is not None and len(hits.id) >= left:
                yield hits._replace(index=hits.index[:left], id=hits.id[:left], source=hits.source[:left])
                return
            left = None if left is None else left - len(hits.id)
            yield hits


def plan_splits(start: Snapshot, end: Snapshot, parallelism: int) -> list[tuple[int, int, SnapshotSplit]]:
    """Return start, end and detail of the splits between two offsets; a range that does not cover the whole snapshot is one
    split.
    """
    assert end.pit is not None
    if start.after is not None or not end.over:
        max_documents = None if end.over else end.count - start.count
        return [
            (
                start.count,
                end.count if max_documents else start.count + 1,
                SnapshotSplit(end.pit, start.after, None, max_documents),
            )
        ]
    return [(number, number + 1, SnapshotSplit(end.pit, None, (number, parallelism))) for number in range(parallelism)]


def skip_documents(search: Search, start: Snapshot, pit: PointInTime, max_documents: int) -> Snapshot:
    """Return the offset ``max_documents`` further on; these documents are skipped without being transferred."""
    after, count = start.after, start.count
    goal = count + max_documents
    while count < goal:
        size = min(SKIP_PAGE_DOCUMENTS, goal - count)
        hits = next(search.pages(pit, size, {"_source": False}, after), None)
        if hits is not None:
            after, count = hits.after, count + len(hits.id)
        if hits is None or len(hits.id) < size:
            return Snapshot(pit, after, count, over=True)
    return Snapshot(pit, after, count)
