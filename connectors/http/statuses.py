"""How a response's status is handled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Status = Annotated[int, Field(ge=300, le=599)] | Literal["4xx", "5xx"]
"""A status, or all statuses of a class."""

Handling = Literal["done", "retry", "stop", "dead"]


@dataclass(frozen=True, slots=True)
class Statuses:
    """Statuses that are retried, and statuses that end the run."""

    retry: tuple[Status, ...]
    stop: tuple[Status, ...]

    def handling(self, status: int) -> Handling:
        """Return how to handle a status; a single status has priority over its class. Redirects end the run."""
        if 200 <= status < 300:
            return "done"
        for one in (status, f"{status // 100}xx"):
            if one in self.retry:
                return "retry"
            if one in self.stop:
                return "stop"
        return "stop" if status < 400 else "dead"


def in_both(retry: Iterable[Status], stop: Iterable[Status]) -> set[Status]:
    """Return statuses that are in both lists."""
    return {*retry} & {*stop}
