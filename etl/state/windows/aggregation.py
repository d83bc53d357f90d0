"""What all windows share: groups, aggregates, the condition on results, and the columns of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import FAILED, PANE, Rejects, Schema, with_columns
from etl.expressions import CompiledExpression
from etl.state.aggregates import Accumulator, column_names, divide_rates, finish_or_fail, group, lift_or_reject, with_missing
from etl.state.state_file_writer import plain_type

SORTED_ROWS = 10_000
"""Maximum number of results of a window that are sorted."""

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Aggregation:
    """Groups of events with their aggregates. ``fields`` are those of results: the window's edges, groups, aggregates."""

    time: str
    group_by: tuple[str, ...]
    accumulators: Mapping[str, Accumulator]
    fields: Schema
    having: CompiledExpression | None
    hidden: Mapping[str, Accumulator] = field(default_factory=dict)
    """Aggregates of partial results that results do not have."""
    reason: bool = False
    """Whether the last field of results says why each is given."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Groups by name: rows of a group stay in one part when ``group_by`` is reordered."""
        return tuple(sorted(self.group_by))

    def lift(self, events: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> tuple[pa.Table, list[Rejects]]:
        """One partial result for each event, after further columns, and the events for which an aggregate fails."""
        groups = {**columns, **{name: _plain(events.column(name)) for name in self.group_by}}
        return lift_or_reject(events, self.accumulators, groups)

    def merge(self, rows: pa.Table, keys: tuple[str, ...]) -> pa.Table:
        """Partial results of rows with the same groups and ``keys`` as one."""
        return group(with_missing(rows, self._all), [*keys, *self.group_by], self._all)

    def concat(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Rows of several files."""
        return with_missing(pa.concat_tables(tables, promote_options="default"), self._all)

    def results(self, merged: pa.Table, starts: Numbers, ends: Numbers, reason: str = "on_close") -> pa.RecordBatch:
        """The results of partial results: where ``having`` is true."""
        return self.sorted(self.met(self.batch(self.finish(merged), starts, ends, reason)))

    def finish(self, merged: pa.Table) -> pa.Table:
        """Groups and aggregates of partial results; rates as those of a second."""
        return pa.table({**{name: merged.column(name) for name in self.group_by}, **finish_or_fail(merged, self.accumulators)})

    def batch(self, finished: pa.Table, starts: Numbers, ends: Numbers, reason: str) -> pa.RecordBatch:
        """Groups and aggregates as results, whatever ``having`` says."""
        edges = [pa.array(edge, pa.int64()).cast(pa.timestamp("us", "UTC")) for edge in (starts, ends)]
        last = [pa.repeat(reason, len(starts))] if self.reason else []
        found = divide_rates({name: finished.column(name) for name in self.accumulators}, self.accumulators, ends - starts)
        columns = [*edges, *(finished.column(name) for name in self.group_by), *found.values(), *last]
        arrays = [_whole(column).cast(field.type) for column, field in zip(columns, self.fields, strict=True)]
        results = pa.RecordBatch.from_arrays(arrays, schema=self.fields)
        return results.append_column(FAILED, _whole(finished.column(FAILED))) if FAILED in finished.column_names else results

    def met(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """The results for which ``having`` is true, and those that cannot be computed."""
        if self.having is None:
            return results
        passes, results = is_met("having", self.having, results)
        return results.filter(passes)

    @property
    def unconditional(self) -> Aggregation:
        """The same without ``having``."""
        return replace(self, having=None)

    def sorted(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """Few results, which people may read, in the order of their windows and groups; many as they come."""
        if results.num_rows > SORTED_ROWS:
            return results
        names = [name for name in (self.fields.names[1], *self.group_by) if not pa.types.is_nested(self.fields.field(name).type)]
        keys = pa.table([_plain(results.column(name)) for name in names], names=[str(number) for number in range(len(names))])
        return results.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))

    @property
    def columns(self) -> list[str]:
        """The names of groups and partial results."""
        return [*self.group_by, *column_names(self._all)]

    @property
    def _all(self) -> Mapping[str, Accumulator]:
        return {**self.accumulators, **self.hidden}


def event_times(events: pa.RecordBatch, time: str) -> Numbers:
    """int64[n]: event times, microseconds since the epoch. No event is without one."""
    times: Numbers = (
        events.column(time).cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).to_numpy(zero_copy_only=False)
    )
    return times


@dataclass(frozen=True)
class EventLengths:
    """Lengths of time that events have in a field, as numbers of seconds or intervals; in microseconds."""

    field: str
    default: int
    """That of null, and of what is not positive."""
    longest: int

    def of(self, events: pa.RecordBatch) -> Numbers:
        """int64[n]: the length of each event."""
        column = events.column(self.field)
        if pa.types.is_duration(column.type):
            micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
        else:
            micros = pc.multiply(column.cast(pa.float64(), safe=False), 1e6)
        found = pc.fill_null(micros, 0.0).to_numpy(zero_copy_only=False)
        lengths = np.rint(np.minimum(np.where(found >= 1, found, self.default), self.longest))
        whole: Numbers = lengths.astype(np.int64)
        return whole


def pane_column(panes: Numbers) -> dict[str, pa.Array]:
    """The column `PANE`."""
    return {PANE: pa.array(panes, pa.int64())}


def is_met(option: str, condition: CompiledExpression, results: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    """For which results a condition is true or cannot be computed, and the results, with the reason in `FAILED`."""
    mask, failed, reasons = condition(results)
    passes = pc.fill_null(mask.cast(pa.bool_()), False)
    known = results.column(FAILED) if FAILED in results.schema.names else pa.nulls(results.num_rows, pa.string())
    if failed is not None and reasons is not None and failed.true_count:
        texts = pc.binary_join_element_wise(f"{option} cannot be computed", reasons.cast(pa.string()), ": ")
        known = pc.if_else(pc.and_(failed, known.is_null()), texts, known)
    if known.null_count == len(known):
        return passes, results
    return pc.or_(passes, known.is_valid()), with_columns(results, {FAILED: known})


def _plain(column: pa.Array) -> pa.Array:
    """Values that Arrow groups by: it takes no views, and no dictionaries that differ."""
    type_ = plain_type(column.type)
    return column if column.type == type_ else column.cast(type_)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
