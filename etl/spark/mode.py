"""How far a run goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """How far a run goes."""

    once: bool = False
    drain: bool = False
    limit: int | None = None
    trigger_millis: int = 500
    max_batch_bytes: int = 4 << 30
    parallelism: int = 1
