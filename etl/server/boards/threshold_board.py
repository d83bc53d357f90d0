"""The groups that are nearest to conditions, for the viewers of a server: read once for all of them, and not too often."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.running.first_rows import has_order
from etl.running.samples import plain_events
from etl.running.thresholds import SHARE, NearGroups, near_groups
from etl.spark.state.folder import StateFolder

MAX_GROUPS = 100
"""Maximum number of groups of one condition that are read for viewers."""

READ_SECONDS = 3.0
"""Seconds after which a reading ends with what it has."""

WAIT_SECONDS = 5.0
"""Seconds that a viewer waits while the state of another pipeline is read."""

REUSE_SECONDS = 1.0
"""Seconds for which an answer is that of all viewers."""

REUSE_FACTOR = 10
"""For how many times the seconds of its reading an answer stays: so reading takes a tenth of a core at most."""


@dataclass(frozen=True)
class _Answer:
    pipeline: Pipeline
    until: float
    """By the monotonic clock."""
    found: Sequence[NearGroups]


class ThresholdBoard:
    """The last answer for each pipeline. One state is read at a time."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.Lock()

    def look(self, pipeline: Pipeline, state: StateFolder) -> Sequence[NearGroups]:
        """At most `MAX_GROUPS` groups for each condition. Raises EtlError for a state that does not fit or is damaged, and where
        it must be read while others are."""
        known = self._find_answer(pipeline)
        if known is not None:
            return known.found
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise EtlError("the state of other pipelines is being read; try later")
        try:
            known = self._find_answer(pipeline)  # another viewer may have read it
            if known is None:
                known = self._answers[pipeline.name] = _read(pipeline, state)
            return known.found
        finally:
            self._lock.release()

    def _find_answer(self, pipeline: Pipeline) -> _Answer | None:
        """The answer for this version of a pipeline, while it stays."""
        known = self._answers.get(pipeline.name)
        return known if known is not None and known.pipeline is pipeline and known.until >= time.monotonic() else None

    def forget(self, name: str) -> None:
        """Drop the answer for a pipeline that is removed."""
        self._answers.pop(name, None)


def _read(pipeline: Pipeline, state: StateFolder) -> _Answer:
    began = time.monotonic()
    found = near_groups(pipeline, state, MAX_GROUPS, READ_SECONDS)
    now = time.monotonic()
    return _Answer(pipeline, now + max(REUSE_SECONDS, REUSE_FACTOR * (now - began)), found)


def near_rows(found: NearGroups, limit: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """The share and the values of the nearest groups, without lists, which can be of any length."""
    if found.rows is None or not len(found.rows):
        return
    rows = found.rows.slice(0, limit).combine_chunks().to_batches()[0]
    shown = rows.select([field.name for field in rows.schema if field.name != SHARE and has_order(field.type)])
    yield from zip(rows.column(SHARE).to_pylist(), plain_events(shown), strict=True)
