"""Events that wait until the watermark has passed their times, so that a step gets them in the order of time.

Two kinds of rows are in state, and both are only ever appended. *Waiting* rows are events as they came. *Past* rows are what
later events need of those that passed. The pane of a row is the time from which on it is no longer needed: even for waiting rows,
odd for past ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, NEVER, OFFSET, PANE, AfterRun, PaneSpan, PartRows, Rejects, Schema, WatermarkAdvance
from etl.state.aggregates.accumulator import Numbers
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import numbers, prepare_rows, whole

ORDER = "\0order"
"""Column (int64): the offset of an event, which orders those of the same time."""


@dataclass(frozen=True)
class WaitingEvents(ABC):
    """An operator over events in the order of time. ``fields`` are those of results."""

    fields: Schema
    keys: tuple[str, ...]
    time: str
    waits: bool
    """Whether events wait for the watermark; otherwise all pass in the micro-batch in which they come."""

    @property
    def hashed(self) -> bool:
        """Past rows are looked up by key."""
        return True

    @property
    def indexed(self) -> bool:
        """Past rows are looked up by key."""
        return True

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """At the end of all sources all events that wait pass."""
        return self.waits and clock.now >= ALWAYS

    def reads_panes(self, clock: WatermarkAdvance, panes: Numbers) -> Numbers:
        """Those of events that wait."""
        return (panes > clock.before) & (panes % 2 == 0)

    @property
    def after_run(self) -> AfterRun:
        """Waiting rows stay in their files until the watermark has passed them all."""
        return "added" if self.waits else "appended"

    @abstractmethod
    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table | Rejects]:
        """Results for these events, and past rows for later ones. ``past`` may hold rows of other keys, too."""

    @abstractmethod
    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: which past rows later events need."""

    def prepare_events(
        self, events: pa.RecordBatch, fields: Schema, watermark: int, more: Mapping[str, Numbers] | None = None
    ) -> tuple[pa.Table, int]:
        """Waiting rows with these fields; events older than the watermark are late."""
        oldest = watermark if self.waits else NEVER
        own = {ORDER: events.column(OFFSET).to_numpy(), **(more or {})}
        rows, late = prepare_rows(events, fields, self.time, 1, oldest, own)
        at = rows.column_names.index(PANE)
        return rows.set_column(at, PANE, pa.array(waiting_panes(numbers(rows, TIME), watermark))), late

    def combine(self, rows: pa.Table) -> pa.Table:
        """Waiting rows as they are; of past rows those that later events need."""
        past = numbers(rows, PANE) % 2 == 1
        if not past.any():
            return rows
        needed = ~past
        needed[past] = self.needed_past(rows if past.all() else rows.filter(pa.array(past)))
        return rows if needed.all() else rows.filter(pa.array(needed))

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the watermark may have passed events that wait, or there are events and none waits."""
        if not self.waits:
            return arrived is not None
        return clock.before < clock.now and (arrived is not None or stored is not None)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table | Rejects]:
        """Pass the events that the watermark has passed."""
        alive = stored.tables((clock.before if self.waits else clock.now) + 1)
        waiting = [*(table for table in alive if not is_past(table)), *arrived.tables()]
        passing = [rows for table in waiting if len(rows := self._select_passing(table, clock))]
        if passing:
            yield from self.pass_events(whole(passing), [table for table in alive if is_past(table)], clock.now)

    def _select_passing(self, table: pa.Table, clock: WatermarkAdvance) -> pa.Table:
        """The events that pass now."""
        if not self.waits:
            return table
        return rows_passing(table, clock)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the watermark has reached the time from which on the pane is no longer needed."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """What passes later is not older."""
        return watermark


def rows_passing(table: pa.Table, clock: WatermarkAdvance) -> pa.Table:
    """The rows of a table whose times the watermark passes now."""
    times = numbers(table, TIME)
    passes = (times >= clock.before) & (times < clock.now)
    return table if passes.all() else table.filter(pa.array(passes))


def is_past(table: pa.Table) -> bool:
    """Whether the rows of a pane are past ones."""
    return bool(table.column(PANE)[0].as_py() % 2)


def waiting_panes(times: Numbers, watermark: int) -> Numbers:
    """int64[n]: times after those of events, at most twice as far from the watermark, so that a batch has few panes."""
    if not len(times):
        return times
    base = int(times.min()) if watermark == NEVER else min(watermark, int(times.min()))
    base -= base % 2
    _, exponents = np.frexp((times - base).astype(np.float64))
    return base + (np.int64(1) << np.maximum(exponents, 1).astype(np.int64))
