"""What becomes of events, by the status of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Status = Annotated[int, Field(ge=300, le=599)] | Literal["4xx", "5xx"]
"""A status of an answer, or all of a class."""

Fate = Literal["done", "retry", "stop", "dead"]


@dataclass(frozen=True, slots=True)
class Statuses:
    """Which are temporary, and which are about the pipeline and not about its events."""

    retry: tuple[Status, ...]
    stop: tuple[Status, ...]

    def fate(self, status: int) -> Fate:
        """What to do: a status itself counts before its class. Redirects are not followed: they stop."""
        if 200 <= status < 300:
            return "done"
        for one in (status, f"{status // 100}xx"):
            if one in self.retry:
                return "retry"
            if one in self.stop:
                return "stop"
        return "stop" if status < 400 else "dead"


def both(retry: Iterable[Status], stop: Iterable[Status]) -> set[Status]:
    """Statuses that stand in both lists."""
    return {*retry} & {*stop}
