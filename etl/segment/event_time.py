"""The largest event time of a split so far, and the heartbeat row that carries it to Spark's watermark."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, NEVER, OFFSET, SIDE, Schema, format_duration
from etl.columns.texts import materialize
from etl.plan.segments import Watermark

TAIL_ROWS = 64
"""Rows at the end of each batch whose event time counts even if a filter drops them."""

TAIL_BYTES = 1 << 20
"""Bytes of such rows that wait until their event times are looked at."""


class UnfilteredPreview(Protocol):
    """A branch that can be run with its filters undone."""

    def preview_unfiltered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch as it is before each step and after the last, without applying filters."""


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Of the units of timestamps; a nanosecond is less than one."""


class EventTime:
    """The largest event time of a split's events, including those that were filtered or rejected.

    Times that are further ahead of the time of reading than ``max_ahead_seconds`` do not count: one wrong clock would make the
    events of all others late. Neither do those before `NEVER` or after `ALWAYS`.
    """

    def __init__(self, watermark: Watermark, read_at: float | None = None, max_ahead_seconds: float | None = None) -> None:
        self.field = watermark.field
        self.arrival = watermark.arrival
        self._latest: dict[int | None, int] = {}
        """By side of a join; None for events that have none."""
        self._now = round((time.time() if read_at is None else read_at) * 1e6)
        self._ahead = max_ahead_seconds
        self._last = ALWAYS - 1 if max_ahead_seconds is None else min(self._now + round(max_ahead_seconds * 1e6), ALWAYS - 1)

    def with_arrival_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Append the time of reading if that is the event time."""
        if not self.arrival:
            return batch
        now = pa.repeat(pa.scalar(self._now, pa.int64()), batch.num_rows).cast(pa.timestamp("us", tz="UTC"))
        return batch.append_column(self.field, now)

    def observe(self, batch: pa.RecordBatch) -> None:
        """Update ``latest`` with the largest time of a batch."""
        at = batch.schema.get_field_index(self.field)
        if at < 0 or not pa.types.is_timestamp(batch.schema.field(at).type):
            return  # a later step sets the field, or parses it
        known = batch.select([name for name in (self.field, SIDE) if name in batch.schema.names])
        wrong = self.out_of_range(known)
        for side, events in events_by_side(known if wrong is None else known.filter(pc.invert(wrong))):
            latest = pc.max(events.column(self.field)).cast(pa.timestamp("us", tz="UTC"), safe=False).value
            if latest is not None:
                self._latest[side] = max(latest, self._latest.get(side, latest))

    @property
    def latest(self) -> int | None:
        """The largest time so far, microseconds since the epoch."""
        return max(self._latest.values(), default=None)

    def out_of_range(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which events have a time that does not count, null without one; None if all times count."""
        if self.arrival:
            return None
        times = batch.column(self.field)
        values = times.cast(pa.int64())
        first, last = _in_unit(NEVER, times.type.unit), _in_unit(self._last, times.type.unit)
        extremes = pc.min_max(values)
        minimum, maximum = extremes["min"].as_py(), extremes["max"].as_py()
        if minimum is None or (first <= minimum and maximum <= last):
            return None
        return pc.or_(pc.less(values, first), pc.greater(values, last))

    @property
    def range_text(self) -> str:
        """Why events with other times are rejected."""
        if self._ahead is None:
            return f"{self.field} is not a time that this program can compute with"
        ahead = format_duration(timedelta(seconds=self._ahead))
        return f"{self.field} is more than {ahead} ahead of the time of reading (run.max_ahead), or before all time"

    def observe_arrival(self) -> None:
        """Update ``latest`` with the time of reading, if that is the event time."""
        if self.arrival:
            self._latest[None] = self._now

    def heartbeat(self, schema: Schema) -> pa.RecordBatch:
        """A row with the largest event time, or one for each side of a join that has events; their ``_offset`` is null."""
        sides = {side: latest for side, latest in self._latest.items() if side is not None} or self._latest
        beats = [heartbeat(schema, self.field, latest, side) for side, latest in sides.items()]
        return pa.Table.from_batches(beats).combine_chunks().to_batches()[0]


class BatchTails:
    """The last `TAIL_ROWS` events of each batch, whose event times count even if filters drop the events.

    They run through a branch with its filters undone, many at a time: for each batch alone that would take a tenth of the time
    that the batch takes. At most `TAIL_BYTES` and the tail of one batch wait in memory.
    """

    def __init__(self, branch: UnfilteredPreview, times: Collection[EventTime]) -> None:
        self._branch = branch
        self._times = times
        self._tails: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the tail of a batch."""
        for time_ in self._times:
            time_.observe_arrival()
        if all(time_.arrival for time_ in self._times):
            return
        tail = materialize(batch.slice(max(0, batch.num_rows - TAIL_ROWS)))
        if self._tails and tail.schema != self._tails[0].schema:
            self.observe()
        self._tails.append(tail)
        self._bytes += tail.nbytes
        if self._bytes > TAIL_BYTES:
            self.observe()

    def observe(self) -> None:
        """Update the event times with all tails so far."""
        tails, self._tails, self._bytes = self._tails, [], 0
        whole = pa.Table.from_batches(tails).combine_chunks().to_batches() if tails else []
        for passed in (one for batch in whole for one in self._branch.preview_unfiltered(batch)):
            for time_ in self._times:
                if not time_.arrival:
                    time_.observe(passed)


def _in_unit(micros: int, unit: str) -> int:
    """A time in a unit of timestamps, as near as 64 bits allow."""
    value = micros * 1_000 if unit == "ns" else micros // _MICROSECONDS[unit]
    return max(-(1 << 63), min(value, (1 << 63) - 1))


def heartbeat(schema: Schema, field: str, micros: int, side: int | None = None) -> pa.RecordBatch:
    """One row with only the event time set, and the side of a join. It advances the watermark and is removed afterwards."""
    given = {field: micros, SIDE: side}
    arrays = [
        pa.array([given.get(one.name)], pa.int64()).cast(one.type) if one.name in given else pa.nulls(1, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays([*arrays, pa.nulls(1, pa.int64())], names=[*schema.names, OFFSET])


def events_by_side(batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """The events of each side of a join, or with None those of another step."""
    if SIDE not in batch.schema.names or not batch.num_rows:
        yield None, batch
        return
    sides = batch.column(SIDE)
    extremes = pc.min_max(sides)
    first, last = extremes["min"].as_py(), extremes["max"].as_py()
    if first == last and not sides.null_count:
        yield first, batch
    elif first is not None:
        yield from ((side, batch.filter(pc.equal(sides, side))) for side in range(first, last + 1))


def without_heartbeats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a batch, which is not copied if it has no heartbeat."""
    offsets = batch.column(OFFSET)
    return batch.filter(offsets.is_valid()) if offsets.null_count else batch
