"""Limits the events of a key on each side of a join in each span of time: the first ones count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from etl.state.joins.sided_events import UNMATCHABLE, SidedEvents
from etl.state.key_hash import sort_by_hash
from etl.state.keyed.kernels import find_rows


class SideLimit(NamedTuple):
    """How many events of a key each side takes in a span of time. Spans begin at multiples of their length since 1970 UTC."""

    events: int
    span: int
    """Microseconds."""

    def whole_spans(self, times: Any) -> tuple[int, int]:
        """The start of the first span that has one of these times, and the end of the last one."""
        first, last = int(times.min()), int(times.max())
        return first - first % self.span, last - last % self.span + self.span

    def within_limit(self, new: SidedEvents, stored: Iterable[SidedEvents]) -> Any:
        """bool[n]: which new events the sides take: of each key, side and span the earliest ones, until there are as many as the
        limit with those of state. Events with a key that is null are not limited: they are in no pair."""
        order = sort_by_hash(new.hash, new.time, new.side, new.hash2)
        spans = new.time - new.time % self.span
        names = [values[order] for values in (new.hash, new.hash2, new.side, spans)]
        begins = np.logical_or.reduce([values[1:] != values[:-1] for values in names])
        firsts = np.flatnonzero(np.append(True, begins))
        sizes = np.diff(np.append(firsts, len(order)))
        before = self._counts([values[firsts] for values in names], stored)
        found = np.empty(len(order), bool)
        found[order] = np.arange(len(order)) - np.repeat(firsts - before, sizes) < self.events
        return found | (new.side >= UNMATCHABLE)

    def _counts(self, groups: list[Any], stored: Iterable[SidedEvents]) -> Any:
        """int64[n]: how many events of state have these hashes (sorted), hashes, sides and spans."""
        hashes, hash2, sides, spans = groups
        counts = np.zeros(len(hashes), np.int64)
        low, high = np.empty((2, len(hashes)), np.int64)
        from etl.state.joins.kernels import count_rows_of_spans

        for run in stored:
            if find_rows(hashes, run.hash, low, high):
                count_rows_of_spans(
                    hash2, sides, spans, low, high, run.hash2, run.side, run.time, np.int64(self.span), counts
                )  # fmt: skip
        return counts
