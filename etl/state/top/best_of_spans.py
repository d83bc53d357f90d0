"""The best events of each key in each span of time, given when the span is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, OFFSET, AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.aggregates.argument import AggregateArgument
from etl.state.keyed.event_rows import as_events, as_times, numbers, prepare_rows, whole
from etl.state.keyed.waiting_events import ORDER
from etl.state.top.best_rows import VALUE, Ranking
from etl.state.windows.aggregation import SORTED_ROWS, event_times

SPAN = "\0span"
"""Column (int64): the start of an event's span, microseconds since the epoch."""


@dataclass(frozen=True)
class BestOfSpans:
    """State holds the best events of each open span. ``fields`` are those of events, then the new ones."""

    fields: Schema
    group_by: tuple[str, ...]
    time: str
    size: int
    """Microseconds."""
    by: AggregateArgument
    ranking: Ranking
    edges: tuple[str, ...]
    """Names of new fields for the start and the end of the span, or none."""
    rank: str
    """The new field for the rank."""
    hashed: bool = True
    after_run: AfterRun = "arrived"

    @property
    def keys(self) -> tuple[str, ...]:
        """A key is another one in each span."""
        return (*self.group_by, SPAN)

    @cached_property
    def _events(self) -> Schema:
        return pa.schema([field for field in self.fields if field.name not in (*self.edges, self.rank)])

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events that are ranked; those whose span is over are late."""
        spans = event_times(events, self.time) // self.size * self.size
        more = {ORDER: events.column(OFFSET).to_numpy(), SPAN: spans}
        oldest, values = self.watermark_after(watermark), self.by.values(events)
        rows, late = prepare_rows(events.append_column(VALUE, values), self._with_value, self.time, self.size, oldest, more)
        return self.ranking.ranked(rows), late

    @cached_property
    def _with_value(self) -> Schema:
        return self._events.append(pa.field(VALUE, self.by.type))

    def combine(self, rows: pa.Table) -> pa.Table:
        """The best rows of each span and key."""
        best, _ = self.ranking.best(rows)
        return rows if len(best) == len(rows) else rows.take(pa.array(np.sort(best)))

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether a span may be over now that has events."""
        spans = [span for span in (arrived, stored) if span is not None]
        return any(clock.before < span.last + self.size and span.first + self.size <= clock.now for span in spans)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch]:
        """The best events of the spans that are over, by span and key, the best ones first."""
        first, end = clock.before - self.size + 1, clock.now - self.size + 1
        yield from self._best([*stored.tables(first, end), *arrived.tables(first, end)])

    def _best(self, tables: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not tables:
            return
        rows = whole(tables)
        best, ranks = self.ranking.best(rows)
        rows = rows.take(pa.array(best))
        spans = numbers(rows, SPAN)
        edges = [as_times(edge) for edge in (spans, spans + self.size)][: len(self.edges)]
        columns = [*as_events(rows, self._events).columns, *edges, pa.array(ranks)]
        yield self._sort(pa.RecordBatch.from_arrays(columns, names=self.fields.names), rows)

    def _sort(self, results: pa.RecordBatch, rows: pa.Table) -> pa.RecordBatch:
        """By span, and few results, which people may read, by key."""
        names = [name for name in self.group_by if not pa.types.is_nested(rows.schema.field(name).type)]
        keys = rows.select([SPAN, *(names if len(rows) <= SORTED_ROWS else [])])
        keys = keys.append_column("\0place", pa.array(np.arange(len(rows))))
        return results.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))

    @property
    def state_fields(self) -> Schema:
        """Those of results."""
        return self.fields

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The best events so far of spans that are not over."""
        yield from self._best(stored.tables(watermark - self.size + 1))

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether the span is."""
        return last_pane + self.size <= watermark

    def watermark_after(self, watermark: int) -> int:
        """The start of the first span that is not over."""
        return ALWAYS if watermark >= ALWAYS else watermark // self.size * self.size
