"""Events of two sides with the same keys and near in time, as pairs; and those that have no match when none can come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import (
    PANE,
    SIDE_PREFIXES,
    TIMESTAMP,
    AfterRun,
    DroppedEvents,
    PaneSpan,
    PartRows,
    Schema,
    WatermarkAdvance,
    side_fields,
)
from etl.api import SIDE as SIDE_FIELD
from etl.expressions import CompiledExpression
from etl.state.joins.limited_sides import SideLimit
from etl.state.joins.side_columns import batch_of, coalesced, is_one_side, rows_that_meet
from etl.state.joins.sided_events import (
    SIDE,
    UNMATCHABLE,
    SidedEvents,
    events_of_tables,
    find_pairs,
    runs_of_tables,
)
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import as_times, numbers, whole
from etl.state.windows.aggregation import SORTED_ROWS, event_times

_KEY = "\0key"
"""Prefix of columns with the keys of either side, until they are hashed."""

PANES = 8
"""Panes in the time that an event is kept; state stays an eighth longer than needed."""

SHORTEST_PANE = 60_000_000
"""Microseconds: events of windows of a day that match at the same time are not divided into panes of a microsecond each."""

_PRESERVED = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}
"""Kind → sides whose events are given without a match."""


@dataclass(frozen=True)
class TimeJoin:
    """State holds the events of both sides, in panes by the time at which none needs them any more."""

    incoming: Schema
    fields: Schema
    """Of results."""
    pair: Schema
    """Of all pairs, on which the condition is."""
    right_names: Mapping[str, str]
    """Field of the right side → its name in a pair."""
    on: Mapping[str, str]
    kind: str
    time: str
    before: int
    """Microseconds that the right event of a pair may be earlier."""
    after: int
    """Microseconds that it may be later; less than zero if it must be earlier."""
    where: CompiledExpression | None
    limit: SideLimit | None = None
    """None takes all events."""
    hashed: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of either side."""
        return tuple(f"{_KEY}{number:03d}" for number in range(len(self.on)))

    @property
    def after_run(self) -> AfterRun:
        """The arrived rows are added to state; with a limit those that are accepted."""
        return "arrived" if self.limit is None else "appended"

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return max(sum(self._waits) // PANES, SHORTEST_PANE)

    @property
    def _preserved(self) -> tuple[int, ...]:
        return _PRESERVED.get(self.kind, ())

    @property
    def _waits(self) -> tuple[int, int]:
        """How long after a left and after a right event a match can come."""
        return max(self.after, 0), max(self.before, 0)

    @property
    def _kept(self) -> tuple[int, int]:
        """How long after its time an event of each side is kept: as long as a match may come, or as long as it is asked whether
        another one has a match."""
        left, right = self._waits
        if self.limit is not None:
            return self.limit.span, self.limit.span  # so that all events of a span are there to be counted
        return (left, right) if self.kind == "inner" else (max(left, self.after + right), max(right, self.before + left))

    # ── Rows ──

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events, without those that are older than the watermark, and those that neither match nor are given without."""
        times = event_times(events, self.time)
        sides = events.column(SIDE_FIELD).to_numpy()
        keys = self._key_columns(events, sides)
        lacks_key = np.logical_or.reduce([~key.is_valid().to_numpy(zero_copy_only=False) for key in keys.values()])
        late = times < watermark
        unneeded = lacks_key & ~np.isin(sides, self._preserved)
        expiry = times + np.asarray(self._kept)[sides]
        columns = {
            PANE: pa.array(expiry - expiry % self.pane),
            TIME: pa.array(times),
            SIDE: pa.array((sides + UNMATCHABLE * lacks_key).astype(np.int8)),
        }
        rows = pa.table({**columns, **keys, **self._event_columns(events, sides)})
        leaves = late | unneeded
        return (rows.filter(pa.array(~leaves)) if leaves.any() else rows), int(late.sum())

    def _key_columns(self, events: pa.RecordBatch, sides: Any) -> dict[str, pa.Array]:
        found = {}
        for name, pair in zip(self.keys, self.on.items(), strict=True):
            columns = [events.column(prefix + field) for prefix, field in zip(SIDE_PREFIXES, pair, strict=True)]
            found[name] = columns[sides[0]] if is_one_side(sides) else coalesced(*columns)
        return found

    def _event_columns(self, events: pa.RecordBatch, sides: Any) -> dict[str, pa.Array]:
        """The fields of events, without those of a side of which there is none."""
        prefixes = (SIDE_PREFIXES[sides[0]],) if is_one_side(sides) else SIDE_PREFIXES
        return {name: events.column(name) for name in self.incoming.names if name.startswith(prefixes)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """All rows, without their keys, which are hashed."""
        return rows.drop_columns(self.keys) if self.keys[0] in rows.column_names else rows

    # ── Running ──

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether there are events, or the watermark may have passed the last match of some."""
        return arrived is not None or (bool(self._preserved) and kept is not None and clock.before < clock.now)

    def run(
        self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows
    ) -> Iterator[pa.RecordBatch | pa.Table | DroppedEvents]:
        """Pairs of which an event is new, then events that have no match."""
        new = events_of_tables(arrived.tables())
        if new is not None and self.limit is not None:
            accepted = self._accepted(new, self.limit, kept)
            if not accepted.all():
                yield DroppedEvents(int((~accepted).sum()))
            new = new.where(accepted) if accepted.any() else None
            if new is not None:
                yield new.rows
        if new is not None and self.kind == "semi":
            yield from self._newly_matched(new, kept)
        elif new is not None and self.kind != "anti":
            yield from (batch for _, _, batch in self._pairs(new.where(new.side == 0), new))
            for run in self._runs(kept, new):
                yield from (batch for _, _, batch in self._pairs(new, run))
        if self._preserved:
            yield from self._unmatched(clock, new, kept)

    def _accepted(self, new: SidedEvents, limit: SideLimit, kept: PartRows) -> Any:
        """bool[n]: which new events are within the limit."""
        first, end = limit.whole_spans(new.time)
        return limit.accepted(new, runs_of_tables(kept.tables(first + min(self._kept) - self.pane + 1, end + max(self._kept))))

    def _runs(self, kept: PartRows, near: SidedEvents) -> Iterator[SidedEvents]:
        """The events of state that can match some of these."""
        first, last = int(near.time.min()), int(near.time.max())
        left, right = self._kept
        low = first + min(left - self.after, right - self.before)
        high = last + max(left + self.before, right + self.after)
        return runs_of_tables(kept.tables(low - self.pane + 1, high + 1))

    def _pairs(self, queries: SidedEvents, run: SidedEvents) -> Iterator[tuple[Any, Any, pa.RecordBatch]]:
        """Pairs that meet the condition: their rows in ``queries`` and in ``run``, and the pairs' events."""
        for found, rows in find_pairs(queries, run, self.before, self.after):
            for side in (0, 1):
                own = queries.side[found] == side
                if own.any():
                    at, other = found[own], rows[own]
                    yield from self._condition_met(
                        at, other, *((queries, at, run, other) if not side else (run, other, queries, at))
                    )

    def _condition_met(
        self, found: Any, rows: Any, left: SidedEvents, at_left: Any, right: SidedEvents, at_right: Any
    ) -> Iterator[tuple[Any, Any, pa.RecordBatch]]:
        if len(found) <= SORTED_ROWS:
            order = np.lexsort((right.time[at_right], left.time[at_left]))
            found, rows, at_left, at_right = found[order], rows[order], at_left[order], at_right[order]
        batch = self._pair_events(left.rows.take(pa.array(at_left)), right.rows.take(pa.array(at_right)), self.pair)
        if self.where is not None:
            met = rows_that_meet(self.where, batch)
            mask = met.to_numpy(zero_copy_only=False)
            found, rows, batch = found[mask], rows[mask], batch.filter(met)
        if len(found):
            yield found, rows, batch

    def _pair_events(self, left: pa.Table | None, right: pa.Table | None, fields: Schema) -> pa.RecordBatch:
        """Events with the fields of pairs of these rows; without rows of a side its fields are null."""
        sides = [(rows, side) for side, rows in ((1, right), (0, left)) if rows is not None]
        columns = {new: column for rows, side in sides for new, column in self._columns(rows, side)}
        return batch_of(columns, fields, len(sides[0][0]))

    def _columns(self, rows: pa.Table, side: int) -> Iterator[tuple[str, pa.ChunkedArray]]:
        """The fields of rows of a side, by their names in pairs."""
        for name, new in self._names[side].items():
            if SIDE_PREFIXES[side] + name in rows.column_names:
                yield new, rows.column(SIDE_PREFIXES[side] + name)

    @cached_property
    def _names(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Field of each side → its name in pairs; a key of the same name on both sides is a field of both."""
        same = {name: name for name, other in self.on.items() if name == other}
        return {name: name for name in side_fields(self.incoming)[0].names}, same | dict(self.right_names)

    # ── Semi-joins and events without a match ──

    def _newly_matched(self, new: SidedEvents, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """Left events that have a match since this micro-batch."""
        matched = np.zeros(len(new.time), bool)
        lefts = new.side == 0
        for found, _, _ in self._pairs(new.where(lefts), new):
            matched[np.flatnonzero(lefts)[found]] = True
        earlier: list[pa.Table] = []
        for run in self._runs(kept, new):
            marked = np.zeros(len(run.time), bool)
            for found, rows, _ in self._pairs(new, run):
                is_left = lefts[found]
                matched[found[is_left]] = True
                marked[rows[~is_left]] = True
            if marked.any():
                earlier.append(run.rows.filter(pa.array(marked)))
        if earlier:
            candidates = SidedEvents.of(whole(earlier))
            yield from self._given(candidates, ~self._has_match(candidates, None, kept))
        yield from self._given(new, matched)

    def _unmatched(self, clock: WatermarkAdvance, new: SidedEvents | None, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """Events of which the watermark has now passed the last time of a match, and that have none."""
        tables = [*([new.rows] if new is not None else []), *kept.tables(*self._panes_decided(clock))]
        decided = [table.filter(pa.array(mask)) for table in tables if (mask := self._is_decided(table, clock)).any()]
        if decided:
            events = SidedEvents.of(whole(decided))
            yield from self._given(events, ~self._has_match(events, new, kept))

    def _panes_decided(self, clock: WatermarkAdvance) -> tuple[int, int]:
        """The panes of events of which the watermark has now passed the last time of a match."""
        more = [self._kept[side] - self._waits[side] for side in self._preserved]
        return clock.before + min(more) - self.pane + 1, clock.now + max(more)

    def _is_decided(self, rows: pa.Table, clock: WatermarkAdvance) -> Any:
        sides = numbers(rows, SIDE) % UNMATCHABLE
        last_match = numbers(rows, TIME) + np.asarray(self._waits)[sides]
        return np.isin(sides, self._preserved) & (last_match >= clock.before) & (last_match < clock.now)

    def _has_match(self, events: SidedEvents, new: SidedEvents | None, kept: PartRows) -> Any:
        """bool[n]: which events have a match, among new ones or in state."""
        matched = np.zeros(len(events.time), bool)
        for run in (*([new] if new is not None else []), *self._runs(kept, events)):
            for found, _, _ in self._pairs(events, run):
                matched[found] = True
        return matched

    def _given(self, events: SidedEvents, mask: Any) -> Iterator[pa.RecordBatch]:
        """The events for which the mask is true, by themselves, in the order of their times."""
        chosen = np.flatnonzero(mask)
        for side in (0, 1):
            own = chosen[events.side[chosen] % UNMATCHABLE == side]
            if len(own):
                rows = events.rows.take(pa.array(own[np.argsort(events.time[own], kind="stable")]))
                left, right = (rows, None) if side == 0 else (None, rows)
                yield self._pair_events(left, right, self.fields)

    # ── State ──

    @property
    def state_fields(self) -> Schema:
        """The side and the time of an event, and the fields of both sides."""
        events = [field for field in self.incoming if field.name.startswith(SIDE_PREFIXES)]
        return pa.schema([("side", pa.string()), ("time", TIMESTAMP), *events])

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The events that are kept."""
        tables = kept.tables()
        if not tables:
            return
        rows = whole(tables)
        sides = numbers(rows, SIDE) % UNMATCHABLE
        rows = rows.filter(pa.array(numbers(rows, TIME) + np.asarray(self._kept)[sides] >= watermark))
        names = pa.array(["left", "right"]).take(pa.array(numbers(rows, SIDE) % UNMATCHABLE))
        found = {name: rows.column(name) for name in rows.column_names}
        yield batch_of({**found, "side": names, "time": as_times(numbers(rows, TIME))}, self.state_fields, len(rows))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether no event that is not late can need those of the pane."""
        return last_pane + self.pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The earliest time of an event that may still be given."""
        return watermark - max(self._waits)
