"""Results that are recomputed for each key with changes, and compared with those before.

State holds the rows of a changelog as they come, with their weights. So every function of the rows of a key can be a step over a
changelog; it costs as much as the keys with changes have rows.

With a time to live the rows of a key expire together, when none has come for that long: the pane of a row says when, and when the
key gets a later pane, all its rows are written again with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, PANE, AfterRun, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.diffs import difference
from etl.state.changes.weighted_rows import WEIGHT, WeightedRows
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import arrival_order, hashes_of, numbers, whole
from etl.state.keyed.latest_rows import with_column
from etl.state.keyed.waiting_events import ORDER


@dataclass(frozen=True)
class RecomputedResults(WeightedRows):
    """The time to live is that of a key, from its last change on, or up to a quarter longer."""

    @abstractmethod
    def results(self, rows: pa.Table) -> pa.Table:
        """The results of all rows of some keys, each row as often as it is there."""

    @property
    def after_run(self) -> AfterRun:
        """Rows are added as they arrive, or those of keys with a later pane are written again."""
        return "arrived" if self.ttl.micros is None else "appended"

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The difference of the results of keys with events, before these and after them."""
        tables = arrived.tables()
        if not tables:
            return
        new = whole(tables)
        known = self.past_rows(new, stored.tables(clock.now + 1))
        known = known.filter(pa.array(self.ttl.are_current(known))) if self.ttl.micros is not None else known
        new = new.select(known.column_names)
        before, after = self._expanded(known), self._expanded(whole([known, new]))
        changes = difference(self.results(before), self.results(after), self.fields, self.result_key)
        if changes.num_rows:
            yield changes
        if self.ttl.micros is not None:
            yield self._rows_to_keep(known, new)

    def _rows_to_keep(self, known: pa.Table, new: pa.Table) -> pa.Table:
        """New rows, and with them the known ones of keys whose pane is another one now. A row that removes none, because the
        one that it removes has expired, is left out."""
        both = whole([known, new])
        keys = EventsByKey.of(hashes_of(both), np.zeros(len(both), np.int64)).numbers()
        panes, count = numbers(both, PANE), int(keys.max()) + 1
        latest, earlier = np.full((2, count), -(1 << 62))
        np.maximum.at(latest, keys, panes)
        np.maximum.at(earlier, keys[: len(known)], panes[: len(known)])
        moves = (latest != earlier)[keys]
        both = with_column(both, PANE, latest[keys])
        moved = self.merged(both.filter(pa.array(moves)), 0)
        stays = both.filter(pa.array(~moves))
        added = stays.slice(int((~moves[: len(known)]).sum()))
        return whole([moved, added, _reversed(self.combine(stays))])

    def _needed(self, rows: pa.Table, at: Numbers, weights: Numbers) -> Numbers:
        """With a time to live also one of a key and pane that has no others: it replaces the rows of earlier panes."""
        found = super()._needed(rows, at, weights)
        if self.ttl.micros is None or found.all():
            return found
        of_pane = np.column_stack([*hashes_of(rows).view(np.int64)[:, at], numbers(rows, PANE)[at]])
        _, firsts, panes = np.unique(of_pane, axis=0, return_index=True, return_inverse=True)
        is_empty = np.bincount(panes.ravel(), found) == 0
        found[firsts[is_empty]] = True
        return found

    def _expanded(self, rows: pa.Table) -> pa.Table:
        """Each row as often as it is there, in the order of arrival."""
        rows = with_column(rows, PANE, np.zeros(len(rows), np.int64)) if self.ttl.micros is not None else rows
        rows = self.combine(rows) if len(rows) else rows
        weights = np.maximum(numbers(rows, WEIGHT), 0)
        order = arrival_order(numbers(rows, TIME), numbers(rows, ORDER))
        return rows.take(pa.array(np.repeat(order, weights[order])))

    @property
    def state_fields(self) -> Schema:
        """The fields of results."""
        return pa.schema([one for one in self.fields if one.name != CHANGE])

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The results so far."""
        tables = stored.tables(watermark + 1)
        if tables:
            rows = whole(tables)
            rows = rows.filter(pa.array(self.ttl.are_current(rows)))
            found = self.results(self._expanded(rows)).select(self.state_fields.names)
            yield from found.cast(self.state_fields).combine_chunks().to_batches()


def _reversed(rows: pa.Table) -> pa.Table:
    """For rows that are removed more often than they are there, as many that add them."""
    weights: Numbers = numbers(rows, WEIGHT)
    removed = np.flatnonzero(weights < 0)
    return with_column(rows.take(pa.array(removed)), WEIGHT, -weights[removed])
