"""The best events of each key so far: events that become one of them, and those that are none of them any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import PANE, PartRows, Schema
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import as_events, hashes_of, numbers, whole
from etl.state.keyed.waiting_events import FOREVER, ORDER, WaitingEvents, is_past
from etl.state.top.best_rows import VALUE, Ranking
from etl.state.top.kernels import rank_events

CHANGES = ("enter", "update", "leave")
"""An event becomes one of the best, or the better one of a subject that was one; an event is none of the best any more."""


@dataclass(frozen=True)
class RunningBest(WaitingEvents):
    """Past rows are the best events of each key. ``fields`` are those of events, then the new ones."""

    by: AggregateArgument
    ranking: Ranking
    rank: str
    change: str
    """The new fields for the rank, and for which of `CHANGES` it is."""

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in (self.rank, self.change)])

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events that have a value."""
        values = self.by.values(events)
        fields = self._events.append(pa.field(VALUE, self.by.type))
        rows, late = self.prepare_events(events.append_column(VALUE, values), fields, watermark)
        return rows.filter(rows.column(VALUE).is_valid()) if values.null_count else rows, late

    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: the best ones of each key."""
        needed = np.zeros(len(past), bool)
        needed[self.ranking.best(past)[0]] = True
        return needed

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """The changes in the order of time; of an event that replaces another one, that one is before it."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME), numbers(rows, ORDER))
        known_firsts, known = self._known(groups, past, rows)
        both = whole([known, rows.select(self._stored(rows))])
        ranks, left = np.empty((2, len(rows)), np.int64)
        updates, best = np.empty(len(rows), bool), np.empty(self.ranking.limit, np.int64)
        of_events = groups.order + len(known)
        values, subjects = self.ranking.value_keys(both), self.ranking.subjects(both)
        rank_events(
            known_firsts, groups.firsts, of_events, values, subjects, np.int64(self.ranking.limit), best, ranks, updates, left
        )
        changed = np.flatnonzero(ranks > 0)
        if len(changed):
            changed = changed[np.lexsort([numbers(both, name)[of_events[changed]] for name in (ORDER, TIME)])]
            yield self._results(both, of_events[changed], ranks[changed], updates[changed], left[changed])
            yield from self._past_rows(both, len(known), of_events[changed])

    def _known(self, groups: EventsByKey, past: Sequence[pa.Table], rows: pa.Table) -> tuple[Numbers, pa.Table]:
        """The best rows of these keys so far by key and rank, and where those of each key begin."""
        found = [(keys, run.select(self._stored(run)).take(pa.array(at))) for keys, run, at in rows_of_keys(groups, past)]
        if not found:
            return np.zeros(len(groups.hash) + 1, np.int64), rows.select(self._stored(rows)).slice(0, 0)
        known = whole([table for _, table in found])
        best = self.ranking.best(known)[0]
        counts = np.bincount(np.concatenate([keys for keys, _ in found])[best], minlength=len(groups.hash))
        return np.append(0, np.cumsum(counts)), known.take(pa.array(best))

    def _stored(self, rows: pa.Table) -> list[str]:
        """The columns of past rows."""
        names = [*self._events.names, HASH, HASH2, TIME, ORDER, VALUE]
        return [name for name in names if name in rows.column_names]

    def _results(self, rows: pa.Table, events: Numbers, ranks: Numbers, updates: Numbers, left: Numbers) -> pa.RecordBatch:
        """Each event that leaves, then the one for which it does."""
        leaves = left >= 0
        at = np.cumsum(1 + leaves) - 1
        chosen, kinds, places = np.empty((3, len(events) + int(leaves.sum())), np.int64)
        chosen[at], kinds[at], places[at] = events, updates, ranks
        before = at[leaves] - 1
        chosen[before], kinds[before], places[before] = left[leaves], len(CHANGES) - 1, 0
        changes = pa.array(CHANGES).take(pa.array(kinds))
        columns = as_events(rows.take(pa.array(chosen)), self._events).columns
        return pa.RecordBatch.from_arrays([*columns, pa.array(places, mask=places == 0), changes], names=self.fields.names)

    def _past_rows(self, rows: pa.Table, known: int, changed: Numbers) -> Iterator[pa.Table]:
        """The events that are still among the best."""
        candidates = np.append(np.arange(known), changed)
        best = candidates[self.ranking.best(rows.take(pa.array(candidates)))[0]]
        chosen = np.sort(best[best >= known])
        if len(chosen):
            yield rows.take(pa.array(chosen)).append_column(PANE, pa.array(np.full(len(chosen), FOREVER)))

    @property
    def state_fields(self) -> Schema:
        """Those of events, and the rank."""
        return self._events.append(pa.field(self.rank, pa.int64()))

    def read_state(self, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The best events of each key so far."""
        tables = [table for table in kept.tables(watermark + 1) if is_past(table)]
        if tables:
            rows = whole(tables)
            best, ranks = self.ranking.best(rows)
            columns = [*as_events(rows.take(pa.array(best)), self._events).columns, pa.array(ranks)]
            yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)
