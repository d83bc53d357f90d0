"""The event time of a split: what it has shown so far, and the row that carries it to Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, Schema
from etl.plan.model import Watermark

SAMPLE = 64
"""Rows at the end of each batch whose event time is looked at even if a filter drops them later."""


class Passing(Protocol):
    """A branch that shows what events look like behind each of its steps."""

    def passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """If no filter dropped them."""


class EventTime:
    """The largest event time a split has shown, whatever became of the events."""

    def __init__(self, watermark: Watermark) -> None:
        self.field = watermark.field
        self.arrival = watermark.arrival
        self.latest: int | None = None
        self._now = time.time_ns() // 1000

    def stamped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its time of reading, where that is the event time."""
        if not self.arrival:
            return batch
        now = pa.repeat(pa.scalar(self._now, pa.int64()), batch.num_rows).cast(pa.timestamp("us", tz="UTC"))
        return batch.append_column(self.field, now)

    def look(self, batch: pa.RecordBatch) -> None:
        """Take the largest time of a batch."""
        at = batch.schema.get_field_index(self.field)
        if at < 0 or not pa.types.is_timestamp(batch.schema.field(at).type):
            return  # not yet set, or still a text
        latest = pc.max(batch.column(self.field)).cast(pa.timestamp("us", tz="UTC")).value
        if latest is not None and (self.latest is None or latest > self.latest):
            self.latest = latest

    def look_at_end(self, batch: pa.RecordBatch, branch: Passing) -> None:
        """Take the times of a batch's last events as if no filter stood in their way."""
        if self.arrival:
            self.latest = self._now
            return
        tail = batch.slice(max(0, batch.num_rows - SAMPLE))
        for passed in branch.passing(tail):
            self.look(passed)

    def heartbeat(self, schema: Schema) -> pa.RecordBatch:
        """A row that carries nothing but the time; its ``_offset`` is null."""
        return heartbeat(schema, self.field, self.latest or 0)


def heartbeat(schema: Schema, field: str, micros: int) -> pa.RecordBatch:
    """One row of nulls but for the event time, which moves the watermark and is removed behind it."""
    arrays = [pa.array([micros], pa.int64()).cast(f.type) if f.name == field else pa.nulls(1, f.type) for f in schema]
    return pa.RecordBatch.from_arrays([*arrays, pa.nulls(1, pa.int64())], names=[*schema.names, OFFSET])
