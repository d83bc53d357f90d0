"""The best events of each key so far: events that become one of them, and those that are none of them any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import NEVER, PANE, PartRows, Schema, with_columns
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import as_events, hashes_of, numbers, whole
from etl.state.keyed.time_to_live import UNLIMITED, TimeToLive
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past
from etl.state.top.best_rows import VALUE, Ranking, further_value
from etl.state.top.kernels import RankChanges, RankInput, rank_events

CHANGES = ("enter", "update", "leave")
"""An event becomes one of the best, or the better one of a subject that was one; an event is none of the best any more."""

_NO_TTL = 1 << 62


@dataclass(frozen=True)
class RunningBest(WaitingEvents):
    """Past rows are the best events of each key. ``fields`` are those of events, then the new ones."""

    by: AggregateArgument
    ranking: Ranking
    rank: str
    change: str
    """The new fields for the rank, and for which of `CHANGES` it is."""
    ttl: TimeToLive = UNLIMITED
    """Of a key's ranking, from its last change on."""
    then: tuple[AggregateArgument, ...] = ()
    """Further values, by which events with equal ones are ranked."""

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in (self.rank, self.change)])

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events that have a value."""
        values = {VALUE: self.by} | {further_value(at): one for at, one in enumerate(self.then)}
        fields = pa.schema([*self._events, *((name, one.type) for name, one in values.items())])
        lifted = with_columns(events, {name: one.values(events) for name, one in values.items()})
        rows, late = self.prepare_events(lifted, fields, watermark)
        return self.ranking.ranked(rows), late

    def needed_past(self, past: pa.Table) -> Numbers:
        """bool[rows]: the best ones of each key."""
        needed = np.zeros(len(past), bool)
        current = np.flatnonzero(self.ttl.are_current(past))
        needed[current[self.ranking.best(past.select(self.ranking.columns).take(pa.array(current)))[0]]] = True
        return needed

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """The changes in the order of time; of an event that replaces another one, that one is before it."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME), numbers(rows, ORDER))
        known_firsts, panes, known = self._past_best(groups, past, rows)
        both = whole([known, rows.select(self._stored_columns(rows))])
        of_events = groups.order + len(known)
        changes = self._rank(known_firsts, groups.firsts, of_events, both)
        changed = np.flatnonzero(changes.ranks > 0)
        if len(changed):
            ordered = changed[np.lexsort([numbers(both, name)[of_events[changed]] for name in (ORDER, TIME)])]
            found = (values[ordered] for values in (changes.ranks, changes.updates, changes.left))
            yield self._results(both, of_events[ordered], *found)
            yield from self._changed_rows(both, (known_firsts, groups.firsts), of_events, changes, panes, now)

    def _changed_rows(
        self, rows: pa.Table, firsts: tuple[Numbers, Numbers], events: Numbers, changes: RankChanges, panes: Numbers, now: int
    ) -> Iterator[pa.Table]:
        """Past rows of the rankings that have changed: events that are among the best, and where the pane of the key is another
        one the other best ones, too. ``firsts``: where known rows and events of each key begin; ``panes``: of keys, so far."""
        known_keys, event_keys = (np.repeat(np.arange(len(panes)), np.diff(own)) for own in firsts)
        owners = np.append(known_keys, np.empty(len(events), np.int64))
        owners[events] = event_keys
        changed = event_keys[changes.ranks > 0]
        later = panes.copy()
        later[changed] = self.ttl.expiry_panes(changes.latest)[changed]
        written = changes.stays & (later > now)[owners]
        known = len(known_keys)
        written[:known] &= (later != panes)[known_keys]
        chosen = np.flatnonzero(written)
        if len(chosen):
            yield rows.take(pa.array(chosen)).append_column(PANE, pa.array(later[owners[chosen]]))

    def _rank(self, known: Numbers, firsts: Numbers, events: Numbers, rows: pa.Table) -> RankChanges:
        """What becomes of events, which are numbers of rows, and of their keys."""
        values = self.ranking.value_keys(rows), self.ranking.subjects(rows), numbers(rows, TIME)
        limit, ttl = np.int64(self.ranking.limit), np.int64(self.ttl.micros or _NO_TTL)
        ranks, left = np.empty((2, len(events)), np.int64)
        latest = np.full(len(firsts) - 1, NEVER)
        changes = RankChanges(ranks, np.empty(len(events), bool), left, np.empty(len(rows), bool), latest)
        rank_events(RankInput(known, firsts, events, *values), limit, ttl, np.empty(limit, np.int64), changes)
        return changes

    def _past_best(self, groups: EventsByKey, past: Sequence[pa.Table], rows: pa.Table) -> tuple[Numbers, Numbers, pa.Table]:
        """The best rows of these keys so far by key and rank, where those of each key begin, and the pane of each key."""
        names = self._stored_columns(rows)
        panes = np.full(len(groups.hash), NEVER)
        found = [
            (keys, run.select([*self._stored_columns(run), PANE]).take(pa.array(at)))
            for keys, run, at in rows_of_keys(groups, past)
        ]
        if not found:
            return np.zeros(len(groups.hash) + 1, np.int64), panes, rows.select(names).slice(0, 0)
        known, keys = whole([table for _, table in found]), np.concatenate([keys for keys, _ in found])
        current = self.ttl.are_current(known)
        if not current.all():
            known, keys = known.filter(pa.array(current)), keys[current]
        panes[keys] = numbers(known, PANE)
        best = self.ranking.best(known)[0]
        counts = np.bincount(keys[best], minlength=len(groups.hash))
        return np.append(0, np.cumsum(counts)), panes, known.take(pa.array(best)).drop_columns([PANE])

    def _stored_columns(self, rows: pa.Table) -> list[str]:
        """The columns of past rows."""
        names = [*self._events.names, HASH, HASH2, TIME, ORDER, VALUE, *(further_value(at) for at in range(len(self.then)))]
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

    @property
    def state_fields(self) -> Schema:
        """Those of events, and the rank."""
        return self._events.append(pa.field(self.rank, pa.int64()))

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The best events of each key so far."""
        tables = [table for table in stored.tables(watermark + 1) if is_past(table)]
        if tables:
            rows = whole(tables)
            rows = rows.filter(pa.array(self.ttl.are_alive(rows, watermark)))
            best, ranks = self.ranking.best(rows)
            columns = [*as_events(rows.take(pa.array(best)), self._events).columns, pa.array(ranks)]
            yield pa.RecordBatch.from_arrays(columns, names=self.state_fields.names)
