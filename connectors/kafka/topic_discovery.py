"""Which topics a source reads at the moment: listed from time to time, and given up only after they were missing for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.offset_ranges import OffsetRanges
from connectors.kafka.topics import Topic, TopicSelection, TopicVanishedError

GONE_SECONDS = 10.0
"""How long a topic must be missing until it counts as deleted: a broker that has just started knows no topics."""


@dataclass
class TopicDiscovery:
    """The topics that were found last. One object a planner process."""

    settings: ClientSettings
    selection: TopicSelection
    clock: Callable[[], float] = time.monotonic
    _searched_at: float | None = None
    _topics: dict[str, Topic] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)

    def topics(self, begin: OffsetRanges, every: float) -> dict[str, Topic]:
        """Return the topics that exist; list them again after ``every`` seconds.

        Raises TopicVanishedError if a topic is missing, possibly only for a moment.
        """
        now = self.clock()
        if self._searched_at is None or now - self._searched_at >= every:
            self._topics, self._searched_at = self.selection.find(self.settings), now
        missing = [name for name in begin.topics if name not in self._topics]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        for name, since in self._missing.items():
            if now - since < GONE_SECONDS:
                self._searched_at = None
                raise TopicVanishedError(f"kafka {self.settings.servers}: there is no topic {name!r} any more")
        return self._topics

    def invalidate(self) -> None:
        """Make the next call list the topics again."""
        self._searched_at = None


@lru_cache(maxsize=64)
def topic_discovery(settings: ClientSettings, selection: TopicSelection) -> TopicDiscovery:
    """Return the discovery of this process for these topics."""
    return TopicDiscovery(settings, selection)
