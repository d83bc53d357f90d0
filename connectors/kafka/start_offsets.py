"""Start offset of a new pipeline in each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from connectors.kafka import topics
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.consumer_groups import fetch_committed
from connectors.kafka.offset_ranges import OffsetRanges, TopicRange
from connectors.kafka.topics import Partition, Topic
from etl.api import ComponentError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = 8
"""Maximum number of partitions that a message lists."""

StartMode = Literal["earliest", "latest", "timestamp", "offsets", "group"]


@dataclass(frozen=True)
class StartOffsets:
    """The options that choose the start."""

    mode: StartMode
    time: datetime | None
    offsets: Mapping[str, Mapping[int, int]]
    group: str | None
    settings: ClientSettings
    is_committed: bool

    def resolve(self, found: Mapping[str, Topic]) -> OffsetRanges:
        """Return the start offset of each partition of these topics, as empty ranges."""
        partitions = [(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        offsets = _RESOLVERS[self.mode](self, partitions)
        return empty_ranges(found, offsets)

    def _earliest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return topics.fetch_begin_offsets(self.settings, partitions)

    def _latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return topics.fetch_end_offsets(self.settings, partitions, self.is_committed)

    def _timestamp(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        assert self.time is not None
        return topics.fetch_offsets_at(self.settings, partitions, int(self.time.timestamp() * 1000))

    def _offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        requested = {(name, n): at for name, given in self.offsets.items() for n, at in given.items()}
        self._check_partitions_exist(requested, partitions)
        ends = topics.fetch_end_offsets(self.settings, requested, committed=False)
        for (name, number), at in requested.items():
            if at > ends[name, number]:
                raise ComponentError(
                    f"start_offsets: {name}/{number} cannot start at offset {at}, it ends at {ends[name, number]}; "
                    "correct the offset, or leave it out to begin at the first message"
                )
        return self._or_earliest(partitions, requested)

    def _check_partitions_exist(self, requested: Iterable[Partition], partitions: Sequence[Partition]) -> None:
        """Raise ComponentError for an unknown partition: the partition that was meant would silently be read from its first
        message.
        """
        names = [f"{name}/{number}" for name, number in partitions]
        for name, number in requested:
            if (name, number) not in partitions:
                hint = nearest(f"{name}/{number}", names) or f"there are {', '.join(names[:_SHOWN])}"
                raise ComponentError(f"start_offsets: there is no partition {name}/{number}; {hint}")

    def _group(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        assert self.group is not None
        return self._or_earliest(partitions, fetch_committed(self.settings, self.group, partitions))

    def _or_earliest(self, partitions: Sequence[Partition], known: Mapping[Partition, int]) -> dict[Partition, int]:
        return {partition: known[partition] for partition in partitions if partition in known} | topics.fetch_begin_offsets(
            self.settings, [partition for partition in partitions if partition not in known]
        )


_RESOLVERS: Mapping[StartMode, Callable[[StartOffsets, Sequence[Partition]], dict[Partition, int]]] = {
    "earliest": StartOffsets._earliest,
    "latest": StartOffsets._latest,
    "timestamp": StartOffsets._timestamp,
    "offsets": StartOffsets._offsets,
    "group": StartOffsets._group,
}


def empty_ranges(found: Mapping[str, Topic], offsets: Mapping[Partition, int]) -> OffsetRanges:
    """Return ranges at these offsets that read nothing."""

    def at(name: str, numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(offsets[name, number] for number in numbers)

    offsets_by_topic = {name: (topic.id, at(name, range(topic.partitions))) for name, topic in found.items()}
    return OffsetRanges({name: TopicRange(id_, offsets, offsets) for name, (id_, offsets) in offsets_by_topic.items()})
