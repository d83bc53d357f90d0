"""The best events of each key so far, as a changelog: what each micro-batch changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, PANE, Schema
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.diffs import as_changes, change_order, difference
from etl.state.keyed.decisions import TIME, EventsByKey
from etl.state.keyed.event_rows import hashes_of, numbers
from etl.state.keyed.waiting_events import ORDER
from etl.state.top.ranked_rows import RankedRows
from etl.state.top.running_best import RunningBest


@dataclass(frozen=True)
class ChangingBest(RunningBest):
    """The rankings of keys with new events are compared before and after each micro-batch; rows are those of `RunningBest`.

    A row of the result is an event with its rank. Row numbers of a key never become fewer, because events are only added.
    """

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in (self.rank, CHANGE)])

    @property
    def _compared_columns(self) -> list[str]:
        return self.ranking.columns

    def combine(self, rows: pa.Table) -> pa.Table:
        """The best rows of each key, of events that have arrived and of past ones: no others can be in the ranking."""
        if self.ttl.micros is not None:
            return super().combine(rows)
        best = self.ranking.best(rows)[0]
        return rows if len(best) == len(rows) else rows.take(pa.array(np.sort(best)))

    def pass_events(self, rows: pa.Table, past: Sequence[pa.Table], now: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """The positions of rankings whose event is another one than before, and past rows."""
        groups = EventsByKey.of(hashes_of(rows), numbers(rows, TIME), numbers(rows, ORDER))
        ranked = self._alive(self._ranked_rows(groups, past, rows), groups)
        owners = np.append(np.repeat(np.arange(len(groups.hash)), np.diff(ranked.firsts)), groups.numbers())
        best, ranks = self.ranking.best(ranked.values)
        if self.ranking.ties == "row_number":
            before = self._before(ranked.firsts, owners[best], ranks)
            changed = np.flatnonzero(before != best)
            yield self._changes(ranked, before[changed], best[changed], ranks[changed])
        else:
            known = self.ranking.best(ranked.values.slice(0, ranked.known_rows))
            yield difference(self._with_ranks(ranked, *known), self._with_ranks(ranked, best, ranks), self.fields, None)
        yield from self._rows_to_keep(ranked, best, owners, now)

    def _with_ranks(self, ranked: RankedRows, best: Numbers, ranks: Numbers) -> pa.Table:
        """Rows with their ranks."""
        return ranked.take(best, self._event_columns(ranked.new)).append_column(self.rank, pa.array(ranks, pa.int64()))

    def _alive(self, ranked: RankedRows, groups: EventsByKey) -> RankedRows:
        """The rows without those of rankings that have expired by the times of the new events."""
        if self.ttl.micros is None or not ranked.known_rows:
            return ranked
        owners = np.repeat(np.arange(len(groups.hash)), np.diff(ranked.firsts))
        latest = np.full(len(groups.hash), -(1 << 62))
        times = numbers(ranked.values, TIME)
        np.maximum.at(latest, owners, times[: ranked.known_rows])
        arrives = times[ranked.known_rows + groups.order[groups.firsts[:-1]]]
        return ranked.filter_known((arrives - latest < self.ttl.micros)[owners])

    @staticmethod
    def _before(firsts: Numbers, owners: Numbers, ranks: Numbers) -> Numbers:
        """int64[n]: the known row that had the rank of each row in its key, -1 for none."""
        at = firsts[owners] + ranks - 1
        found: Numbers = np.where(at < firsts[owners + 1], at, -1)
        return found

    def _changes(self, ranked: RankedRows, before: Numbers, after: Numbers, ranks: Numbers) -> pa.RecordBatch:
        """The changelog of these positions."""
        times, orders = (numbers(ranked.values, name)[after] for name in (TIME, ORDER))
        ordered = np.lexsort((ranks, orders, times))
        order = change_order(before[ordered], after[ordered])
        of_events = ranked.take(order.rows, self._event_columns(ranked.new))
        return as_changes(of_events.append_column(self.rank, pa.array(ranks[ordered][order.positions])), order.kinds, self.fields)

    def _rows_to_keep(self, ranked: RankedRows, best: Numbers, owners: Numbers, now: int) -> Iterator[pa.Table]:
        """Past rows: events that have become one of the best, and the other best ones where their key's pane is another one."""
        new, panes = best >= ranked.known_rows, ranked.panes
        times = np.full(len(panes), -(1 << 62))
        np.maximum.at(times, owners[best[new]], numbers(ranked.values, TIME)[best[new]])
        later = np.where(times > -(1 << 62), self.ttl.expiry_panes(np.maximum(times, 0)), panes)
        written = (new | (later != panes)[owners[best]]) & (later > now)[owners[best]]
        chosen = best[written]
        if len(chosen):
            stored = ranked.take(chosen, self._stored_columns(ranked.new))
            yield stored.append_column(PANE, pa.array(later[owners[chosen]]))
