"""Samples of events for viewers: a task copies a few events where a viewer asks for them, and never waits for him.

A viewer writes a request ``ID.json`` to the folder ``taps`` of the state: the points at which he wants events, a condition, the
number of events, and until when. A task looks for requests once a split. It writes at most one file for each request and split,
and none while the viewer has not taken `MAX_FILES` others.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import visible
from etl.columns.texts import materialize
from etl.expressions import compile_expression

MAX_REQUESTS = 8
"""Requests that a task serves."""

MAX_FILES = 16
"""Files that wait for a viewer."""

SEARCHED_EVENTS = 4096
"""Events of a batch in which a condition is looked for."""

ERROR = "error.txt"
"""The file that says why a condition cannot be computed."""


@dataclass(frozen=True)
class TapRequest:
    """What a viewer wants to see."""

    id: str
    points: tuple[str, ...]
    """Ids of steps, ``source NAME`` or ``sink NAME``."""
    where: str | None
    limit: int
    """Maximum number of events of a split."""
    until: float
    """Seconds since the epoch."""

    def write(self, folder: Path) -> None:
        """Put the request in place."""
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / self.id).mkdir(mode=0o700, exist_ok=True)
        draft = folder / f"{self.id}.new"
        draft.write_text(json.dumps(vars(self)))
        os.replace(draft, folder / f"{self.id}.json")

    @staticmethod
    def read(path: Path) -> TapRequest | None:
        """A request; None for one that is not complete, or over."""
        with suppress(OSError, ValueError, TypeError):
            found = json.loads(path.read_bytes())
            request = TapRequest(**{**found, "points": tuple(found["points"])})
            return request if request.until > time.time() else None
        return None


@dataclass
class _Tap:
    """The events of one request in this split."""

    request: TapRequest
    folder: Path
    taken: list[pa.RecordBatch] = field(default_factory=list)
    missing: int = 0
    condition: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        events = batch.slice(0, SEARCHED_EVENTS if self.request.where else self.missing)
        events = materialize(events)
        if self.request.where:
            events = self._matching(events)
        events = events.slice(0, self.missing)
        if events.num_rows:
            self.missing -= events.num_rows
            self.taken.append(events.select(visible(events.schema).names))

    def _matching(self, events: pa.RecordBatch) -> pa.RecordBatch:
        assert self.request.where is not None
        mask = compile_expression(self.request.where, events.schema)(events)[0]
        return events.filter(pc.fill_null(mask.cast(pa.bool_()), False))

    def write(self) -> None:
        for schema in dict.fromkeys(one.schema for one in self.taken):
            name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
            with pa.OSFile(str(self.folder / f"{name}.new"), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for batch in self.taken:
                    if batch.schema == schema:
                        writer.write_batch(batch)
            os.replace(self.folder / f"{name}.new", self.folder / f"{name}.arrow")


class Taps:
    """The requests that a split serves."""

    def __init__(self, taps: Sequence[_Tap]) -> None:
        self._by_point: dict[str, list[_Tap]] = {}
        for tap in taps:
            for point in tap.request.points:
                self._by_point.setdefault(point, []).append(tap)
        self._taps = taps

    @staticmethod
    def open(folder: Path | None) -> Taps | None:
        """The requests in a folder; None without any, which is found out by one call of the system."""
        if folder is None or not folder.is_dir():
            return None
        requests = [request for path in sorted(folder.glob("*.json"))[:MAX_REQUESTS] if (request := TapRequest.read(path))]
        taps = [_Tap(one, folder / one.id, missing=one.limit) for one in requests if _has_room(folder / one.id)]
        return Taps(taps) if taps else None

    def take(self, point: str, batch: pa.RecordBatch) -> None:
        """Copy events that pass a point. What goes wrong concerns the viewer only."""
        for tap in self._by_point.get(point, ()):
            if tap.missing > 0:
                try:
                    tap.take(batch)
                except Exception as error:
                    tap.missing = 0
                    with suppress(OSError):
                        (tap.folder / ERROR).write_text(str(error)[:1000])

    def write(self) -> None:
        """Hand the events over at the end of the split."""
        for tap in self._taps:
            with suppress(OSError, pa.ArrowException):
                tap.write()


def _has_room(folder: Path) -> bool:
    try:
        return len(os.listdir(folder)) < MAX_FILES
    except OSError:
        return False
