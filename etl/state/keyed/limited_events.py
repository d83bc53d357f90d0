"""Limits the events of each key in each span of time: the first ones pass, the others are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from etl.api import PANE, TIMESTAMP, PartRows, Schema
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import COUNT, TIME, counts_of, first_of_each, may_be_first
from etl.state.keyed.event_rows import KEY_HASH, as_hex, as_times, hashes_of, numbers, prepare_rows, whole
from etl.state.keyed.passing_events import PassingEvents
from etl.state.windows.aggregation import event_times

SPAN = "\0span"
"""Column (int64) of prepared rows: the start of the event's span, a multiple of its length, microseconds since the epoch."""

_SPANS = 16
"""Spans in a pane, so that a batch with events of a long time has few panes."""


@dataclass(frozen=True)
class LimitedEvents(PassingEvents):
    """State holds the hash of each key and span, and how many events of it have passed, until the span is over."""

    every: int
    """Microseconds."""
    limit: int

    @property
    def keys(self) -> tuple[str, ...]:
        """A key is another one in each span."""
        return (*self.group_by, SPAN)

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return self.every * _SPANS

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events with their spans; those whose span is over are late."""
        times = event_times(events, self.time)
        spans = {SPAN: times - times % self.every}
        return prepare_rows(events, self.fields, self.time, self.pane, self.watermark_after(watermark), spans)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Rows of state: those of a key as one. Events: without those that have ``limit`` events of their key before them."""
        if TIME in rows.column_names:
            return rows.filter(pa.array(may_be_first(hashes_of(rows), numbers(rows, TIME), self.limit)))
        names = [PANE, HASH, HASH2]
        sums = rows.group_by(names, use_threads=False).aggregate([(COUNT, "sum")])
        return sums.select([*names, f"{COUNT}_sum"]).rename_columns([*names, COUNT])

    def decide(self, rows: pa.Table, times: Any, stored: PartRows) -> Any:
        """The earliest events of each key and span, until ``limit`` of them have passed."""
        known = stored.tables(int(times.min()) - self.pane, int(times.max()) + 1)
        return first_of_each(hashes_of(rows), times, known, self.limit)

    def state_rows(self, passed: pa.Table) -> pa.Table:
        """The hashes, with the number of events of each key and span."""
        one_of_each, counts = counts_of(hashes_of(passed))
        return passed.select([PANE, HASH, HASH2]).take(pa.array(one_of_each)).append_column(COUNT, pa.array(counts))

    @property
    def state_fields(self) -> Schema:
        """The start of a pane, the hash of a key and one of the pane's spans, and how many of its events have passed."""
        return pa.schema([("pane_start", TIMESTAMP), (KEY_HASH, pa.string()), ("passed", pa.int64())])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The counts of the panes that are not over. Which of its spans a count is of cannot be known from its hash."""
        tables = stored.tables(watermark - self.pane + 1)
        if tables:
            rows = self.combine(whole(tables))
            columns = [as_times(numbers(rows, PANE)), as_hex(rows), rows.column(COUNT).combine_chunks()]
            yield pa.RecordBatch.from_arrays(columns, schema=self.state_fields)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether all spans of the pane are over."""
        return last_pane + self.pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The start of the span that the watermark is in: its events are not late yet."""
        return watermark - watermark % self.every
