"""The latest state row of each key of some events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import Numbers
from etl.state.keyed.decisions import EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import numbers


@dataclass(frozen=True)
class LatestRows:
    """The latest state row of each key of some events."""

    groups: EventsByKey
    known: pa.Table
    """State rows of these keys."""
    rows: Numbers
    """int64[keys]: the number of the latest state row of each key, -1 if it has none."""

    @classmethod
    def of(
        cls, groups: EventsByKey, tables: Sequence[pa.Table], order: Sequence[str], values: Sequence[str], fields: Sequence[str]
    ) -> LatestRows:
        """Look the keys up in these tables. The latest row has the largest values in the columns ``order``, of which the first is
        the most significant. ``values`` are further columns of numbers, ``fields`` those of events."""
        found, none = list(rows_of_keys(groups, tables)), np.empty(0, np.int64)
        columns: dict[str, Numbers | pa.ChunkedArray] = {
            name: np.concatenate([none, *(numbers(run, name)[rows] for _, run, rows in found)])
            for name in dict.fromkeys([*order, *values])
        }
        if fields:
            empty = pa.schema([(name, pa.null()) for name in fields]).empty_table()
            events = [existing_columns(run, fields).take(pa.array(rows)) for _, run, rows in found]
            taken = pa.concat_tables([empty, *events], promote_options="default").combine_chunks()
            columns |= dict(zip(fields, taken.columns, strict=True))
        known = pa.table(columns)
        keys = np.concatenate([none, *(keys for keys, _, _ in found)])
        at = np.lexsort((*(numbers(known, name) for name in reversed(order)), keys))
        rows = np.full(len(groups.hash), -1)
        rows[keys[at]] = at  # of several rows of a key the last one is assigned
        return cls(groups, known, rows)

    def values(self, name: str, default: int) -> Numbers:
        """int64[keys]: a number of each key's latest state row; ``default`` for keys without one."""
        values: Numbers = np.append(numbers(self.known, name), default)[self.rows]
        return values


def existing_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Those of these columns that the table has: a version of the pipeline that wrote it may not have had a field."""
    return table.select([name for name in names if name in table.column_names])


def with_column(table: pa.Table, name: str, values: Numbers) -> pa.Table:
    """The table with these numbers as a column, in place of one of this name."""
    at = table.column_names.index(name) if name in table.column_names else len(table.column_names)
    column = pa.array(values)
    return table.set_column(at, name, column) if at < len(table.column_names) else table.append_column(name, column)
