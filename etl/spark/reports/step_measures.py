"""Measures that steps report in addition to their events, and the look-up tables in use, over a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.api import SplitMeasures
from etl.receipts import OTHERS

MAX_NAMES = 10_000
"""Maximum number of names of one measure; further names are added up under `OTHERS`."""


@dataclass
class StepMeasures:
    """The `SplitMeasures` values of one step, added up over all splits."""

    sums: dict[str, dict[str, float]] = field(default_factory=dict)
    state: dict[str, str | float] = field(default_factory=dict)

    def add(self, counted: SplitMeasures) -> None:
        """Add the values of one split."""
        for measure, amounts in counted.sums.items():
            known = self.sums.setdefault(measure, {})
            for name, amount in amounts.items():
                name = name if name in known or len(known) < MAX_NAMES else OTHERS
                known[name] = known.get(name, 0) + amount
        self.state.update(counted.state)

    def top(self, measure: str, number: int) -> list[tuple[str, float]]:
        """The ``number`` names with the largest amounts, in descending order."""
        return sorted(self.sums.get(measure, {}).items(), key=lambda one: (-one[1], one[0]))[:number]

    def as_numbers(self, number: int) -> dict[str, Any]:
        """Plain values: the largest amounts of each measure."""
        return {**self.state, **{measure: dict(self.top(measure, number)) for measure in self.sums}}


@dataclass
class TableInUse:
    """A look-up table of the run: the version in use, when it was read and checked, and the error that prevents a newer one."""

    version: str = ""
    rows: int = 0
    built: float | None = None
    """When the rows in use were read, seconds since the epoch."""
    checked: float | None = None
    """When these rows were last confirmed to be current, seconds since the epoch."""
    failed: int = 0
    """How often the table could not be read."""
    error: str = ""
    """The last error; empty after a successful read."""

    def as_numbers(self, now: float) -> Mapping[str, Any]:
        """Plain values; ages in seconds."""
        ages = {"age": self.built, "checked": self.checked}
        ages_seconds = {f"{name}_seconds": round(now - at, 1) for name, at in ages.items() if at is not None}
        return {"version": self.version, "rows": self.rows, **ages_seconds, "failed": self.failed, "error": self.error}
