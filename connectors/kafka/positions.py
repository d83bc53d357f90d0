"""Where a source stands, and how far a micro-batch reaches: from and to an offset in each partition.

An offset of the source says where its batch begins, too, and not only where it ends: what begins a new partition, or
one that lost messages, is found out when the batch is planned and is not to be asked for again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connectors.kafka.topics import Partition
from etl.api import Limit, Offset, Split

LEAST_EVENTS = 10_000
"""Offsets that are worth a task of their own."""

USUAL_BYTES = 512.0
"""Bytes of an event while none has been read."""


class Stand(NamedTuple):
    """A topic in an offset: its id, and by partition where the batch begins and ends."""

    id: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Position:
    """Topics by name."""

    topics: Mapping[str, Stand]

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """From JSON."""
        return cls({name: Stand(one["id"], tuple(one["from"]), tuple(one["to"])) for name, one in offset["topics"].items()})

    def offset(self) -> Offset:
        """As JSON."""
        topics = {name: {"id": one.id, "from": one.begins, "to": one.ends} for name, one in sorted(self.topics.items())}
        return {"topics": {name: {**one, "from": list(one["from"]), "to": list(one["to"])} for name, one in topics.items()}}

    def ends(self) -> dict[Partition, int]:
        """What is to be read next."""
        return {(name, number): end for name, one in self.topics.items() for number, end in enumerate(one.ends)}

    def ranges(self) -> list[tuple[Partition, int, int]]:
        """What the batch reads, in order."""
        return [
            ((name, number), begin, end)
            for name, one in sorted(self.topics.items())
            for number, (begin, end) in enumerate(zip(one.begins, one.ends, strict=True))
            if end > begin
        ]


def budget(limit: Limit) -> int:
    """Most events of a batch."""
    events = max(1, int(limit.max_bytes / max(1.0, limit.event_bytes or USUAL_BYTES)))
    return min(events, limit.max_events) if limit.max_events is not None else events


def shared(wanted: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """How much each gets of ``most``: all what it wants where that is little, and the others the same."""
    left, given = most, {}
    for waiting, (partition, want) in zip(
        range(len(wanted), 0, -1), sorted(wanted.items(), key=lambda item: item[1]), strict=True
    ):
        given[partition] = min(want, -(-left // waiting))
        left -= given[partition]
    return given


def splits(position: Position, parallelism: int) -> list[Split]:
    """The batch in about equal parts, each of one partition."""
    ranges = position.ranges()
    size = max(LEAST_EVENTS, -(-sum(end - begin for _, begin, end in ranges) // max(1, parallelism)))
    return [
        Split(f"{topic}/{number}", a, b, (topic, number))
        for (topic, number), begin, end in ranges
        for a, b in _parts(begin, end, size)
    ]


def _parts(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """A range in as many equal parts as come nearest to the size."""
    parts = max(1, round((end - begin) / size))
    bounds = [begin + (end - begin) * number // parts for number in range(parts + 1)]
    return itertools.pairwise(bounds)


def first(ends: Sequence[Position]) -> dict[Partition, int]:
    """What lies in front of all of these positions, in the partitions that all have."""
    each = [position.ends() for position in ends]
    return {partition: min(one[partition] for one in each) for partition in each[0] if all(partition in one for one in each)}
