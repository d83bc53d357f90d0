"""What a benchmark found, as data: kept as JSON between runs, so that one may be repeated alone."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks.folders import RESULTS


@dataclass
class Row:
    """One quantity, measured several times. ``at_least`` or ``at_most`` is its target, where it has one."""

    label: str
    unit: str
    values: list[float] = field(default_factory=list)
    at_least: float | None = None
    at_most: float | None = None
    cpu: list[float] = field(default_factory=list)
    pss: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    work_cpu: list[float] = field(default_factory=list)
    """CPU seconds less those of the same command with almost nothing to do."""
    remark: str = ""

    @property
    def median(self) -> float | None:
        """The measured value, if there is one."""
        return statistics.median(self.values) if self.values else None

    @property
    def verdict(self) -> Literal["met", "missed", ""]:
        """Whether the median meets the target."""
        if self.at_least is None and self.at_most is None:
            return ""
        value = self.median
        if value is None:
            return "missed"
        above = self.at_least is None or value >= self.at_least
        below = self.at_most is None or value <= self.at_most
        return "met" if above and below else "missed"


@dataclass
class Result:
    """A benchmark's rows, with what it did in words."""

    name: str
    title: str
    about: str
    rows: list[Row]
    extra: str = ""
    """Further Markdown, below the table."""
    command: str = ""
    date: str = ""
    machine: dict[str, str] = field(default_factory=dict)


def save(result: Result) -> None:
    """Replace what is known of this benchmark."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{result.name}.json").write_text(json.dumps(asdict(result), indent=1))


def saved(name: str) -> Result | None:
    """What the last run of this benchmark found."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return None
    fields: dict[str, Any] = json.loads(file.read_text())
    return Result(**{**fields, "rows": [Row(**row) for row in fields["rows"]]})
