"""The mode of a run: once or following, its limits and parallelism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """How much a run reads and when it ends; bytes and milliseconds are for one micro-batch."""

    once: bool = False
    drain: bool = False
    limit: int | None = None
    trigger_millis: int = 500
    max_batch_bytes: int = 4 << 30
    parallelism: int = 1
