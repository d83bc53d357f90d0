"""Reading a point in time once: in slices side by side, or (where events are counted) from one document to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.elasticsearch.hits import Hits
from connectors.elasticsearch.searches import Pit, Search
from etl.api import Offset

STRIDE = 10_000
"""Documents that one request passes over."""


@dataclass(frozen=True)
class Snapshot:
    """Where the reading of a point in time stands: behind ``count`` documents, the last with the sort values ``after``."""

    pit: Pit | None
    after: list[Any] | None = None
    count: int = 0
    over: bool = False

    def offset(self) -> Offset:
        """As a source's offset."""
        pit = self.pit and {"id": self.pit.id, "native": self.pit.native}
        return {"pit": pit, "after": self.after, "count": self.count, "over": self.over}

    @classmethod
    def of(cls, offset: Offset) -> Snapshot:
        """Of a source's offset."""
        pit = offset["pit"] and Pit(**offset["pit"])
        return cls(pit, offset.get("after"), offset.get("count", 0), offset.get("over", False))


@dataclass(frozen=True)
class Portion:
    """What a split reads: a slice, or so many documents from a place."""

    pit: Pit
    after: list[Any] | None = None
    slice: tuple[int, int] | None = None
    most: int | None = None

    def pages(self, search: Search, size: int, more: Mapping[str, Any]) -> Iterator[Hits]:
        """Its documents."""
        number, of = self.slice or (0, 1)
        sliced = {"slice": {"id": number, "max": of}} if of > 1 else {}
        left = self.most
        for hits in search.pages(self.pit, size, {**more, **sliced}, self.after):
            if left is not None and len(hits.id) >= left:
                yield hits._replace(index=hits.index[:left], id=hits.id[:left], source=hits.source[:left])
                return
            left = None if left is None else left - len(hits.id)
            yield hits


def slices(start: Snapshot, end: Snapshot, parallelism: int) -> list[tuple[int, int, Portion]]:
    """The work between two positions: start, end and detail of splits. What begins in the middle is one."""
    assert end.pit is not None
    if start.after is not None or not end.over:
        most = None if end.over else end.count - start.count
        return [(start.count, end.count if most else start.count + 1, Portion(end.pit, start.after, None, most))]
    return [(number, number + 1, Portion(end.pit, None, (number, parallelism))) for number in range(parallelism)]


def cursor_after(search: Search, start: Snapshot, pit: Pit, most: int) -> Snapshot:
    """The position ``most`` documents further on: they are passed over once without being sent."""
    after, count = start.after, start.count
    goal = count + most
    while count < goal:
        size = min(STRIDE, goal - count)
        hits = next(search.pages(pit, size, {"_source": False}, after), None)
        if hits is not None:
            after, count = hits.after, count + len(hits.id)
        if hits is None or len(hits.id) < size:
            return Snapshot(pit, after, count, over=True)
    return Snapshot(pit, after, count)
