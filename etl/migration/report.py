"""What an import has carried over, and what not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OmittedConstruct:
    """A construct without a counterpart in the pipeline."""

    location: str
    """``file:line:column``."""
    construct: str
    """Such as ``processors[3].script``."""
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.construct}: {self.reason}"


@dataclass
class ImportReport:
    """Constructs of a configuration: how many there are, and those that were not carried over."""

    total: int = 0
    left: list[OmittedConstruct] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a user has to know or to give, such as a file of places."""

    @property
    def carried(self) -> int:
        return self.total - len(self.left)

    def summary(self, noun: str) -> str:
        share = 100 * self.carried / self.total if self.total else 100.0
        return f"{self.carried} of {self.total} {noun} carried over ({share:.0f} %)"

    def lines(self, noun: str) -> Sequence[str]:
        return [self.summary(noun), *(f"  {one}" for one in self.left), *(f"  note: {one}" for one in self.remarks)]
