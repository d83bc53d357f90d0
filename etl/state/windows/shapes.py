"""Where windows begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import overload

import numpy as np

from etl.state.windows.aggregation import Numbers

WINDOWS_AT_ONCE = 1 << 16
"""Maximum number of windows that are looked at together."""


@dataclass(frozen=True)
class WindowShape:
    """Windows of one size, or windows of one start that grow to that size; in microseconds."""

    size: int
    slide: int
    """Distance between the ends of windows."""
    cumulates: bool = False
    """Whether windows begin at multiples of the size and grow by ``slide``."""

    @property
    def pane(self) -> int:
        """The longest span that each window holds whole or not at all."""
        return gcd(self.size, self.slide)

    def starts(self, ends: Numbers) -> Numbers:
        """The starts of the windows with these ends."""
        return (ends - 1) // self.size * self.size if self.cumulates else ends - self.size

    def last_end_until(self, time: int) -> int:
        """The end of the last window that ends then or earlier."""
        return (time - self.size) // self.slide * self.slide + self.size

    @overload
    def first_end(self, pane: int) -> int: ...
    @overload
    def first_end(self, pane: Numbers) -> Numbers: ...
    def first_end(self, pane: int | Numbers) -> int | Numbers:
        """The end of the first window that holds a pane."""
        return ((pane - self.size) // self.slide + 1) * self.slide + self.size

    @overload
    def last_end(self, pane: int) -> int: ...
    @overload
    def last_end(self, pane: Numbers) -> Numbers: ...
    def last_end(self, pane: int | Numbers) -> int | Numbers:
        """The end of the last window that holds a pane."""
        step = self.size if self.cumulates else self.slide
        return pane // step * step + self.size

    def first_open_start(self, watermark: int) -> int:
        """The start of the first window that ends after the watermark."""
        if self.cumulates:
            return watermark // self.size * self.size
        return self.last_end_until(watermark) + self.slide - self.size

    def may_end(self, after: int, until: int, first_pane: int, last_pane: int) -> bool:
        """Whether a window ends in ``after < end <= until`` that may hold one of these panes."""
        low, high = max(after, first_pane), min(until, self.last_end(last_pane))
        return self.last_end_until(high) > low

    def ends(self, panes: Numbers, after: int, until: int) -> Iterator[Numbers]:
        """The ends with ``after < end <= until`` of windows that hold one of these panes; both ascend. Windows without any are
        skipped, however many they are."""
        first = np.maximum(self.first_end(panes), self.last_end_until(after) + self.slide)
        last = np.minimum(self.last_end(panes), self.last_end_until(until))
        first[1:] = np.maximum(first[1:], last[:-1] + self.slide)
        before = np.concatenate(([0], np.cumsum(np.maximum((last - first) // self.slide + 1, 0))))
        for begin in range(0, int(before[-1]), WINDOWS_AT_ONCE):
            numbers = np.arange(begin, min(begin + WINDOWS_AT_ONCE, before[-1]))
            of_pane = np.searchsorted(before, numbers, side="right") - 1
            yield first[of_pane] + (numbers - before[of_pane]) * self.slide
