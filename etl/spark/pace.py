"""The size of a micro-batch when there is a backlog: as many bytes as the query processes in a few seconds.

Each micro-batch costs Spark about 0.3 s, so a fast pipeline needs large ones. A slow pipeline needs small ones, because events
are delivered and committed at the end of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from etl.api import Limit, Offset
from etl.receipts import Receipt

INITIAL_BYTES = 256 << 20
"""Size of a micro-batch while the speed is unknown."""

TARGET_SECONDS = 4.0
"""Intended duration of a micro-batch in seconds."""

REST_FACTOR = 1.5
"""A micro-batch may be larger by this factor if it then reads the whole backlog, instead of leaving a small rest."""

MIN_SECONDS = 0.02
"""Minimum duration of a micro-batch in seconds, for the calculation of speed."""

MIN_BYTES = 16 << 20
"""Minimum size of a micro-batch when there is a backlog; smaller ones are not used to measure speed."""


def learn_speed(known: Mapping[str, float], receipts: Sequence[Receipt], now: float) -> dict[str, float] | None:
    """Update a query's ``speed`` (bytes a second) and ``event_bytes`` (mean) after a micro-batch; None without a change."""
    read, events = sum(r.bytes_read for r in receipts), sum(r.read.incoming for r in receipts)
    found = {"event_bytes": read / events} if events else {}
    if rate := speed(read, now - min((r.began for r in receipts), default=0.0)):
        found["speed"] = rate
    return {**known, **found} if found else None


def speed(read: int, seconds: float) -> float | None:
    """Bytes a second of a micro-batch; None if it is too small, or if the clocks of two hosts differ."""
    return read / seconds if read >= MIN_BYTES and seconds >= MIN_SECONDS else None


def batch_bytes(speed: float | None, max_bytes: int) -> int:
    """The size of the next micro-batch in bytes; ``max_bytes`` is the user's limit."""
    size = INITIAL_BYTES if speed is None else max(MIN_BYTES, int(speed * TARGET_SECONDS))
    return min(size, max_bytes)


def end_of_batch(ask: Callable[[Limit], Offset], limit: Limit, max_bytes: int) -> Offset:
    """The end offset of a micro-batch: the end of the backlog if that is near the limit, else the limit.

    ``ask`` is a source's `latest`, ``max_bytes`` the user's limit in bytes.
    """
    larger = min(int(limit.max_bytes * REST_FACTOR), max_bytes)
    if limit.until is not None and limit.max_events is None and larger > limit.max_bytes:
        end = ask(replace(limit, max_bytes=larger))
        if end == limit.until:
            return end
    return ask(limit)
