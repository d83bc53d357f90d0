"""Results that are recomputed for each key with changes, and compared with those before.

State holds the rows of a changelog as they come, each with its weight: 1 for a row that is added, -1 for one that is removed.
Equal rows of a key are merged, their weights are added, and where the sum is 0 nothing is left. So every function of the rows of
a key can be a step over a changelog; it costs as much as the keys with changes have rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, NEVER, OFFSET, PANE, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance, signs
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.diffs import difference
from etl.state.key_hash import HASH, HASH2, key_hashes, new_seed
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import hashes_of, numbers, prepare_rows, whole
from etl.state.keyed.latest_rows import with_column
from etl.state.keyed.time_to_live import UNLIMITED, TimeToLive
from etl.state.keyed.waiting_events import ORDER

WEIGHT = "\0weight"
"""Column (int64): how often a row is there."""

_SEED = new_seed()
"""Of hashes that are compared within this process."""


@dataclass(frozen=True)
class RecomputedResults(ABC):
    """``fields`` are those of results, with the kind of change; ``incoming`` those of rows."""

    fields: Schema
    incoming: Schema
    keys: tuple[str, ...]
    time: str
    result_key: tuple[str, ...] | None
    """Fields by which a result replaces another one; None if results are only added and removed."""
    ttl: TimeToLive = UNLIMITED
    """Of each row, from its arrival on."""

    hashed: ClassVar[bool] = True
    after_run: ClassVar[AfterRun] = "arrived"

    @abstractmethod
    def results(self, rows: pa.Table) -> pa.Table:
        """The results of all rows of some keys, each row as often as it is there."""

    @cached_property
    def _rows(self) -> Schema:
        return pa.schema([one for one in self.incoming if one.name not in (CHANGE, OFFSET, self.time)])

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows with their weights; none is late."""
        more = {ORDER: events.column(OFFSET).to_numpy(), WEIGHT: signs(events)}
        rows, late = prepare_rows(events, self._rows, self.time, 1, NEVER, more)
        return with_column(rows, PANE, self.ttl.expiry_panes(numbers(rows, TIME))), late

    def combine(self, rows: pa.Table) -> pa.Table:
        """Equal rows as one with the sum of their weights, the earliest one; without those whose weights are 0 together."""
        hashes = self._row_hashes(rows)
        groups = EventsByKey.of(hashes, numbers(rows, TIME), numbers(rows, ORDER))
        if len(groups.hash) == len(rows):
            return rows
        weights = np.add.reduceat(numbers(rows, WEIGHT)[groups.order], groups.firsts[:-1])
        firsts = self._earliest_added(rows, groups)
        kept = np.flatnonzero(weights)
        kept = kept[np.argsort(firsts[kept])]  # the order of rows is that in which they came, whatever the seed of hashes
        return with_column(rows.take(pa.array(firsts[kept])), WEIGHT, weights[kept])

    def _row_hashes(self, rows: pa.Table) -> Numbers:
        """Hashes of the values of rows; rows that expire at other times are others."""
        names = [name for name in self._rows.names if name in rows.column_names]
        found: Numbers = key_hashes(rows, [*names, *([PANE] if self.ttl.micros is not None else [])], _SEED)
        return found

    @staticmethod
    def _earliest_added(rows: pa.Table, groups: EventsByKey) -> Numbers:
        """The number of the first row of each group, if possible of one that is added, whose place in time counts."""
        is_added = numbers(rows, WEIGHT)[groups.order] > 0
        at = np.where(is_added, np.arange(len(rows)), len(rows))
        first = np.minimum.reduceat(at, groups.firsts[:-1])
        found: Numbers = groups.order[np.where(first < len(rows), first, groups.firsts[:-1])]
        return found

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, kept: PaneSpan | None) -> bool:
        """Whether there are events."""
        return arrived is not None

    def run(self, clock: WatermarkAdvance, arrived: PartRows, kept: PartRows) -> Iterator[pa.RecordBatch]:
        """The difference of the results of keys with events, before these and after them."""
        tables = arrived.tables()
        if not tables:
            return
        new = whole(tables)
        known = self._known(new, kept.tables(clock.now + 1))
        before, after = self._expanded(known), self._expanded(whole([known, new.select(known.column_names)]))
        changes = difference(self.results(before), self.results(after), self.fields, self.result_key)
        if changes.num_rows:
            yield changes

    def _known(self, new: pa.Table, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of these keys so far."""
        groups = EventsByKey.of(hashes_of(new), np.zeros(len(new), np.int64))
        names = [*self._rows.names, HASH, HASH2, PANE, TIME, ORDER, WEIGHT]
        empty = new.select([name for name in names if name in new.column_names]).slice(0, 0)
        found = [run.select(empty.column_names).take(pa.array(rows)) for _, run, rows in rows_of_keys(groups, tables)]
        return whole([empty, *found])

    def _expanded(self, rows: pa.Table) -> pa.Table:
        """Each row as often as it is there, in the order of arrival."""
        rows = self.combine(rows) if len(rows) else rows
        weights = np.maximum(numbers(rows, WEIGHT), 0)
        order = np.lexsort((numbers(rows, ORDER), numbers(rows, TIME)))
        return rows.take(pa.array(np.repeat(order, weights[order])))

    @property
    def state_fields(self) -> Schema:
        """The fields of results."""
        return pa.schema([one for one in self.fields if one.name != CHANGE])

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The results so far."""
        tables = kept.tables(watermark + 1)
        if tables:
            found = self.results(self._expanded(whole(tables))).select(self.state_fields.names)
            yield from found.cast(self.state_fields).combine_chunks().to_batches()

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether all rows of the pane have expired."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """Results are given as events come."""
        return watermark
