"""What the command line of the benchmarks may change."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.data import LINES

EVENTS = 2_000_000
"""Events of a Nexmark query; 10,000 of them are a second of event time."""


@dataclass(frozen=True)
class Settings:
    """How much to do."""

    lines: int = LINES
    """Lines of the logs."""

    runs: int = 3
    """How often each contender runs; medians are shown."""

    minutes: float = 10.0
    """How long `follow` follows."""

    events: int = EVENTS
    """Events of each Nexmark query."""

    queries: tuple[str, ...] = ()
    """Nexmark queries; all if none is named."""
