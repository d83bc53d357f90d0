"""Events of both sides of a join as rows of state: keys, times, panes and how long a row is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import (
    PANE,
    SIDE_PREFIXES,
    TIMESTAMP,
    PartRows,
    Schema,
    widen,
    wider,
)
from etl.api import SIDE as SIDE_FIELD
from etl.expressions import CompiledExpression
from etl.state.joins.limited_sides import SideLimit
from etl.state.joins.side_columns import batch_of, coalesce, is_one_side, of_both_types
from etl.state.joins.sided_events import (
    SIDE,
    UNMATCHABLE,
)
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import as_times, numbers, whole
from etl.state.windows.aggregation import event_times

_KEY = "\0key"
"""Prefix of columns with the keys of either side, until they are hashed."""

PANES = 8
"""Panes in the time that an event is kept; state stays an eighth longer than needed."""

SHORTEST_PANE = 60_000_000
"""Microseconds: events of windows of a day that match at the same time are not divided into panes of a microsecond each."""

_PRESERVED = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}
"""Kind → sides whose events are given without a match."""


@dataclass(frozen=True)
class SidedState:
    """Rows of both sides, in panes by the time at which no event needs them any more."""

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
    where_fields: frozenset[str]
    """The fields of a pair that it reads."""
    limit: SideLimit | None = None
    """None takes all events."""
    hashed: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of either side."""
        return tuple(f"{_KEY}{number:03d}" for number in range(len(self.on)))

    @property
    def key_fields(self) -> Schema:
        """The fields of the left side, with a type that has the values of both sides."""
        types = [
            [self.incoming.field(prefix + name).type for prefix, name in zip(SIDE_PREFIXES, pair, strict=True)]
            for pair in self.on.items()
        ]
        return pa.schema([(name, wider(left, right) or left) for name, (left, right) in zip(self.on, types, strict=True)])

    def key_columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The key of each event, whichever side it is of."""
        found = {}
        for field, pair in zip(self.key_fields, self.on.items(), strict=True):
            names = [prefix + name for prefix, name in zip(SIDE_PREFIXES, pair, strict=True)]
            sides = [widen(rows.column(name).combine_chunks(), field.type) for name in names if name in rows.column_names]
            found[field.name] = pc.coalesce(*sides)
        return found

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return max(sum(self._waits) // PANES, SHORTEST_PANE)

    @property
    def _outer_sides(self) -> tuple[int, ...]:
        return _PRESERVED.get(self.kind, ())

    @property
    def _waits(self) -> tuple[int, int]:
        """How long after a left and after a right event a match can come."""
        return max(self.after, 0), max(self.before, 0)

    @property
    def _retention(self) -> tuple[int, int]:
        """How long after its time an event of each side is kept: as long as a match may come, or as long as it is asked whether
        another one has a match."""
        left, right = self._waits
        if self.limit is not None:
            return self.limit.span, self.limit.span  # so that all events of a span are there to be counted
        return (left, right) if self.kind == "inner" else (max(left, self.after + right), max(right, self.before + left))

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events, without those that are older than the watermark, and those that neither match nor are given without."""
        times = event_times(events, self.time)
        sides = events.column(SIDE_FIELD).to_numpy()
        keys = self._key_columns(events, sides)
        lacks_key = np.logical_or.reduce([~key.is_valid().to_numpy(zero_copy_only=False) for key in keys.values()])
        late = times < watermark
        unneeded = lacks_key & ~np.isin(sides, self._outer_sides)
        expiry = times + np.asarray(self._retention)[sides]
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
            found[name] = of_both_types(*columns)[sides[0]] if is_one_side(sides) else coalesce(*columns)
        return found

    def _event_columns(self, events: pa.RecordBatch, sides: Any) -> dict[str, pa.Array]:
        """The fields of events, without those of a side of which there is none."""
        prefixes = (SIDE_PREFIXES[sides[0]],) if is_one_side(sides) else SIDE_PREFIXES
        return {name: events.column(name) for name in self.incoming.names if name.startswith(prefixes)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """All rows, without their keys, which are hashed."""
        return rows.drop_columns(self.keys) if self.keys[0] in rows.column_names else rows

    @property
    def state_fields(self) -> Schema:
        """The side and the time of an event, and the fields of both sides."""
        events = [field for field in self.incoming if field.name.startswith(SIDE_PREFIXES)]
        return pa.schema([("side", pa.string()), ("time", TIMESTAMP), *events])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The events that are kept."""
        tables = stored.tables()
        if not tables:
            return
        rows = whole(tables)
        sides = numbers(rows, SIDE) % UNMATCHABLE
        rows = rows.filter(pa.array(numbers(rows, TIME) + np.asarray(self._retention)[sides] >= watermark))
        names = pa.array(["left", "right"]).take(pa.array(numbers(rows, SIDE) % UNMATCHABLE))
        found = {name: rows.column(name) for name in rows.column_names}
        yield batch_of({**found, "side": names, "time": as_times(numbers(rows, TIME))}, self.state_fields, len(rows))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether no event that is not late can need those of the pane."""
        return last_pane + self.pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The earliest time of an event that may still be given."""
        return watermark - max(self._waits)
