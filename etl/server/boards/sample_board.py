"""Samples for the viewers of a server: one request to the tasks for all who look at the same point."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from etl.api import EtlError, format_type
from etl.config.model import Pipeline
from etl.running.samples import EVENTS_OF_SPLIT, KEEP_SECONDS, Tap, check_condition, plain_events, tap_points
from etl.spark.state.folder import StateFolder

MAX_EVENTS = 500
"""Events of one point that are kept for viewers, or as many more as one task has copied."""

MAX_POINTS = 64
"""Points that are looked at at the same time, over all pipelines."""

Key = tuple[str, str, str | None]
"""Pipeline, source, stream or sink, and condition."""


@dataclass
class _SampleBatch:
    """Events that a task has copied. They become values of JSON when somebody wants to see them."""

    first_id: int
    batch: pa.RecordBatch

    @cached_property
    def events(self) -> list[tuple[int, dict[str, Any]]]:
        return list(enumerate(plain_events(self.batch), self.first_id))


@dataclass
class _Point:
    tap: Tap
    looked_at: float = 0.0
    batches: deque[_SampleBatch] = field(default_factory=deque)
    fields: dict[str, str] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch) -> None:
        self.fields = {one.name: format_type(one.type) for one in batch.schema}
        after = self.batches[-1].first_id + self.batches[-1].batch.num_rows if self.batches else 0
        self.batches.append(_SampleBatch(max(after, time.time_ns() // 1000), batch))
        while sum(one.batch.num_rows for one in self.batches) - self.batches[0].batch.num_rows >= MAX_EVENTS:
            self.batches.popleft()

    def last(self, count: int, after: int) -> list[tuple[int, dict[str, Any]]]:
        found: list[tuple[int, dict[str, Any]]] = []
        for sample in reversed(self.batches):
            if len(found) >= count or sample.first_id + sample.batch.num_rows <= after:
                break
            found[:0] = [(id_, event) for id_, event in sample.events if id_ > after]
        return found[-count:]


class SampleBoard:
    """The points that somebody looks at. Each ends some seconds after the last look."""

    def __init__(self) -> None:
        self._points: dict[Key, _Point] = {}
        self._lock = threading.Lock()

    def look(
        self, pipeline: Pipeline, state: StateFolder, name: str, where: str | None, count: int = MAX_EVENTS, after: int = 0
    ) -> tuple[dict[str, str], list[tuple[int, dict[str, Any]]]]:
        """The fields and the last ``count`` events with an id greater than ``after``. The first look has none: it asks for them.

        Raises EtlError for a name or condition that is wrong, and OSError.
        """
        key = pipeline.name, name, where
        with self._lock:
            point = self._points.get(key) or self._open(key, pipeline, state)
            point.looked_at = time.monotonic()
            try:
                point.tap.renew()
                for batch in point.tap.read():
                    point.take(batch)
            except EtlError:
                self._close(key)
                raise
            return point.fields, point.last(count, after)

    def tidy(self, everything: bool = False) -> None:
        """End the requests at which nobody looks any more."""
        if not self._points:
            return
        with self._lock:
            until = time.monotonic() - KEEP_SECONDS
            for key in [key for key, point in self._points.items() if everything or point.looked_at < until]:
                self._close(key)

    def _open(self, key: Key, pipeline: Pipeline, state: StateFolder) -> _Point:
        _, name, where = key
        points = tap_points(pipeline, name)
        if where:
            check_condition(pipeline, name, where)
        if len(self._points) >= MAX_POINTS:
            raise EtlError(f"{MAX_POINTS} points are looked at already; try later")
        return self._points.setdefault(key, _Point(Tap(state.taps, points, where, EVENTS_OF_SPLIT)))

    def _close(self, key: Key) -> None:
        self._points.pop(key).tap.close()
