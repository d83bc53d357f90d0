"""Caches of a planner process with a bounded number of entries."""

from __future__ import annotations

from typing import TypeVar

MAX_ENTRIES = 100_000
"""Maximum number of entries of each cache."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary that is emptied before it would exceed `MAX_ENTRIES`."""

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= MAX_ENTRIES:
            self.clear()
        super().__setitem__(key, value)
