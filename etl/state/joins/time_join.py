"""Events of two sides with the same keys and near in time, as pairs; and those that have no match when none can come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import (
    AfterRun,
    DroppedEvents,
    PaneSpan,
    PartRows,
    Rejects,
    WatermarkAdvance,
)
from etl.state.joins.limited_sides import SideLimit
from etl.state.joins.side_columns import WHERE_FAILED, PairEvents, batch_of, rows_that_meet, take_rejects
from etl.state.joins.sided_events import (
    SIDE,
    UNMATCHABLE,
    SidedEvents,
    events_of_tables,
    find_pairs,
    runs_of_tables,
)
from etl.state.joins.sided_state import SidedState
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import numbers, whole
from etl.state.windows.aggregation import SORTED_ROWS


@dataclass(frozen=True)
class TimeJoin(PairEvents, SidedState):
    """Pairs of events that are near in time, and events without a match. State holds the events of both sides."""

    @property
    def after_run(self) -> AfterRun:
        """The arrived rows are added to state; with a limit those that are accepted."""
        return "arrived" if self.limit is None else "appended"

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events, or the watermark may have passed the last match of some."""
        return arrived is not None or (bool(self._outer_sides) and stored is not None and clock.before < clock.now)

    def run(
        self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows
    ) -> Iterator[pa.RecordBatch | pa.Table | DroppedEvents | Rejects]:
        """Pairs of which an event is new, then events that have no match. A pair for which the condition fails is rejected."""
        new = events_of_tables(arrived.tables())
        if new is not None and self.limit is not None:
            within_limit = self._within_limit(new, self.limit, stored)
            if not within_limit.all():
                yield DroppedEvents(int((~within_limit).sum()))
            new = new.where(within_limit) if within_limit.any() else None
            if new is not None:
                yield new.rows
        if new is not None and self.kind == "semi":
            yield from self._first_matches(new, stored)
        elif new is not None and self.kind != "anti":
            yield from self._new_pairs(new.where(new.side == 0), new)
            for run in self._runs(stored, new):
                yield from self._new_pairs(new, run)
        if self._outer_sides:
            yield from self._unmatched(clock, new, stored)

    def _within_limit(self, new: SidedEvents, limit: SideLimit, stored: PartRows) -> Any:
        """bool[n]: which new events are within the limit."""
        first, end = limit.whole_spans(new.time)
        return limit.within_limit(
            new, runs_of_tables(stored.tables(first + min(self._retention) - self.pane + 1, end + max(self._retention)))
        )

    def _runs(self, stored: PartRows, near: SidedEvents) -> Iterator[SidedEvents]:
        """The events of state that can match some of these."""
        first, last = int(near.time.min()), int(near.time.max())
        left, right = self._retention
        low = first + min(left - self.after, right - self.before)
        high = last + max(left + self.before, right + self.after)
        return runs_of_tables(stored.tables(low - self.pane + 1, high + 1))

    def _new_pairs(self, queries: SidedEvents, run: SidedEvents) -> Iterator[pa.RecordBatch | Rejects]:
        rejected: list[Rejects] = []
        for _, _, batch in self._pairs(queries, run, rejected):
            if batch.num_rows:
                yield batch
            yield from take_rejects(rejected)

    def _pairs(
        self, queries: SidedEvents, run: SidedEvents, rejected: list[Rejects] | None = None
    ) -> Iterator[tuple[Any, Any, pa.RecordBatch]]:
        """Pairs that meet the condition: their rows in ``queries`` and in ``run``, and the pairs' events. Those of which it fails
        are added to ``rejected``."""
        for found, rows in find_pairs(queries, run, self.before, self.after):
            for side in (0, 1):
                own = queries.side[found] == side
                if own.any():
                    at, other = found[own], rows[own]
                    yield from self._condition_met(
                        at, other, *((queries, at, run, other) if not side else (run, other, queries, at)), rejected
                    )

    def _condition_met(
        self,
        found: Any,
        rows: Any,
        left: SidedEvents,
        at_left: Any,
        right: SidedEvents,
        at_right: Any,
        rejected: list[Rejects] | None,
    ) -> Iterator[tuple[Any, Any, pa.RecordBatch]]:
        if len(found) <= SORTED_ROWS:
            order = np.lexsort((right.time[at_right], left.time[at_left]))
            found, rows, at_left, at_right = found[order], rows[order], at_left[order], at_right[order]
        if self.where is not None:
            mask, failed, reasons = rows_that_meet(
                self.where, self._fields_of_condition(left.rows, at_left, right.rows, at_right)
            )
            if rejected is not None and failed is not None:
                events = self._events_of_pairs(left, at_left[failed], right, at_right[failed])
                rejected.append(Rejects(events, WHERE_FAILED, reasons))
            found, rows, at_left, at_right = found[mask], rows[mask], at_left[mask], at_right[mask]
        if len(found) or rejected:
            yield found, rows, self._events_of_pairs(left, at_left, right, at_right)

    def _events_of_pairs(self, left: SidedEvents, at_left: Any, right: SidedEvents, at_right: Any) -> pa.RecordBatch:
        return self._pair_events(left.rows.take(pa.array(at_left)), right.rows.take(pa.array(at_right)), self.pair)

    def _fields_of_condition(self, left: pa.Table, at_left: Any, right: pa.Table, at_right: Any) -> pa.RecordBatch:
        """Of pairs of these rows the fields that the condition reads: most pairs may not meet it."""
        columns = {
            name: column.take(pa.array(at))
            for rows, at, side in ((right, at_right, 1), (left, at_left, 0))
            for name, column in self._side_columns(rows, side)
            if name in self.where_fields
        }
        return batch_of(columns, pa.schema([field for field in self.pair if field.name in self.where_fields]), len(at_left))

    def _first_matches(self, new: SidedEvents, stored: PartRows) -> Iterator[pa.RecordBatch | Rejects]:
        """Left events that have a match since this micro-batch."""
        rejected: list[Rejects] = []
        matched = np.zeros(len(new.time), bool)
        lefts = new.side == 0
        for found, _, _ in self._pairs(new.where(lefts), new, rejected):
            matched[np.flatnonzero(lefts)[found]] = True
            yield from take_rejects(rejected)
        earlier: list[pa.Table] = []
        for run in self._runs(stored, new):
            marked = np.zeros(len(run.time), bool)
            for found, rows, _ in self._pairs(new, run, rejected):
                is_left = lefts[found]
                matched[found[is_left]] = True
                marked[rows[~is_left]] = True
                yield from take_rejects(rejected)
            if marked.any():
                earlier.append(run.rows.filter(pa.array(marked)))
        if earlier:
            candidates = SidedEvents.of(whole(earlier))
            yield from self._unpaired_events(candidates, ~self._has_match(candidates, None, stored))
        yield from self._unpaired_events(new, matched)

    def _unmatched(
        self, clock: WatermarkAdvance, new: SidedEvents | None, stored: PartRows
    ) -> Iterator[pa.RecordBatch | Rejects]:
        """Events of which the watermark has now passed the last time of a match, and that have none."""
        tables = [*([new.rows] if new is not None else []), *stored.tables(*self._decided_panes(clock))]
        decided = [table.filter(pa.array(mask)) for table in tables if (mask := self._is_decided(table, clock)).any()]
        if decided:
            events = SidedEvents.of(whole(decided))
            rejected: list[Rejects] | None = [] if self.kind == "anti" else None  # of others when a pair was new
            unmatched = ~self._has_match(events, new, stored, rejected)
            yield from take_rejects(rejected or [])
            yield from self._unpaired_events(events, unmatched)

    def _decided_panes(self, clock: WatermarkAdvance) -> tuple[int, int]:
        """The panes of events of which the watermark has now passed the last time of a match."""
        more = [self._retention[side] - self._waits[side] for side in self._outer_sides]
        return clock.before + min(more) - self.pane + 1, clock.now + max(more)

    def _is_decided(self, rows: pa.Table, clock: WatermarkAdvance) -> Any:
        sides = numbers(rows, SIDE) % UNMATCHABLE
        last_match = numbers(rows, TIME) + np.asarray(self._waits)[sides]
        return np.isin(sides, self._outer_sides) & (last_match >= clock.before) & (last_match < clock.now)

    def _has_match(
        self, events: SidedEvents, new: SidedEvents | None, stored: PartRows, rejected: list[Rejects] | None = None
    ) -> Any:
        """bool[n]: which events have a match, among new ones or in state."""
        matched = np.zeros(len(events.time), bool)
        for run in (*([new] if new is not None else []), *self._runs(stored, events)):
            for found, _, _ in self._pairs(events, run, rejected):
                matched[found] = True
        return matched

    def _unpaired_events(self, events: SidedEvents, mask: Any) -> Iterator[pa.RecordBatch]:
        """The events for which the mask is true, by themselves, in the order of their times."""
        chosen = np.flatnonzero(mask)
        for side in (0, 1):
            own = chosen[events.side[chosen] % UNMATCHABLE == side]
            if len(own):
                rows = events.rows.take(pa.array(own[np.argsort(events.time[own], kind="stable")]))
                left, right = (rows, None) if side == 0 else (None, rows)
                yield self._pair_events(left, right, self.fields)
