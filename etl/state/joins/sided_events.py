"""Events of both sides of a join as rows sorted by the hash of their keys, and the pairs among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import numbers, whole
from etl.state.keyed.kernels import find_rows

SIDE = "\0side"
"""Column (int8) of state rows: 0 for a left event and 1 for a right one; 2 and 3 for those that cannot match."""

UNMATCHABLE = 2
"""Added to the side of an event with a key that is null, which matches nothing."""

_FEW_ROWS = 4096
"""Rows of a table with which a search by itself costs more than sorting it together with others."""

_CANDIDATES = 1 << 20
"""Rows that are compared with their queries at once, so that it takes about 16 MB."""

_CROWDED = 8
"""Rows with the hash of a query, for each query and row, beyond which they are sorted by side and time first."""

_PAIRS = 1 << 16
"""Pairs whose events are copied at once, so that a key with many events needs no more memory than others."""


class SidedEvents(NamedTuple):
    """Events sorted by hash."""

    rows: pa.Table
    hash: Any
    hash2: Any
    time: Any
    side: Any

    @classmethod
    def of(cls, rows: pa.Table) -> SidedEvents:
        """The events of rows in any order."""
        hashes = numbers(rows, HASH)
        return cls.sorted(rows if (hashes[1:] >= hashes[:-1]).all() else rows.take(pa.array(np.argsort(hashes, kind="stable"))))

    @classmethod
    def sorted(cls, rows: pa.Table) -> SidedEvents:
        """The events of rows that are sorted by hash."""
        return cls(rows, *(numbers(rows, name) for name in (HASH, HASH2, TIME, SIDE)))

    def where(self, mask: Any) -> SidedEvents:
        """The events for which the mask is true."""
        return self if mask.all() else SidedEvents.sorted(self.rows.filter(pa.array(mask)).combine_chunks())


def events_of_tables(tables: Sequence[pa.Table]) -> SidedEvents | None:
    """The events of several tables together."""
    return SidedEvents.of(whole(tables)) if tables else None


def runs_of_tables(tables: Sequence[pa.Table]) -> Iterator[SidedEvents]:
    """The events of tables that are sorted by hash: each large table by itself, all small ones together."""
    small = [table for table in tables if len(table) < _FEW_ROWS]
    if len(small) > 1:
        yield SidedEvents.of(whole(small))
    yield from (SidedEvents.sorted(table) for table in tables if len(table) >= _FEW_ROWS or len(small) == 1)


def find_pairs(queries: SidedEvents, run: SidedEvents, before: int, after: int) -> Iterator[tuple[Any, Any]]:
    """The pairs of events of different sides with the same hashes: the row of one in ``queries`` and of the other in ``run``
    (int64[n] each). The right event is at most ``before`` microseconds earlier than the left one, and at most ``after`` later."""
    low, high = np.empty((2, len(queries.hash)), np.int64)
    total = find_rows(queries.hash, run.hash, low, high)
    if total > _CROWDED * (len(queries.hash) + len(run.hash)):
        yield from _pairs_of_crowded_keys(queries, run, before, after)
    elif total:
        yield from _pairs(queries[1:], run[1:], low, high, before, after)


def _pairs_of_crowded_keys(queries: SidedEvents, run: SidedEvents, before: int, after: int) -> Iterator[tuple[Any, Any]]:
    """`find_pairs` for keys with many events: of each event only those of the other side are looked at that are near in time."""
    from etl.state.joins.kernels import narrow_by_time

    for side, (earlier, later) in enumerate(((before, after), (after, before))):
        queried, others = np.flatnonzero(queries.side == side), np.flatnonzero(run.side == 1 - side)
        others = others[np.lexsort((run.time[others], run.hash[others]))]
        low, high = np.empty((2, len(queried)), np.int64)
        if not find_rows(queries.hash[queried], run.hash[others], low, high):
            continue
        times = queries.time[queried]
        narrow_by_time(run.time[others], times - earlier, times + later, low, high)
        own, among = [values[queried] for values in queries[1:]], [values[others] for values in run[1:]]
        yield from ((queried[found], others[rows]) for found, rows in _pairs(own, among, low, high, before, after))


def _pairs(own: Sequence[Any], among: Sequence[Any], low: Any, high: Any, before: int, after: int) -> Iterator[tuple[Any, Any]]:
    """The pairs of events with the rows from ``low`` to ``high``; both sides as hash, second hash, time and side."""
    from etl.state.joins.kernels import paired_rows

    _, hash2, times, sides = own
    _, rows_hash2, rows_time, rows_side = among
    for first, begins, ends in _portions(low, high):
        part = slice(first, first + len(begins))
        found, rows = np.empty((2, int((ends - begins).sum())), np.int64)
        count = paired_rows(
            hash2[part], sides[part], times[part], begins, ends, rows_hash2, rows_side, rows_time,
            np.int64(before), np.int64(after), found, rows,
        )  # fmt: skip
        for at in range(0, count, _PAIRS):
            yield found[at : min(at + _PAIRS, count)] + first, rows[at : min(at + _PAIRS, count)]


def latest_rows(queries: SidedEvents, runs: Sequence[SidedEvents], orders: Sequence[Any], before: int) -> tuple[Any, Any]:
    """For each left event the latest right one with its hashes that is not later, and at most ``before`` earlier: the number of
    its run, -1 if there is none, and the row in it (int64[n] each). Of the same time the one that has the largest order."""
    from etl.state.joins.kernels import latest_versions

    rows = len(queries.hash)
    found, at, time, order = np.full(rows, -1), *np.zeros((3, rows), np.int64)
    low, high = np.empty((2, rows), np.int64)
    for number, (run, own) in enumerate(zip(runs, orders, strict=True)):
        if find_rows(queries.hash, run.hash, low, high):
            latest_versions(
                queries.hash2, queries.side, queries.time, low, high, run.hash2, run.side, run.time, own,
                np.int64(before), np.int64(number), found, at, time, order,
            )  # fmt: skip
    return found, at


def _portions(low: Any, high: Any) -> Iterator[tuple[int, Any, Any]]:
    """Portions of neighbouring queries with at most `_CANDIDATES` rows in all: the number of the first query, and of each one the
    first row and the row after the last. A query with more rows is in several portions."""
    sums = np.append(0, np.cumsum(high - low))
    first = 0
    while first < len(low):
        end = max(first + 1, int(np.searchsorted(sums, sums[first] + _CANDIDATES, side="right")) - 1)
        if sums[end] > sums[first] + _CANDIDATES:
            for begin in range(int(low[first]), int(high[first]), _CANDIDATES):
                yield first, np.array([begin]), np.minimum(high[first : first + 1], begin + _CANDIDATES)
        elif sums[end] > sums[first]:
            yield first, low[first:end], high[first:end]
        first = end
