"""Where a new pipeline begins in each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from connectors.kafka import topics
from connectors.kafka.access import Settings
from connectors.kafka.groups import committed
from connectors.kafka.positions import Position, Stand
from connectors.kafka.topics import Partition, Topic
from etl.api import ComponentError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = 8
"""Partitions that a message names."""

Start = Literal["earliest", "latest", "timestamp", "offsets", "group"]


@dataclass(frozen=True)
class Beginning:
    """The options that say where to begin."""

    how: Start
    time: datetime | None
    offsets: Mapping[str, Mapping[int, int]]
    group: str | None
    settings: Settings
    is_committed: bool

    def position(self, found: Mapping[str, Topic]) -> Position:
        """In each partition of these topics."""
        places = [(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        marks = _FIND[self.how](self, places)
        return standing(found, marks)

    def _earliest(self, places: Sequence[Partition]) -> dict[Partition, int]:
        return topics.begins(self.settings, places)

    def _latest(self, places: Sequence[Partition]) -> dict[Partition, int]:
        return topics.ends(self.settings, places, self.is_committed)

    def _timestamp(self, places: Sequence[Partition]) -> dict[Partition, int]:
        assert self.time is not None
        return topics.at_time(self.settings, places, int(self.time.timestamp() * 1000))

    def _offsets(self, places: Sequence[Partition]) -> dict[Partition, int]:
        wanted = {(name, n): at for name, given in self.offsets.items() for n, at in given.items()}
        self._look_for_strangers(wanted, places)
        ends = topics.ends(self.settings, wanted, committed=False)
        for (name, number), at in wanted.items():
            if at > ends[name, number]:
                raise ComponentError(
                    f"start_offsets: {name}/{number} ends at offset {ends[name, number]}, and is to be read from {at} on; "
                    "correct the offset, or leave it out to begin at the first message"
                )
        return self._or_earliest(places, wanted)

    def _look_for_strangers(self, wanted: Iterable[Partition], places: Sequence[Partition]) -> None:
        """A partition that there is not would be read from nowhere, and the one that was meant from its first message."""
        names = [f"{name}/{number}" for name, number in places]
        for name, number in wanted:
            if (name, number) not in places:
                hint = nearest(f"{name}/{number}", names) or f"there are {', '.join(names[:_SHOWN])}"
                raise ComponentError(f"start_offsets: there is no partition {name}/{number}; {hint}")

    def _group(self, places: Sequence[Partition]) -> dict[Partition, int]:
        assert self.group is not None
        return self._or_earliest(places, committed(self.settings, self.group, places))

    def _or_earliest(self, places: Sequence[Partition], known: Mapping[Partition, int]) -> dict[Partition, int]:
        return {place: known[place] for place in places if place in known} | topics.begins(
            self.settings, [place for place in places if place not in known]
        )


_FIND: Mapping[Start, Callable[[Beginning, Sequence[Partition]], dict[Partition, int]]] = {
    "earliest": Beginning._earliest,
    "latest": Beginning._latest,
    "timestamp": Beginning._timestamp,
    "offsets": Beginning._offsets,
    "group": Beginning._group,
}


def standing(found: Mapping[str, Topic], marks: Mapping[Partition, int]) -> Position:
    """A position at these offsets, with nothing to read."""

    def at(name: str, numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(marks[name, number] for number in numbers)

    stands = {name: (topic.id, at(name, range(topic.partitions))) for name, topic in found.items()}
    return Position({name: Stand(id_, offsets, offsets) for name, (id_, offsets) in stands.items()})
