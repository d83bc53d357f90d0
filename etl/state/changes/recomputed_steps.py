"""Rankings, running values and aggregates over changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, OFFSET, Schema
from etl.state.aggregates import Accumulator, finish, group, lift
from etl.state.aggregates.argument import AggregateArgument, check_arguments
from etl.state.changes.recomputed_results import RecomputedResults
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import arrival_order, as_events, numbers
from etl.state.keyed.latest_rows import with_column
from etl.state.keyed.waiting_events import ORDER
from etl.state.over.running_values import RunningValues
from etl.state.top.best_rows import VALUE, Ranking, further_value
from etl.state.windows.aggregation import event_times


@dataclass(frozen=True, kw_only=True)
class RecomputedBest(RecomputedResults):
    """The best rows of each key, with their ranks."""

    by: tuple[AggregateArgument, ...]
    ranking: Ranking
    rank: str

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows whose values can be computed. Raises FailedRowsError."""
        check_arguments(events, self.by)
        return super().prepare(events, watermark)

    def results(self, rows: pa.Table) -> pa.Table:
        events = as_events(rows, self._rows)
        for at, one in enumerate(self.by):
            rows = rows.append_column(further_value(at - 1) if at else VALUE, one.values(events))
        rows = self.ranking.ranked(rows)
        best, ranks = self.ranking.best(rows)
        return rows.take(pa.array(best)).append_column(self.rank, pa.array(ranks))


@dataclass(frozen=True, kw_only=True)
class RecomputedOver(RecomputedResults):
    """Running values beside each row, in the order of an event time."""

    order_by: str
    """The event time field."""
    values: RunningValues

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows whose values can be computed. Raises FailedRowsError."""
        check_arguments(events, self.values.aggregates.values())
        return super().prepare(events, watermark)

    def results(self, rows: pa.Table) -> pa.Table:
        if not len(rows):
            return self.state_fields.empty_table()
        times = event_times(as_events(rows, pa.schema([self._rows.field(self.order_by)])), self.order_by)
        arrival = arrival_order(numbers(rows, TIME), numbers(rows, ORDER))
        numbered = np.empty(len(rows), np.int64)
        numbered[arrival] = np.arange(len(rows))
        ordered = with_column(with_column(rows, TIME, times), ORDER, numbered)
        found = next(one for one in self.values.pass_events(ordered, (), 0) if isinstance(one, pa.RecordBatch))
        return pa.Table.from_batches([found])


@dataclass(frozen=True, kw_only=True)
class RecomputedTotals(RecomputedResults):
    """Aggregates of each group."""

    accumulators: Mapping[str, Accumulator] = field(default_factory=dict)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows whose values can be computed. Raises FailedRowsError."""
        lift(events, self.accumulators)
        return super().prepare(events, watermark)

    def results(self, rows: pa.Table) -> pa.Table:
        schema = pa.schema([one for one in self.fields if one.name != CHANGE])
        if not len(rows):
            return schema.empty_table()
        events = as_events(rows, self._with_time())
        events = events.set_column(events.num_columns - 1, self.time, rows.column(TIME).combine_chunks().cast(pa.timestamp("us")))
        events = events.append_column(OFFSET, pa.array(np.arange(len(rows))))
        lifted = {name: events.column(name) for name in self.keys} | lift(events, self.accumulators)
        merged = group(pa.table(lifted), list(self.keys), self.accumulators)
        found = {name: merged.column(name) for name in self.keys} | finish(merged, self.accumulators)
        return pa.table([found[one.name].cast(one.type) for one in schema], schema=schema)

    def _with_time(self) -> Schema:
        return self._rows.append(pa.field(self.time, pa.timestamp("us", "UTC")))
