"""What the command line of the benchmarks may change."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.data import LINES


@dataclass(frozen=True)
class Settings:
    """How much to do."""

    lines: int = LINES
    """Lines of the logs."""

    runs: int = 3
    """How often each contender runs; medians are shown."""

    minutes: float = 10.0
    """How long `follow` follows."""
