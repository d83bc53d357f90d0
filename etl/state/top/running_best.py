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
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import arrival_order, as_events, hashes_of, numbers, whole
from etl.state.keyed.time_to_live import UNLIMITED, UNLIMITED_PANE, TimeToLive
from etl.state.keyed.waiting_events import ORDER, WaitingEvents, is_past
from etl.state.state_file_writer import plain_type
from etl.state.top.best_rows import VALUE, Ranking, further_value
from etl.state.top.kernels import RankChanges, RankInput, rank_events
from etl.state.top.ranked_rows import FoundRows, RankedRows

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
        needed, columns = np.zeros(len(past), bool), past.select(self.ranking.columns)
        if self.ttl.micros is None:
            needed[self.ranking.best(columns)[0]] = True
        else:
            current = np.flatnonzero(self.ttl.are_current(past))
            needed[current[self.ranking.best(columns.take(pa.array(current)))[0]]] = True
        return needed

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """The changes in the order of time; of an event that replaces another one, that one is before it."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME), numbers(rows, ORDER))
        ranked = self._ranked_rows(groups, past, rows)
        events = groups.order + ranked.known_rows
        changes = self._rank(ranked, groups.firsts, events)
        changed = np.flatnonzero(changes.ranks > 0)
        if len(changed):
            new = groups.order[changed]
            ordered = changed[arrival_order(numbers(rows, TIME)[new], numbers(rows, ORDER)[new])]
            found = (values[ordered] for values in (changes.ranks, changes.updates, changes.left))
            yield self._results(ranked, events[ordered], *found)
            yield from self._changed_rows(ranked, groups.firsts, events, changes, now)

    def _changed_rows(
        self, ranked: RankedRows, firsts: Numbers, events: Numbers, changes: RankChanges, now: int
    ) -> Iterator[pa.Table]:
        """Past rows of the rankings that have changed: events that are among the best, and where the pane of the key is another
        one the other best ones, too. ``firsts``: where the events of each key begin."""
        panes, known = ranked.panes, ranked.known_rows
        known_keys, event_keys = (np.repeat(np.arange(len(panes)), np.diff(own)) for own in (ranked.firsts, firsts))
        owners = np.append(known_keys, np.empty(len(events), np.int64))
        owners[events] = event_keys
        changed = event_keys[changes.ranks > 0]
        later = panes.copy()
        later[changed] = self.ttl.expiry_panes(changes.latest)[changed]
        written = changes.stays & (later > now)[owners]
        written[:known] &= (later != panes)[known_keys]
        chosen = np.flatnonzero(written)
        if len(chosen):
            stored = ranked.take(chosen, self._stored_columns(ranked.new))
            yield stored.append_column(PANE, pa.array(later[owners[chosen]]))

    def _rank(self, ranked: RankedRows, firsts: Numbers, events: Numbers) -> RankChanges:
        """What becomes of events, which are numbers of rows, and of their keys."""
        rows = ranked.values
        values = self.ranking.value_keys(rows), self.ranking.subjects(rows), ranked.times
        limit, ttl = np.int64(self.ranking.limit), np.int64(self.ttl.micros or _NO_TTL)
        ranks, left = np.empty((2, len(events)), np.int64)
        latest = np.full(len(firsts) - 1, NEVER)
        changes = RankChanges(ranks, np.empty(len(events), bool), left, np.empty(len(rows), bool), latest)
        rank_events(RankInput(ranked.firsts, firsts, events, *values), limit, ttl, np.empty(limit, np.int64), changes)
        return changes

    def _ranked_rows(self, groups: EventsByKey, past: Sequence[pa.Table], rows: pa.Table) -> RankedRows:
        """The best rows of these keys so far, and the new rows."""
        names, panes = self._compared_columns, np.full(len(groups.hash), NEVER)
        found = FoundRows.of(groups, past, names if self.ttl.micros is None else [*names, PANE])
        keys, known, found_rows = found.keys, found.columns, np.arange(len(found.keys))
        if not len(keys):
            firsts = np.zeros(len(panes) + 1, np.int64)
            return RankedRows(firsts, panes, keys, found, rows, rows.select(names), numbers(rows, TIME))
        if self.ttl.micros is None:
            panes[keys] = UNLIMITED_PANE
        else:
            own = numbers(known, PANE)
            np.maximum.at(panes, keys, own)
            found_rows = np.flatnonzero(own == panes[keys])
            keys, known = keys[found_rows], known.take(pa.array(found_rows))

        def read(name: str, needed: Numbers) -> Numbers:
            return found.numbers(name, np.isin(np.arange(len(found.keys)), found_rows[needed]))[found_rows]

        best = self.ranking.best_of_keys(keys, known, read)
        firsts = np.append(0, np.cumsum(np.bincount(keys[best], minlength=len(panes))))
        known = known.select(names).take(pa.array(best))
        times = numbers(known, TIME) if TIME in names else np.zeros(len(best), np.int64)
        values, times = whole([known, rows.select(names)]), np.append(times, numbers(rows, TIME))
        return RankedRows(firsts, panes, found_rows[best], found, rows, values, times)

    @property
    def _compared_columns(self) -> list[str]:
        """The columns of past rows that decide what becomes of events: times only where rankings expire."""
        return self.ranking.value_columns if self.ttl.micros is None else [TIME, *self.ranking.value_columns]

    def _stored_columns(self, rows: pa.Table) -> list[str]:
        """The columns of past rows."""
        return list(dict.fromkeys([*self._event_columns(rows), *self.ranking.columns]))

    def _event_columns(self, rows: pa.Table) -> list[str]:
        """The columns with fields of events."""
        known = set(rows.column_names)
        return [name for name in self._events.names if name in known]

    @cached_property
    def _texts_of_keys(self) -> set[str]:
        """Fields that are the same in an event and in the one that it replaces, because equal texts have the same bytes: they are
        read from memory and not from state files."""
        return {name for name in self.keys if plain_type(self._events.field(name).type) in (pa.string(), pa.binary())}

    def _results(self, ranked: RankedRows, events: Numbers, ranks: Numbers, updates: Numbers, left: Numbers) -> pa.RecordBatch:
        """Each event that leaves, then the one for which it does."""
        leaves = left >= 0
        at = np.cumsum(1 + leaves) - 1
        chosen, kinds, ranks_after = np.empty((3, len(events) + int(leaves.sum())), np.int64)
        chosen[at], kinds[at], ranks_after[at] = events, updates, ranks
        before = at[leaves] - 1
        chosen[before], kinds[before], ranks_after[before] = left[leaves], len(CHANGES) - 1, 0
        changes = pa.array(CHANGES).take(pa.array(kinds))
        names = self._event_columns(ranked.new)
        rows = ranked.take(chosen, [name for name in names if name not in self._texts_of_keys])
        for name in filter(self._texts_of_keys.__contains__, names):
            rows = rows.append_column(name, ranked.take(np.repeat(events, 1 + leaves), [name]).column(0))
        columns = as_events(rows, self._events).columns
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(ranks_after, mask=ranks_after == 0), changes], names=self.fields.names
        )

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
