"""How much of a backlog a micro-batch takes: what is worked off in a few seconds, as the batch before has shown.

A batch costs Spark a third of a second whatever it holds, so a fast pipeline wants large ones. A slow one wants small
ones, for what a batch delivers is seen, and safe, when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from etl.api import Limit, Offset
from etl.receipts import Receipt

FIRST = 256 << 20
"""Bytes of a batch while the speed is not known."""

SECONDS = 4.0
"""How long a batch is to take."""

REST = 1.5
"""How much more than that a batch takes where nothing is left then: a small rest would cost a batch of its own."""

SHORTEST = 0.02
"""Seconds that a batch takes at least."""

LEAST = 16 << 20
"""Bytes of the smallest batch of a backlog; batches smaller than it say nothing about the speed."""


def learned(known: Mapping[str, float], receipts: Sequence[Receipt], now: float) -> dict[str, float] | None:
    """What is known of a query's speed (bytes a second) and events (mean bytes) after a batch; None where nothing changed."""
    read, events = sum(r.bytes_read for r in receipts), sum(r.read.came for r in receipts)
    found = {"event_bytes": read / events} if events else {}
    if rate := speed(read, now - min((r.began for r in receipts), default=0.0)):
        found["speed"] = rate
    return {**known, **found} if found else None


def speed(read: int, seconds: float) -> float | None:
    """Bytes a second of a batch, where it tells; None where it is too small, or clocks of two hosts disagree."""
    return read / seconds if read >= LEAST and seconds >= SHORTEST else None


def batch_bytes(speed: float | None, most: int) -> int:
    """Most bytes of the next batch; ``most`` is the user's bound."""
    wanted = FIRST if speed is None else max(LEAST, int(speed * SECONDS))
    return min(wanted, most)


def reach(ask: Callable[[Limit], Offset], limit: Limit, most: int) -> Offset:
    """Where a batch ends: at the end of all that is to be read, if that is near the limit, else at the limit.

    ``ask`` is a source's `latest`, ``most`` the user's bound in bytes.
    """
    larger = min(int(limit.max_bytes * REST), most)
    if limit.until is not None and limit.max_events is None and larger > limit.max_bytes:
        end = ask(replace(limit, max_bytes=larger))
        if end == limit.until:
            return end
    return ask(limit)
