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

MAX_EXAMPLE_CHARACTERS = 64 << 10
"""Characters of an example; the letter has all of its event."""


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
        self.example = self.example or (batch.column("event")[0].as_py() or "")[:MAX_EXAMPLE_CHARACTERS]

    @property
    def reason(self) -> str:
        """The most frequent reason."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) or ""


class LetterGroups:
    """The groups of the letters that were added."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], LetterGroup] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count letters."""
        for pair in pa.table(batch).group_by(["at", "code"]).aggregate([]).to_pylist():
            at, code = pair["at"], pair["code"]
            both = pc.and_(pc.equal(batch.column("at"), at), pc.equal(batch.column("code"), code))
            self._groups.setdefault((at, code), LetterGroup(at, code)).add(batch.filter(both))

    def largest_first(self) -> list[LetterGroup]:
        """The groups; of two with as many letters the one that began first is the first."""
        return sorted(self._groups.values(), key=lambda group: -group.events)


def group_letters(batches: Iterable[pa.RecordBatch]) -> list[LetterGroup]:
    """The groups of letters, the largest first."""
    groups = LetterGroups()
    for batch in batches:
        groups.add(batch)
    return groups.largest_first()
