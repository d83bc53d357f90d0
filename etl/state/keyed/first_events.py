"""The first event of each key within a time: passes at once, and its repeats are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from etl.api import PANE, TIMESTAMP, PartRows, Schema
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, first_of_each_time, first_within
from etl.state.keyed.event_rows import KEY_HASH, as_hex, as_times, hashes_of, numbers, prepare_rows, whole
from etl.state.keyed.passing_events import PassingEvents

_STATE = (PANE, TIME, HASH, HASH2)
"""Columns of state rows."""

_PANES = 4
"""Panes in the time that a key is remembered: state stays a quarter longer than needed, and look-ups read five panes."""


@dataclass(frozen=True)
class FirstEvents(PassingEvents):
    """State holds the hash of the key and the time of each event that passed, until no event that is not late can be near it."""

    within: int
    """Microseconds."""

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return -(-self.within // _PANES)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events; those older than the watermark are late."""
        return prepare_rows(events, self.fields, self.time, self.pane, watermark)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Events without those that have the key and the time of one before: if that one does not pass, neither do they.

        Others stay: of two events nearer than ``within``, events of other splits can make the first a repeat and the second not.
        """
        if rows.column_names == list(_STATE):
            return rows
        return rows.filter(pa.array(first_of_each_time(hashes_of(rows), numbers(rows, TIME))))

    def decide(self, rows: pa.Table, times: Any, stored: PartRows) -> Any:
        """The first event of each key within a time, of these and those that passed before."""
        known = stored.tables(int(times.min()) - self.within - self.pane, int(times.max()) + self.within)
        return first_within(hashes_of(rows), times, known, self.within)

    def state_rows(self, passed: pa.Table) -> pa.Table:
        """The times and hashes."""
        return passed.select(_STATE)

    @property
    def state_fields(self) -> Schema:
        """The time of an event that passed, and the hash of its key."""
        return pa.schema([("time", TIMESTAMP), (KEY_HASH, pa.string())])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The events that passed and can still have repeats."""
        tables = stored.tables()
        if tables:
            rows = whole(tables)
            rows = rows.filter(pa.array(numbers(rows, TIME) + self.within > watermark))
            yield pa.RecordBatch.from_arrays([as_times(numbers(rows, TIME)), as_hex(rows)], schema=self.state_fields)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the watermark is ``within`` or more past the last time in the pane."""
        return last_pane + self.pane + self.within <= watermark

    def watermark_after(self, watermark: int) -> int:
        """Events pass as they come."""
        return watermark
