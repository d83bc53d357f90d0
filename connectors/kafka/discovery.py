"""Which topics a source reads at the moment: looked for now and then, and not given up at the first glance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from connectors.kafka.access import Settings
from connectors.kafka.positions import Position
from connectors.kafka.topics import Topic, VanishedError, Wanted

GONE_SECONDS = 10.0
"""How long a topic must be missing to be gone: a broker that has just started knows none."""


@dataclass
class Discovery:
    """Remembers the last look. Of one process, the one that plans."""

    settings: Settings
    wanted: Wanted
    clock: Callable[[], float] = time.monotonic
    _looked: float | None = None
    _found: dict[str, Topic] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)

    def topics(self, begin: Position, every: float) -> dict[str, Topic]:
        """Those that are there; looks again after ``every`` seconds. VanishedError: one is missing, perhaps for a moment."""
        now = self.clock()
        if self._looked is None or now - self._looked >= every:
            self._found, self._looked = self.wanted.found(self.settings), now
        missing = [name for name in begin.topics if name not in self._found]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        for name, since in self._missing.items():
            if now - since < GONE_SECONDS:
                self._looked = None
                raise VanishedError(f"kafka {self.settings.servers}: there is no topic {name!r} any more")
        return self._found

    def forget(self) -> None:
        """Look again next time."""
        self._looked = None


@lru_cache(maxsize=64)
def discovery(settings: Settings, wanted: Wanted) -> Discovery:
    """Of these topics, one to a process."""
    return Discovery(settings, wanted)
