"""How far a micro-batch goes: from where the last ended to what the cluster holds now, within a limit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from connectors.kafka import topics
from connectors.kafka.access import Settings
from connectors.kafka.positions import Position, Stand, budget, shared
from connectors.kafka.topics import Partition, Topic
from etl.api import ComponentError, Limit

log = logging.getLogger("sluice.kafka")

_told: set[str] = set()
"""Losses that were warned of: a batch without news is planned again and again."""

OnLoss = Literal["fail", "earliest"]


@dataclass(frozen=True)
class Reach:
    """Looks at partitions; what is gone before it was read is treated as ``on_loss`` says."""

    settings: Settings
    is_committed: bool
    on_loss: OnLoss

    def position(self, begin: Position, found: Mapping[str, Topic], limit: Limit) -> Position:
        """The next batch; ``begin`` itself when nothing is new. Memory: a few words for each partition."""
        known = self._known(begin, found)
        places = [(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        ends = topics.ends(self.settings, places, self.is_committed)
        fresh = [place for place in places if place not in known]
        known |= topics.begins(self.settings, fresh)
        begins = self._begins(known, ends, set(fresh))
        if limit.until is not None:
            until = Position.of(limit.until).ends()
            ends = {place: min(end, until.get(place, begins[place])) for place, end in ends.items()}
        news = {place: end - begins[place] for place, end in ends.items() if end > begins[place]}
        if not news:
            return begin
        given = shared(news, budget(limit))
        return Position({name: _stand(name, topic, begins, given) for name, topic in found.items()})

    def _known(self, begin: Position, found: Mapping[str, Topic]) -> dict[Partition, int]:
        """Where the last batch ended, in partitions that are still what they were."""
        known = begin.ends()
        for name, one in begin.topics.items():
            now = found.get(name)
            if now is not None and one.id in ("", now.id) and len(one.ends) <= now.partitions:
                continue
            what = "is gone" if now is None else "was deleted and made again"
            self._lost(f"topic {name!r} {what}: it was read up to {_spelled(one.ends)}")
            known = {place: offset for place, offset in known.items() if place[0] != name}
        return known

    def _begins(
        self, known: Mapping[Partition, int], ends: Mapping[Partition, int], fresh: set[Partition]
    ) -> dict[Partition, int]:
        """Where to go on: where the last batch ended, unless that is no longer there."""
        moved = [place for place, end in ends.items() if place not in fresh and end != known[place]]
        first = topics.begins(self.settings, moved)
        begins = dict(known)
        for (name, number), low in first.items():
            at, end = known[name, number], ends[name, number]
            if at < low:
                self._lost(f"{name}/{number}: messages {at:,} to {low - 1:,} have expired before they were read")
                begins[name, number] = low
            elif at > end:
                self._lost(f"{name}/{number} ends at {end:,}, and was read up to {at:,} before: messages were taken back")
                begins[name, number] = low
        return begins

    def _lost(self, text: str) -> None:
        if self.on_loss == "fail":
            raise ComponentError(
                f"kafka {self.settings.servers}: {text}; on_data_loss: earliest goes on with the first message there is"
            )
        if text not in _told:
            _told.add(text)
            log.warning("kafka %s: %s; going on with the first message there is", self.settings.servers, text)


def _stand(name: str, topic: Topic, begins: Mapping[Partition, int], given: Mapping[Partition, int]) -> Stand:
    places = [(name, number) for number in range(topic.partitions)]
    return Stand(
        topic.id,
        tuple(begins[place] for place in places),
        tuple(begins[place] + given.get(place, 0) for place in places),
    )


def _spelled(ends: tuple[int, ...]) -> str:
    return ", ".join(f"{number}: {end:,}" for number, end in enumerate(ends))
