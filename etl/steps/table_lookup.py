"""The function of the step `lookup`: looks events of one split up in a table, and counts hits and misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ComponentError, Outcome, Rejects, SplitMeasures, with_columns
from etl.columns.texts import MAX_OFFSET, filter_batch, materialize_array
from etl.steps.event_copies import copy_events

if TYPE_CHECKING:
    from etl.steps.lookup import Lookup
    from etl.tables.table_file import MappedTable
    from etl.tables.table_store import LiveTable


class TableLookup:
    """Adds columns of a table to events."""

    def __init__(self, step: Lookup, live: LiveTable, defaults: Mapping[str, pa.Scalar]) -> None:
        self._step, self._live, self._defaults = step, live, defaults
        self._found_events = self._missed_events = 0

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        outcome, missed = self._look_up(batch)
        self._missed_events += missed
        self._found_events += batch.num_rows - missed
        return outcome

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        return self._look_up(batch)[0]

    def measures(self) -> SplitMeasures:
        name = self._step.table
        return SplitMeasures({"found": {name: self._found_events}, "missed": {name: self._missed_events}})

    def _look_up(self, batch: pa.RecordBatch) -> tuple[Outcome, int]:
        """The outcome, and how many events the table has no row for."""
        step, table = self._step, self._live.newest()
        counts, rows = self._rows(table, [batch.column(name) for name in step.on])
        missed = counts == 0
        number = int(np.count_nonzero(missed))
        rejects: tuple[Rejects, ...] = ()
        if step.miss != "keep" and number:
            if step.miss == "dead_letter":
                rejects = (self._reject(filter_batch(batch, pa.array(missed))),)
            batch, counts = filter_batch(batch, pa.array(~missed)), counts[~missed]
        batch, columns, missed = self._columns(table, batch, counts, rows)
        for name, value in self._defaults.items():
            columns[name] = pc.if_else(pa.array(missed), value, columns[name])
        return Outcome(with_columns(batch, columns), rejects), number

    def _rows(self, table: MappedTable, keys: Sequence[pa.Array]) -> tuple[Any, Any]:
        """How many rows count for each event (int64[n]), and all of those, one event's after the other's."""
        if self._step.several != "first":
            return table.find_all_rows(keys)
        rows = table.first_rows(table.find(keys))
        return (rows >= 0).astype("int64"), rows[rows >= 0]

    def _columns(
        self, table: MappedTable, batch: pa.RecordBatch, counts: Any, rows: Any
    ) -> tuple[pa.RecordBatch, dict[str, pa.Array], Any]:
        """The events, their new columns, and for which of them the table has none (bool[n])."""
        if self._step.several == "list":
            return (
                batch,
                {name: _lists(table.values(column, rows), counts) for name, column in self._step.add.items()},
                counts == 0,
            )
        batch, rows = copy_events(batch, counts, rows)
        return batch, {name: table.values(column, rows) for name, column in self._step.add.items()}, rows < 0

    def _reject(self, missed: pa.RecordBatch) -> Rejects:
        keys = [pc.fill_null(materialize_array(missed.column(name)).cast(pa.string()), "null") for name in self._step.on]
        keys_text = pc.binary_join_element_wise(*keys, ", ")
        return Rejects(
            missed, "lookup-miss", pc.binary_join_element_wise(f"table {self._step.table!r} has no row for", keys_text, " ")
        )


def _lists(values: pa.Array, counts: Any) -> pa.Array:
    """The values of each event as a list; null where there are none."""
    ends = np.append(0, np.cumsum(counts))
    if ends[-1] > MAX_OFFSET:
        raise ComponentError(f"{ends[-1]:,} rows belong to {len(counts):,} events, more than a list column holds")
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values, mask=pa.array(counts == 0))
