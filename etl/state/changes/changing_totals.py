"""Aggregates of all events of each group so far, as a changelog: what each micro-batch changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import (
    CHANGE,
    FAILED,
    PANE,
    RESULT_FAILED,
    AfterRun,
    EmitProgress,
    PaneSpan,
    PartRows,
    PreparedEvents,
    Rejects,
    Schema,
    WatermarkAdvance,
    signs,
)
from etl.state.aggregates import Accumulator, finish_or_fail, group, lift_or_reject, with_missing
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.sums import Count
from etl.state.changes.diffs import changelog
from etl.state.changes.signed_totals import SignedAggregate
from etl.state.key_hash import HASH, HASH2, key_hashes, new_seed
from etl.state.keyed.decisions import EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import hashes_of, numbers, whole
from etl.state.keyed.latest_rows import with_column
from etl.state.keyed.time_to_live import UNLIMITED, UNLIMITED_PANE, TimeToLive
from etl.state.windows.aggregation import event_times

ROWS = "\0rows"
"""Aggregate of partial results: how many rows the group has. A group without rows has no result."""

SIGN = "\0sign"
"""Column (int64) of partial results with a time to live: 1 or -1 where rows are added or removed, 0 in state."""

_SEED = new_seed()
"""Of hashes that are compared within this process."""


@dataclass(frozen=True)
class ChangingTotals:
    """State holds partial results, which are only appended: those of a group are merged when it has new events.

    With a time to live the pane of a partial result says when its group expires. In a later pane all of it is written again, and
    replaces the partial results of earlier ones. What removes a row of an expired group is left out, as in Flink.

    ``fields`` are those of results: groups, aggregates, and the kind of change.
    """

    fields: Schema
    group_by: tuple[str, ...]
    accumulators: Mapping[str, Accumulator]
    """Of a changelog, those that subtract rows that are removed."""
    time: str
    ttl: TimeToLive = UNLIMITED
    """Of a group, from its last event on, or up to a quarter longer."""
    hashed: bool = True
    rows: Accumulator = field(
        default_factory=lambda: SignedAggregate(Count(AggregateArgument("count(*)", pa.int64(), None, None)))
    )

    @property
    def after_run(self) -> AfterRun:
        """Partial results are added as they arrive, or those of groups with a later pane are written again."""
        return "arrived" if self.ttl.micros is None else "appended"

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups by name."""
        return tuple(sorted(self.group_by))

    @cached_property
    def _all(self) -> Mapping[str, Accumulator]:
        return {**self.accumulators, ROWS: self.rows}

    @cached_property
    def _same(self) -> list[str]:
        """Columns in which partial results of the same group are equal."""
        return [HASH, HASH2, PANE, *self.group_by, *([] if self.ttl.micros is None else [SIGN])]

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """A partial result for each group of these events; none is late."""
        return self.prepare_or_reject(events, watermark, EmitProgress()).rows, 0

    def prepare_or_reject(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> PreparedEvents:
        """The same, with the events for which an aggregate fails."""
        columns = {name: events.column(name) for name in self.group_by}
        if self.ttl.micros is None:
            columns[PANE] = pa.array(np.full(events.num_rows, UNLIMITED_PANE))
        else:
            columns[PANE] = pa.array(self.ttl.expiry_panes(event_times(events, self.time)))
            columns[SIGN] = pa.array(signs(events))
        rows, rejects = lift_or_reject(events, self._all, columns)
        return PreparedEvents(group(rows, [name for name in self._same if name in columns], self._all), 0, rejects)

    def combine(self, rows: pa.Table) -> pa.Table:
        """Partial results of the same group as one."""
        return group(with_missing(rows, self._all), self._same, self._all)

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events."""
        return arrived is not None

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | Rejects]:
        """Of each group with new events the result before and after them, where they differ."""
        tables = arrived.tables()
        if not tables:
            return
        new = self.combine(whole(tables))
        known = self._past_results(new, stored.tables(clock.now + 1))
        if self.ttl.micros is not None:
            new = self._without_expired(new, known)
        after = self._merged([known, new])
        before = self._align(known, after)
        yield from self._changes(known, before, after)
        if self.ttl.micros is not None and len(new):
            yield self._rows_to_keep(known, new, after, before)

    def _past_results(self, new: pa.Table, tables: Sequence[pa.Table]) -> pa.Table:
        """The partial results of these groups so far, merged, with their panes."""
        groups = EventsByKey.of(hashes_of(new), np.zeros(len(new), np.int64))
        found = [run.take(pa.array(rows)) for _, run, rows in rows_of_keys(groups, tables)]
        if not found:
            return new.slice(0, 0)
        rows = whole(found)
        return self.combine(rows if self.ttl.micros is None else rows.filter(pa.array(self.ttl.are_current(rows))))

    def _merged(self, rows: Sequence[pa.Table]) -> pa.Table:
        """Partial results of any panes."""
        both = whole([with_missing(one, self._all) for one in rows])
        return self.combine(both if self.ttl.micros is None else with_column(both, PANE, np.zeros(len(both), np.int64)))

    def _without_expired(self, new: pa.Table, known: pa.Table) -> pa.Table:
        """New partial results as one of each group, without those that remove rows of groups that have none."""
        exists = self._exist(known, self._align(known, new))
        remaining = new.filter(pa.array((numbers(new, SIGN) > 0) | exists))
        return self.combine(with_column(remaining, SIGN, np.zeros(len(remaining), np.int64)))

    def _rows_to_keep(self, known: pa.Table, new: pa.Table, after: pa.Table, before: Numbers) -> pa.Table:
        """New partial results; of groups whose pane is another one now the whole ones."""
        pane = int(numbers(new, PANE).max())  # events of a micro-batch are read at the same time
        panes = np.append(numbers(known, PANE), -1)[before]
        moved = with_column(after, PANE, np.full(len(after), pane)).filter(pa.array(panes != pane))
        stays = np.append(numbers(known, PANE), -1)[self._align(known, new)] == pane
        return whole([moved, new.filter(pa.array(stays)).select(moved.column_names)])

    @staticmethod
    def _align(known: pa.Table, after: pa.Table) -> Numbers:
        """int64[n]: the row in ``known`` of each group of ``after``, -1 for none."""
        both = np.concatenate([hashes_of(known), hashes_of(after)], axis=1)
        keys = EventsByKey.of(both, np.zeros(both.shape[1], np.int64)).numbers()
        rows = np.full(len(known) + len(after), -1)
        rows[keys[: len(known)]] = np.arange(len(known))
        found: Numbers = rows[keys[len(known) :]]
        return found

    def _changes(self, known: pa.Table, before: Numbers, after: pa.Table) -> Iterator[pa.RecordBatch | Rejects]:
        (old, old_failed), (new, new_failed) = self._finish(known), self._finish(after)
        if new_failed.null_count < len(new):
            failed = new_failed.is_valid()
            groups = new.filter(failed).combine_chunks().to_batches()[0]
            yield Rejects(groups, RESULT_FAILED, new_failed.drop_null())
        results = whole([old, new])
        had = self._exist(known, before) & np.append(_is_null(old_failed), False)[before]
        has = self._exist(after, np.arange(len(after))) & _is_null(new_failed)
        hashes = key_hashes(results, [name for name in results.column_names if name not in self.group_by], _SEED)
        same = had & has & (hashes[:, before] == hashes[:, len(old) + np.arange(len(new))]).all(axis=0)
        changed = np.flatnonzero((had | has) & ~same)
        if len(changed):
            rows = np.arange(len(old), len(results))
            first, last = np.where(had, before, -1)[changed], np.where(has, rows, -1)[changed]
            yield changelog(results, first, last, self.fields)

    def _exist(self, merged: pa.Table, at: Numbers) -> Numbers:
        """bool[n]: which of these groups have rows; -1 is none of them."""
        found: Numbers = np.append(numbers(merged, f"{ROWS}\0{0}") > 0, False)[at]
        return found

    def _finish(self, merged: pa.Table) -> tuple[pa.Table, pa.Array]:
        """The results of groups, with the types of the fields, and why one cannot be computed."""
        found = {name: merged.column(name) for name in self.group_by} | finish_or_fail(merged, self.accumulators)
        schema = pa.schema([one for one in self.fields if one.name != CHANGE])
        failed = found.get(FAILED, pa.nulls(len(merged), pa.string()))
        return pa.table([found[one.name].cast(one.type) for one in schema], schema=schema), failed

    @property
    def state_fields(self) -> Schema:
        """Groups and aggregates."""
        return pa.schema([one for one in self.fields if one.name != CHANGE])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The results so far."""
        tables = stored.tables(watermark + 1)
        if tables:
            rows = whole(tables)
            merged = self._merged([rows if self.ttl.micros is None else rows.filter(pa.array(self.ttl.are_current(rows)))])
            merged = merged.filter(pa.array(self._exist(merged, np.arange(len(merged)))))
            yield from self._finish(merged)[0].combine_chunks().to_batches()

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the groups have expired; without a time to live never."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """Results are given as events come."""
        return watermark


def _is_null(column: pa.Array) -> Numbers:
    found: Numbers = column.is_null().to_numpy(zero_copy_only=False)
    return found
