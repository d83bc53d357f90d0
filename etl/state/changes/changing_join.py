"""Joins of two streams for ever, or for a time to live: the changes of pairs, and of rows without a match, in a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, SIDE_PREFIXES, ComponentError, PartRows, Rejects, Schema, WatermarkAdvance
from etl.api import SIDE as SIDE_FIELD
from etl.expressions import CompiledExpression
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.diffs import difference
from etl.state.changes.join_sides import JoinSide, matching_rows
from etl.state.changes.kernels import remaining_weights
from etl.state.changes.key_limits import MAX_BYTES_OF_KEY
from etl.state.changes.weighted_rows import WEIGHT, WeightedRows, earliest_added
from etl.state.joins.side_columns import WHERE_FAILED, PairEvents, coalesce, rows_that_meet, take_rejects
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import hashes_of, numbers, whole
from etl.state.keyed.latest_rows import existing_columns, with_column
from etl.state.keyed.time_to_live import TimeToLive

_KEY = "\0key"
"""Prefix of columns with the keys of either side, until they are hashed."""

PAIRED = ("inner", "left", "right", "full")
"""Kinds that give pairs."""

PRESERVED = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}
"""Kind → sides whose rows are given without a match."""


@dataclass(frozen=True, kw_only=True)
class ChangingJoin(PairEvents, WeightedRows):
    """State holds the rows of both sides with their weights. Of pairs only those with a row of the micro-batch are made, and of
    `where` without a match the rows of keys that have changed on the other side. So new rows do not read those before them on
    their own side, unless rows of the other one are given without a match.

    With a time to live a row makes pairs with those that are read within that time of it. A row without a match is one that no
    such row has met, also where that has expired: so both stay in state twice as long, and what is taken back was given.
    """

    pair: Schema
    """Of all pairs, on which the condition is."""
    right_names: Mapping[str, str]
    """Field of the right side → its name in a pair."""
    on: Mapping[str, str]
    kind: str
    where: CompiledExpression | None

    # ── Rows ──

    @property
    def retention(self) -> TimeToLive:
        """Twice the time to live where rows without a match count."""
        if self.ttl.micros is None or self.kind == "inner":
            return self.ttl
        return TimeToLive(2 * self.ttl.micros)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*super()._columns, _LACKS_KEY)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows with their keys; without those that have no key and are not given without a match."""
        side = events.column(SIDE_FIELD).to_numpy()
        keys = self._key_columns(events)
        lacks_key = np.logical_or.reduce([key.is_null().to_numpy(zero_copy_only=False) for key in keys.values()])
        rows, late = super().prepare(events, watermark)
        for name, column in keys.items():
            rows = rows.append_column(name, column)
        rows = with_column(rows, _LACKS_KEY, lacks_key.astype(np.int8))
        needed = ~lacks_key | np.isin(side, PRESERVED.get(self.kind, ()))
        return (rows if needed.all() else rows.filter(pa.array(needed))), late

    def _key_columns(self, events: pa.RecordBatch) -> dict[str, pa.Array]:
        pairs = ([events.column(prefix + n) for prefix, n in zip(SIDE_PREFIXES, names, strict=True)] for names in self.on.items())
        return {name: coalesce(*pair) for name, pair in zip(self.keys, pairs, strict=True)}

    def key_values(self, row: pa.Table) -> Mapping[str, Any]:
        """The key of one row, with the names of the left side's fields."""
        pairs = ([row.column(prefix + n) for prefix, n in zip(SIDE_PREFIXES, names, strict=True)] for names in self.on.items())
        return {name: coalesce(*pair)[0].as_py() for name, pair in zip(self.on, pairs, strict=True)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """Equal rows as one, without their keys, which are hashed; with a time to live those that are left of them."""
        rows = rows.drop_columns(self.keys) if self.keys[0] in rows.column_names else rows
        if self.ttl.micros is None:
            return super().combine(rows)
        left = self._left(rows, with_pane=True)
        return rows if (left == numbers(rows, WEIGHT)).all() else with_column(rows, WEIGHT, left).filter(pa.array(left != 0))

    def _left(self, rows: pa.Table, with_pane: bool = False) -> Numbers:
        """int64[rows]: how often each row is left of equal ones; negative where it removes more than there are."""
        hashes, weights = self.row_hashes(rows, with_pane), numbers(rows, WEIGHT)
        groups = EventsByKey.of(hashes, numbers(rows, TIME), -np.sign(weights))
        found = np.zeros(len(rows), np.int64)
        if self.ttl.micros is None:
            sums = np.add.reduceat(weights[groups.order], groups.firsts[:-1]) if len(rows) else weights
            found[earliest_added(rows, groups)] = sums
            return found
        left, ordered = np.empty((2, len(rows)), np.int64)
        times = numbers(rows, TIME)[groups.order]
        remaining_weights(groups.firsts, times, weights[groups.order], np.int64(self.ttl.micros), ordered, left)
        found[groups.order] = left
        return found

    def past_rows(self, new: pa.Table, tables: Sequence[pa.Table]) -> pa.Table:
        """Of the keys of new rows those of the other side; and of the same where the other one is given without a match, or a
        row is removed that may have expired."""
        side, removes = numbers(new, SIDE_FIELD), numbers(new, WEIGHT) < 0
        own = removes if self.ttl.micros is not None else np.zeros(len(new), bool)
        found = [existing_columns(new, self._columns).slice(0, 0)]
        for own_side in (0, 1):
            decides = 1 - own_side in (*PRESERVED.get(self.kind, ()), *((0,) if self.kind == "semi" else ()))
            asking = new.filter(pa.array((side != own_side) | own | decides))
            found += self.looked_up(asking, tables, partial(_is_side, own_side))
        return whole(found)

    # ── Running ──

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | Rejects]:
        """The changes of pairs, and of rows without a match; of new pairs for which the condition fails rejects."""
        tables = arrived.tables()
        if not tables:
            return
        new = whole(tables)
        known = self.past_rows(new, stored.tables(clock.now + 1))
        new = self.combine(new)
        rows = whole([known, existing_columns(new, known.column_names)])
        before = np.append(self._left(known), np.zeros(len(new), np.int64))
        after = self._left(rows)
        if self.ttl.micros is None:
            change = np.append(np.zeros(len(known), np.int64), numbers(new, WEIGHT))
        else:
            before, after = np.maximum(before, 0), np.maximum(after, 0)
            change = after - before
        old, now, changed = (self._sides(rows, weights) for weights in (before, after, change))
        yield from self._changes(old, now, changed, clock.now)

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The results so far."""
        tables = stored.tables(watermark + 1)
        if tables:
            rows = whole(tables)
            left = np.maximum(self._left(rows), 0)
            now, nothing = self._sides(rows, left), self._sides(rows, np.zeros(len(rows), np.int64))
            for changes in self._changes(nothing, now, now, watermark):
                if isinstance(changes, pa.RecordBatch):
                    yield changes.select(self.state_fields.names)

    @property
    def state_fields(self) -> Schema:
        """The fields of results."""
        return pa.schema([one for one in self.fields if one.name != CHANGE])

    def _changes(
        self, old: tuple[JoinSide, JoinSide], now: tuple[JoinSide, JoinSide], change: tuple[JoinSide, JoinSide], time: int
    ) -> Iterator[pa.RecordBatch | Rejects]:
        """The results that go and that come. Those that only come are given in pieces."""
        gone, come = [], list[pa.RecordBatch]()
        rejected: list[Rejects] = []
        lives = self._alive(old, time), self._alive(now, time)
        pairs = self._signed_pairs(*lives, change, rejected)
        if self.kind == "inner" and all((one.weights > 0).all() for one in change):
            nothing = self._table([])
            for rows, weights in pairs:
                yield difference(nothing, self._table([self._repeat(rows, weights)]), self.fields, self.result_key)
                yield from take_rejects(rejected)
            yield from take_rejects(rejected)
            return
        size = 0
        for rows, weights in pairs:
            gone.append(self._repeat(rows, np.maximum(-weights, 0)))
            come.append(self._repeat(rows, np.maximum(weights, 0)))
            size += gone[-1].nbytes + come[-1].nbytes
            _check_size(size)
        fails: list[bool] = []
        for rows, weights in self._unmatched_rows(old, time, []):
            gone.append(self._repeat(rows, np.maximum(weights, 0)))
        for rows, weights in self._unmatched_rows(now, time, fails):
            come.append(self._repeat(rows, np.maximum(weights, 0)))
            gone.append(self._repeat(rows, np.maximum(-weights, 0)))
        if any(fails) and self.kind not in PAIRED:  # which pairs are new is of no matter otherwise
            for _ in (*self._pairs(change[0], lives[1][1], rejected), *self._pairs(lives[0][0], change[1], rejected)):
                pass
        yield from take_rejects(rejected)
        changes = difference(self._table(gone), self._table(come), self.fields, self.result_key)
        if changes.num_rows:
            yield changes

    def _signed_pairs(
        self,
        old: tuple[JoinSide, JoinSide],
        now: tuple[JoinSide, JoinSide],
        change: tuple[JoinSide, JoinSide],
        rejected: list[Rejects],
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        if self.kind in PAIRED:
            yield from self._pairs(change[0], now[1], rejected)
            yield from self._pairs(old[0], change[1], rejected)

    def _alive(self, sides: tuple[JoinSide, JoinSide], time: int) -> tuple[JoinSide, JoinSide]:
        """The rows that have not expired."""
        ttl = self.ttl.micros
        if ttl is None:
            return sides
        left, right = (side.where(numbers(side.rows, TIME) + ttl > time) for side in sides)
        return left, right

    def _sides(self, rows: pa.Table, weights: Numbers) -> tuple[JoinSide, JoinSide]:
        """The rows of either side that are there, or change."""
        keys = EventsByKey.of(hashes_of(rows), np.zeros(len(rows), np.int64)).numbers()
        both = JoinSide(rows, np.where(numbers(rows, _LACKS_KEY) == 1, -1, keys), weights)
        side = numbers(rows, SIDE_FIELD)
        return both.where((side == 0) & (weights != 0)), both.where((side == 1) & (weights != 0))

    def _pairs(self, left: JoinSide, right: JoinSide, rejected: list[Rejects]) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """The pairs with equal keys that meet the condition, and their weights. Those that come and for which it fails are added
        to ``rejected``."""
        for at_left, at_right in matching_rows(left.keys, right.keys):
            batch = self._pair_events(left.rows.take(pa.array(at_left)), right.rows.take(pa.array(at_right)), self.pair)
            weights = left.weights[at_left] * right.weights[at_right]
            if self.where is not None:
                met, failed, reasons = rows_that_meet(self.where, batch)
                if failed is not None and reasons is not None and (comes := weights[failed] > 0).any():
                    events = batch.filter(pa.array(failed)).filter(pa.array(comes))
                    rejected.append(Rejects(events, WHERE_FAILED, reasons.filter(pa.array(comes))))
                batch, weights = batch.filter(pa.array(met)), weights[met]
            if len(weights):
                yield batch, weights

    # ── Rows without a match ──

    def _unmatched_rows(
        self, sides: tuple[JoinSide, JoinSide], time: int, fails: list[bool]
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """What is given of single rows, and how often: those without a match, or of a semi-join the left ones with one. To
        ``fails`` is added whether the condition failed for pairs."""
        alive = self._alive(sides, time)
        for side in (0,) if self.kind == "semi" else PRESERVED.get(self.kind, ()):
            own = alive[side]
            matched = self._matched(own, sides[1 - side], side, fails)
            chosen = own.where(matched if self.kind == "semi" else ~matched)
            left, right = (chosen.rows, None) if side == 0 else (None, chosen.rows)
            yield self._pair_events(left, right, self._result), chosen.weights

    def _matched(self, own: JoinSide, other: JoinSide, side: int, fails: list[bool]) -> Numbers:
        """bool[rows]: which rows have a match, or with a time to live have had one."""
        if self.where is None and self.ttl.micros is None:
            return np.isin(own.keys, other.keys[other.keys >= 0])
        found = np.zeros(len(own.keys), bool)
        for at_own, at_other in matching_rows(own.keys, other.keys):
            met = self._met(own, at_own, other, at_other)
            if self.where is not None:
                left, right = own.rows.take(pa.array(at_own[met])), other.rows.take(pa.array(at_other[met]))
                batch = self._pair_events(left, right, self.pair) if side == 0 else self._pair_events(right, left, self.pair)
                result = rows_that_meet(self.where, batch)
                fails.append(result.failed is not None)
                met[met] = result.met
            found[at_own[met]] = True
        return found

    def _met(self, own: JoinSide, at_own: Numbers, other: JoinSide, at_other: Numbers) -> Numbers:
        """bool[pairs]: whether one was read before the other expired."""
        if self.ttl.micros is None:
            return np.ones(len(at_own), bool)
        distance = numbers(own.rows, TIME)[at_own] - numbers(other.rows, TIME)[at_other]
        found: Numbers = np.abs(distance) < self.ttl.micros
        return found

    # ── Columns ──

    @cached_property
    def _result(self) -> Schema:
        return pa.schema([one for one in self.fields if one.name not in (CHANGE, self.time)])

    @staticmethod
    def _repeat(rows: pa.RecordBatch, times: Numbers) -> pa.RecordBatch:
        return rows if (times == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(times)), times)))

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        chosen = (batch.select(self._result.names) for batch in batches)
        shared = [batch if batch.schema == self._result else batch.cast(self._result) for batch in chosen]
        return pa.Table.from_batches(shared, schema=self._result)


_LACKS_KEY = "\0lacks key"
"""Column (int8) of rows: 1 if a key is null, so that the row matches nothing."""


def key_names(count: int) -> tuple[str, ...]:
    """The columns for a number of keys."""
    return tuple(f"{_KEY}{number:03d}" for number in range(count))


def _check_size(size: int) -> None:
    if size > MAX_BYTES_OF_KEY:
        raise ComponentError(
            f"join: the pairs that a micro-batch changes of some keys have more than {MAX_BYTES_OF_KEY >> 20:,} MiB: keys have "
            "many rows on both sides. Add a condition (where), aggregate or dedupe a side first, or set a ttl. Nothing is lost: "
            "the next run goes on where this one ended"
        )


def _is_side(side: int, rows: pa.Table, at: Numbers) -> Numbers:
    """bool[n]: which of these rows are of the side."""
    found: Numbers = numbers(rows, SIDE_FIELD)[at] == side
    return found
