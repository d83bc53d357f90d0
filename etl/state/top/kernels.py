"""The kernel of running ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

from etl.columns.kernels import kernel


class RankInput(NamedTuple):
    """What `rank_events` ranks, int64 arrays: for each key its best rows so far, and its events in the order of time."""

    known: Any
    """The best rows of key k are those from ``known[k]`` to ``known[k + 1]``, in the order of their ranks."""
    firsts: Any
    events: Any
    """The events of key k are the rows ``events[firsts[k]]`` to ``events[firsts[k + 1] - 1]``."""
    values: Any
    """int64[rows]: the value that is ranked; the smallest is the best."""
    subjects: Any
    """int64[rows]: what is ranked, as a number; of rows with the same subject only the best one has a rank."""
    times: Any
    """int64[rows]: the times of the events."""


class RankChanges(NamedTuple):
    """Results of `rank_events`, for each event and key."""

    ranks: Any
    """int64[events]: the rank among the best rows of the key so far, 0 if it is not one of them."""
    updates: Any
    """bool[events]: whether its subject had a rank before."""
    left: Any
    """int64[events]: the row that the event removes from them, or -1."""
    stays: Any
    """bool[rows]: whether the row is among the best ones of its key at the end."""
    latest: Any
    """int64[keys]: the time of the last change."""


@kernel
def rank_events(rows: RankInput, limit: Any, ttl: Any, best: Any, changes: RankChanges) -> None:
    """Rank the events of each key in the order of time. The ranking of a key expires ``ttl`` after its last change. ``best`` is a
    buffer, int64[limit]."""
    values, subjects = rows.values, rows.subjects
    for key in range(rows.firsts.shape[0] - 1):
        size = 0
        for row in range(rows.known[key], rows.known[key + 1]):
            best[size] = row
            changes.stays[row] = False
            if not size or rows.times[row] > changes.latest[key]:
                changes.latest[key] = rows.times[row]
            size += 1
        for event in range(rows.firsts[key], rows.firsts[key + 1]):
            row = rows.events[event]
            changes.ranks[event], changes.updates[event], changes.left[event], changes.stays[row] = 0, False, -1, False
            if size and rows.times[row] - changes.latest[key] >= ttl:
                size = 0
            if size == limit and values[row] >= values[best[size - 1]]:
                continue
            at = 0
            while at < size and subjects[best[at]] != subjects[row]:
                at += 1
            if at < size:
                if values[row] >= values[best[at]]:
                    continue
                changes.updates[event] = True
            elif size < limit:
                size += 1
            else:
                at = size - 1
                changes.left[event] = best[at]
            while at > 0 and values[best[at - 1]] > values[row]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = row
            changes.ranks[event] = at + 1
            changes.latest[key] = rows.times[row]
        for at in range(size):
            changes.stays[best[at]] = True
