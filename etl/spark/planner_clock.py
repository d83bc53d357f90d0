"""The clock by which micro-batches are planned: that of the machine, or in tests of pipelines one that follows their pauses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from etl.api import Offset

MICROS = 1_000_000


class PlannerClock(Protocol):
    """What a `SplitPlanner` asks of a clock. Times are in seconds."""

    def elapsed(self) -> float:
        """The time since any moment, which never goes back."""

    def now(self) -> float:
        """The time since the epoch."""

    def has_events(self, source: str, begun: Offset, end: Offset) -> bool:
        """Whether a source has events between two offsets that differ."""

    def advance(self, ends: Mapping[str, Offset], due: float) -> bool:
        """Move on to ``due``, as `elapsed` counts, where the events before these offsets come later or at that time; whether it
        has moved."""


class WallClock:
    """The clock of the machine."""

    def elapsed(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    def now(self) -> float:
        """The time of day."""
        return time.time()

    def has_events(self, source: str, begun: Offset, end: Offset) -> bool:
        """A source moves its offset where it has events."""
        return True

    def advance(self, ends: Mapping[str, Offset], due: float) -> bool:
        """It moves by itself: events that are there are read at once."""
        return False


@dataclass
class ScriptedClock:
    """The clock of a test whose sources are `etl.testing.given_source.GivenSource`; these read micro-batches of equal numbers
    together. It stands still except in the pauses of the test."""

    begin: float
    """Seconds since the epoch."""
    found: tuple[float, ...] = ()
    """When the events of each micro-batch come, seconds after ``begin``."""
    batches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Source → the numbers of the micro-batches in which it has events."""
    passed: float = 0.0

    def elapsed(self) -> float:
        """Seconds since the begin of the test."""
        return self.passed

    def now(self) -> float:
        """The time of the script."""
        return self.begin + self.passed

    def has_events(self, source: str, begun: Offset, end: Offset) -> bool:
        """Whether the test gives it events in these micro-batches."""
        return not self.batches.get(source, frozenset()).isdisjoint(range(_batches(begun), _batches(end)))

    def advance(self, ends: Mapping[str, Offset], due: float) -> bool:
        """Move on to ``due`` if that is in the pause before the next events; else to these."""
        read = max(map(_batches, ends.values()), default=0)
        come = self.found[read - 1] if read else 0.0
        moves = self.passed < due <= come
        self.passed = due if moves else max(self.passed, come)
        return moves


def _batches(offset: Offset) -> int:
    """The number of micro-batches before an offset of a `GivenSource`."""
    return int((offset["step"] + 1) // 2)


def next_due(intervals: Mapping[int, bool], silence: float) -> float | None:
    """The silence, in seconds, after which one of these intervals (microseconds) is over next; true for those that repeat."""
    micros = round(silence * MICROS)
    repeated = [(micros // every + 1) * every for every, repeats in intervals.items() if repeats]
    once = [every for every, repeats in intervals.items() if not repeats and every > micros]
    return min([*repeated, *once], default=0) / MICROS or None
