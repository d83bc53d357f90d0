"""Dead letters grouped by where and why they were rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

MAX_REASONS = 1000
"""Reasons of a group that are counted."""


@dataclass
class LetterGroup:
    """Letters of one step or sink with one code."""

    at: str
    code: str
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason → how many have it; a reason may name values, so the rare ones of very many are left out."""
    events: int = 0
    last: datetime | None = None
    example: str = ""

    def add(self, batch: pa.RecordBatch) -> None:
        """Count letters, which are of this group."""
        for one in pc.value_counts(batch.column("reason")).to_pylist():
            self.reasons[one["values"]] = self.reasons.get(one["values"], 0) + one["counts"]
        if len(self.reasons) > 2 * MAX_REASONS:
            self.reasons = dict(Counter(self.reasons).most_common(MAX_REASONS))
        self.events += batch.num_rows
        self.last = max(filter(None, (self.last, pc.max(batch.column("time")).as_py())), default=None)
        self.example = self.example or batch.column("event")[0].as_py() or ""

    @property
    def reason(self) -> str:
        """The most frequent reason."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) or ""


def group_letters(batches: Iterable[pa.RecordBatch]) -> list[LetterGroup]:
    """The groups of letters, the largest first."""
    groups: dict[tuple[str, str], LetterGroup] = {}
    for batch in batches:
        for at, code in dict.fromkeys(zip(batch.column("at").to_pylist(), batch.column("code").to_pylist(), strict=True)):
            both = pc.and_(pc.equal(batch.column("at"), at), pc.equal(batch.column("code"), code))
            groups.setdefault((at, code), LetterGroup(at, code)).add(batch.filter(both))
    return sorted(groups.values(), key=lambda group: -group.events)
