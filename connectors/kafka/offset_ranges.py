"""The offsets of the source: for each partition the range of Kafka offsets that a micro-batch reads.

A source offset holds the begin of its batch as well as the end: where a new partition begins, or one that lost messages, is
found when the batch is planned, and must not change when the batch runs again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connectors.kafka.topics import Partition
from etl.api import Limit, Offset, Split

MIN_SPLIT_EVENTS = 10_000
"""Smallest number of offsets for which a task of its own is worth its cost."""

DEFAULT_EVENT_BYTES = 512.0
"""Assumed bytes of an event before the first one was read."""


class TopicRange(NamedTuple):
    """Ranges of one topic: its id, and by partition number the first offset and the offset after the last."""

    id: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class OffsetRanges:
    """Ranges of all topics, by topic name."""

    topics: Mapping[str, TopicRange]

    @classmethod
    def from_offset(cls, offset: Offset) -> OffsetRanges:
        """Read a source offset (JSON)."""
        return cls({name: TopicRange(one["id"], tuple(one["from"]), tuple(one["to"])) for name, one in offset["topics"].items()})

    def to_offset(self) -> Offset:
        """Return the source offset (JSON)."""
        topics = {name: {"id": one.id, "from": one.begins, "to": one.ends} for name, one in sorted(self.topics.items())}
        return {"topics": {name: {**one, "from": list(one["from"]), "to": list(one["to"])} for name, one in topics.items()}}

    def ends(self) -> dict[Partition, int]:
        """Return the offset at which the next batch begins, by partition."""
        return {(name, number): end for name, one in self.topics.items() for number, end in enumerate(one.ends)}

    def ranges(self) -> list[tuple[Partition, int, int]]:
        """Return the partitions with something to read, in order, each with its begin and end."""
        return [
            ((name, number), begin, end)
            for name, one in sorted(self.topics.items())
            for number, (begin, end) in enumerate(zip(one.begins, one.ends, strict=True))
            if end > begin
        ]


def max_batch_events(limit: Limit) -> int:
    """Return the maximum number of events of a batch."""
    events = max(1, int(limit.max_bytes / max(1.0, limit.event_bytes or DEFAULT_EVENT_BYTES)))
    return min(events, limit.max_events) if limit.max_events is not None else events


def share_fairly(requested: Mapping[Partition, int], max_messages: int) -> dict[Partition, int]:
    """Divide ``max_messages`` over the partitions: one that wants less than an equal share gets all it wants, the others get the
    same.
    """
    left, given = max_messages, {}
    for waiting, (partition, want) in zip(
        range(len(requested), 0, -1), sorted(requested.items(), key=lambda item: item[1]), strict=True
    ):
        given[partition] = min(want, -(-left // waiting))
        left -= given[partition]
    return given


def plan_splits(position: OffsetRanges, parallelism: int) -> list[Split]:
    """Divide a batch into splits of about equal size, each within one partition."""
    ranges = position.ranges()
    size = max(MIN_SPLIT_EVENTS, -(-sum(end - begin for _, begin, end in ranges) // max(1, parallelism)))
    return [
        Split(f"{topic}/{number}", a, b, (topic, number))
        for (topic, number), begin, end in ranges
        for a, b in _parts(begin, end, size)
    ]


def _parts(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Divide a range into equal parts whose size is nearest to ``size``."""
    parts = max(1, round((end - begin) / size))
    bounds = [begin + (end - begin) * number // parts for number in range(parts + 1)]
    return itertools.pairwise(bounds)


def lowest_ends(ends: Sequence[OffsetRanges]) -> dict[Partition, int]:
    """Return the lowest end of each partition that all of the ranges contain."""
    each = [position.ends() for position in ends]
    return {partition: min(one[partition] for one in each) for partition in each[0] if all(partition in one for one in each)}
