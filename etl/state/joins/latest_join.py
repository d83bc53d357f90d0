"""The latest version of a key at the time of each event: an as-of join, given when the watermark has passed the event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import OFFSET, PANE, PaneSpan, PartRows, Rejects, WatermarkAdvance
from etl.state.joins.side_columns import take_rejects
from etl.state.joins.sided_events import SIDE, UNMATCHABLE, SidedEvents, latest_rows, runs_of_tables
from etl.state.joins.sided_state import PANES, SHORTEST_PANE
from etl.state.joins.time_join import TimeJoin
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import numbers, whole

ORDER = "\0order"
"""Column (int64) of state rows: the event's offset, which decides between versions of the same time."""

NO_END = 253_402_300_799_000_000
"""Pane of versions that stay until they are replaced: the last second of the year 9999."""


@dataclass(frozen=True)
class LatestJoin(TimeJoin):
    """State holds left events that the watermark has not passed, and the right ones, which are versions of their keys.

    ``after`` is 0; without ``bounded`` versions are valid until the next one.
    """

    bounded: bool = True

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return max(self.before // PANES, SHORTEST_PANE) if self.bounded else SHORTEST_PANE

    @property
    def _outer_sides(self) -> tuple[int, ...]:
        return (0,)

    @property
    def _retention(self) -> tuple[int, int]:
        return 0, self.before

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows as of other joins, with offsets."""
        rows, late = super().prepare(events.append_column(ORDER, events.column(OFFSET)), watermark)
        if self.bounded:
            return rows, late
        panes = np.where(numbers(rows, SIDE) % UNMATCHABLE == 1, NO_END, numbers(rows, PANE))
        return rows.set_column(rows.column_names.index(PANE), PANE, pa.array(panes)), late

    def _event_columns(self, events: pa.RecordBatch, sides: Any) -> dict[str, pa.Array]:
        return {**super()._event_columns(events, sides), ORDER: events.column(ORDER)}

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the watermark may have passed some left events."""
        return clock.before < clock.now and (arrived is not None or stored is not None)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table | Rejects]:
        """Left events that the watermark has now passed, each with the latest version at its time."""
        tables = [*stored.tables(clock.before - self.pane + 1, clock.now + 1), *arrived.tables()]
        decided = [table.filter(pa.array(mask)) for table in tables if (mask := self._is_decided(table, clock)).any()]
        if not decided:
            return
        events = SidedEvents.of(whole(decided))
        first, last = int(events.time.min()), int(events.time.max())
        versions = (first - self.pane + 1, last + self.before + 1) if self.bounded else (NO_END, NO_END + 1)
        runs = list(runs_of_tables([*stored.tables(*versions), *arrived.tables()]))
        yield from self._with_versions(events, runs)

    def _with_versions(self, events: SidedEvents, runs: list[SidedEvents]) -> Iterator[pa.RecordBatch | Rejects]:
        rejected: list[Rejects] = []
        rows = [numbers(run.rows, ORDER) for run in runs]
        found, at = latest_rows(events, runs, rows, self.before)
        unmatched = found < 0
        for number, run in enumerate(runs):
            own = np.flatnonzero(found == number)
            if not len(own):
                continue
            met = np.zeros(len(own), bool)
            for chosen, _, batch in self._condition_met(own, np.arange(len(own)), events, own, run, at[own], rejected):
                met[np.searchsorted(own, np.sort(chosen))] = True
                if batch.num_rows:
                    yield batch
            yield from take_rejects(rejected)
            unmatched[own[~met]] = True
        if self.kind == "left":
            yield from self._unpaired_events(events, unmatched)

    def watermark_after(self, watermark: int) -> int:
        """That of left events: they are given when it has passed them."""
        return watermark

    def remaining(self, rows: pa.Table, watermark: int) -> pa.Table:
        """Rows of state without versions that are followed by another one that the watermark has passed."""
        versions = (numbers(rows, SIDE) == 1) & (numbers(rows, TIME) <= watermark)
        order = np.lexsort((numbers(rows, ORDER), numbers(rows, TIME), numbers(rows, HASH2), numbers(rows, HASH), ~versions))
        same = np.ones(max(len(order) - 1, 0), bool)
        for name in (HASH, HASH2):
            values = numbers(rows, name)[order]
            same &= values[1:] == values[:-1]
        replaced = np.zeros(len(rows), bool)
        replaced[order[:-1]] = same & versions[order[1:]] & versions[order[:-1]]
        return rows.filter(pa.array(~replaced)) if replaced.any() else rows
