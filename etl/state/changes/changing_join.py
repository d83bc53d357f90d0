"""Joins of two streams for ever, or for a time to live: what each micro-batch changes in all pairs, and in what has no match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, PANE, SIDE_PREFIXES, PartRows, Schema, WatermarkAdvance
from etl.api import SIDE as SIDE_FIELD
from etl.expressions import CompiledExpression
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.diffs import difference
from etl.state.changes.recomputed import WEIGHT, RecomputedResults
from etl.state.joins.side_columns import PairEvents, coalesced, rows_that_meet
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import hashes_of, numbers, whole
from etl.state.keyed.latest_rows import with_column
from etl.state.keyed.waiting_events import ORDER

MAX_PAIRS = 1 << 17
"""Pairs that are made at once."""

_KEY = "\0key"
"""Prefix of columns with the keys of either side, until they are hashed."""

PAIRED = ("inner", "left", "right", "full")
"""Kinds that give pairs."""

PRESERVED = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}
"""Kind → sides whose rows are given without a match."""


@dataclass(frozen=True)
class Side:
    """Rows of one side, with the number of their keys; those with a null key, which match nothing, have -1."""

    rows: pa.Table
    keys: Numbers
    weights: Numbers

    def where(self, mask: Numbers) -> Side:
        """The rows for which the mask is true."""
        return self if mask.all() else Side(self.rows.filter(pa.array(mask)), self.keys[mask], self.weights[mask])


@dataclass(frozen=True, kw_only=True)
class ChangingJoin(PairEvents, RecomputedResults):
    """State holds the rows of both sides with their weights. Of pairs only those with a row of the micro-batch are made, and of
    `where` without a match the rows of keys that have changed."""

    pair: Schema
    """Of all pairs, on which the condition is."""
    right_names: Mapping[str, str]
    """Field of the right side → its name in a pair."""
    on: Mapping[str, str]
    kind: str
    where: CompiledExpression | None

    def results(self, rows: pa.Table) -> pa.Table:
        """The join of rows of some keys."""
        left, right = self._sides(self._by_key(rows))
        nothing = self._sides(self._by_key(rows.slice(0, 0)))
        return self._added((left, right), nothing)

    # ── Rows ──

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
        return {name: coalesced(*pair) for name, pair in zip(self.keys, pairs, strict=True)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """Equal rows as one, without their keys, which are hashed."""
        return super().combine(rows.drop_columns(self.keys) if self.keys[0] in rows.column_names else rows)

    def _known(self, new: pa.Table, tables: Any) -> pa.Table:
        groups = EventsByKey.of(hashes_of(new), np.zeros(len(new), np.int64))
        names = [*self._rows.names, HASH, HASH2, PANE, TIME, ORDER, WEIGHT, _LACKS_KEY]
        empty = new.select([name for name in names if name in new.column_names]).slice(0, 0)
        found = [run.select(_present(names, run)).take(pa.array(rows)) for _, run, rows in rows_of_keys(groups, tables)]
        return whole([empty, *found])

    # ── Running ──

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The changes of pairs, and of rows without a match."""
        tables = arrived.tables()
        if not tables:
            return
        new = whole(tables)
        known = self._known(new, kept.tables(clock.now + 1))
        before, after = self.combine(known), self.combine(whole([known, new]))
        both = self._by_key(whole([before, after, self.combine(new)]))
        edges = np.cumsum([0, len(before), len(after)])
        old, now, change = (
            self._sides((both[0].slice(first, count), both[1][first : first + count]))
            for first, count in zip(edges, (len(before), len(after), len(both[0]) - edges[2]), strict=True)
        )
        gone, come = self._changes(old, now, change)
        changes = difference(gone, come, self.fields, self.result_key)
        if changes.num_rows:
            yield changes

    def _changes(self, old: tuple[Side, Side], now: tuple[Side, Side], change: tuple[Side, Side]) -> tuple[pa.Table, pa.Table]:
        """The results that go and that come."""
        signed = []
        if self.kind in PAIRED:
            signed += [*self._pairs(change[0], now[1]), *self._pairs(old[0], change[1])]
        gone = [self._repeated(rows, np.maximum(-weights, 0)) for rows, weights in signed]
        come = [self._repeated(rows, np.maximum(weights, 0)) for rows, weights in signed]
        return self._table([*gone, *self._alone(old)]), self._table([*come, *self._alone(now)])

    def _added(self, sides: tuple[Side, Side], nothing: tuple[Side, Side]) -> pa.Table:
        return self._changes(nothing, sides, sides)[1]

    def _by_key(self, rows: pa.Table) -> tuple[pa.Table, Numbers]:
        """The rows, and the number of each one's key."""
        keys = EventsByKey.of(hashes_of(rows), np.zeros(len(rows), np.int64)).numbers()
        return rows, np.where(numbers(rows, _LACKS_KEY) == 1, -1, keys)

    def _sides(self, keyed: tuple[pa.Table, Numbers]) -> tuple[Side, Side]:
        rows, keys = keyed
        side = numbers(rows, SIDE_FIELD)
        both = Side(rows, keys, numbers(rows, WEIGHT))
        return both.where(side == 0), both.where(side == 1)

    def _pairs(self, left: Side, right: Side) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """The pairs with equal keys that meet the condition, and their weights."""
        for at_left, at_right in matches(left.keys, right.keys):
            batch = self._pair_events(left.rows.take(pa.array(at_left)), right.rows.take(pa.array(at_right)), self.pair)
            weights = left.weights[at_left] * right.weights[at_right]
            if self.where is not None:
                met = rows_that_meet(self.where, batch)
                batch, weights = batch.filter(met), weights[met.to_numpy(zero_copy_only=False)]
            if len(weights):
                yield batch, weights

    # ── Rows without a match ──

    def _alone(self, sides: tuple[Side, Side]) -> Iterator[pa.RecordBatch]:
        """What is given of single rows: those without a match, or of a semi-join the left ones with one."""
        for side in (0,) if self.kind == "semi" else PRESERVED.get(self.kind, ()):
            own = sides[side]
            matched = self._matched(own, sides[1 - side], side)
            chosen = own.where(matched if self.kind == "semi" else ~matched)
            left, right = (chosen.rows, None) if side == 0 else (None, chosen.rows)
            events = self._pair_events(left, right, self._result)
            yield self._repeated(events, np.maximum(chosen.weights, 0))

    def _matched(self, own: Side, other: Side, side: int) -> Numbers:
        """bool[rows]: which rows have a match."""
        if self.where is None:
            return np.isin(own.keys, other.keys[other.keys >= 0])
        found = np.zeros(len(own.keys), bool)
        for at_own, at_other in matches(own.keys, other.keys):
            left, right = own.rows.take(pa.array(at_own)), other.rows.take(pa.array(at_other))
            batch = self._pair_events(left, right, self.pair) if side == 0 else self._pair_events(right, left, self.pair)
            found[at_own[rows_that_meet(self.where, batch).to_numpy(zero_copy_only=False)]] = True
        return found

    # ── Columns ──

    @cached_property
    def _result(self) -> Schema:
        return pa.schema([one for one in self.fields if one.name not in (CHANGE, self.time)])

    @staticmethod
    def _repeated(rows: pa.RecordBatch, times: Numbers) -> pa.RecordBatch:
        return rows if (times == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(times)), times)))

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        shared = [batch.select(self._result.names).cast(self._result) for batch in batches]
        return pa.Table.from_batches(shared, schema=self._result)


_LACKS_KEY = "\0lacks key"
"""Column (int8) of rows: 1 if a key is null, so that the row matches nothing."""


def key_names(count: int) -> tuple[str, ...]:
    """The columns with so many keys."""
    return tuple(f"{_KEY}{number:03d}" for number in range(count))


def matches(left: Numbers, right: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """The pairs of rows with equal keys, which are not negative: the rows of the left and of the right side (int64[n] each)."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    low, high = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    sizes = np.where(left >= 0, high - low, 0)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(left):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + MAX_PAIRS, "right")))
        part = sizes[first:last]
        if total := int(part.sum()):
            rows = np.repeat(np.arange(first, last), part)
            place = np.arange(total) - np.repeat(np.cumsum(part) - part, part)
            yield rows, order[low[rows] + place]
        first = last


def _present(names: list[str], table: pa.Table) -> list[str]:
    return [name for name in names if name in table.column_names]
