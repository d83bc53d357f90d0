"""Rows of rankings: the best ones of some keys so far, whose fields stay in the state files until a result needs them, and new
ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import Numbers
from etl.state.keyed.decisions import LARGE_RUN, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import numbers, whole
from etl.state.state_files import limit_mapped_memory


@dataclass(frozen=True)
class FoundRows:
    """State rows of some keys, in the runs in which they are."""

    keys: Numbers
    """int64[n]: the number of each row's key."""
    runs: Sequence[tuple[pa.Table, Numbers]]
    """Each run with the numbers of its rows, which are n in all."""
    columns: pa.Table
    """Columns that were read when the rows were found, while their memory was mapped; without rows no columns."""

    @classmethod
    def of(cls, groups: EventsByKey, past: Sequence[pa.Table], names: Sequence[str]) -> FoundRows:
        """The state rows of these keys, with these columns."""
        keys, runs, columns = [np.empty(0, np.int64)], [], []
        for own, run, rows in rows_of_keys(groups, past):
            keys.append(own)
            runs.append((run, rows))
            columns.append(run.select(names).take(pa.array(rows)))
        return cls(np.concatenate(keys), runs, whole(columns) if columns else pa.table({}))

    def numbers(self, name: str, needed: Numbers) -> Numbers:
        """int64[n]: a column of numbers, 0 in rows that are not needed (bool[n])."""
        found, first = np.zeros(len(self.keys), np.int64), 0
        for run, rows in self.runs:
            own = np.flatnonzero(needed[first : first + len(rows)])
            if len(own):
                found[first + own] = numbers(run, name)[rows[own]]
            first += len(rows)
        return found

    def read(self, names: Sequence[str], needed: Numbers | None = None) -> pa.Table:
        """These columns of all rows, or of those that are needed (bool[n], at least one). A run may have fewer columns."""
        tables, first = [], 0
        for run, rows in self.runs:
            chosen = rows if needed is None else rows[needed[first : first + len(rows)]]
            first += len(rows)
            if len(chosen):
                known = set(run.schema.names)
                tables.append(run.select([name for name in names if name in known]).take(pa.array(chosen)))
                if len(run) >= LARGE_RUN:
                    limit_mapped_memory(run.get_total_buffer_size())
        return whole(tables)


@dataclass(frozen=True)
class RankedRows:
    """The best rows of each key so far, by key and rank, and after them the new rows."""

    firsts: Numbers
    """int64[keys + 1]: where the best rows of each key so far begin."""
    panes: Numbers
    """int64[keys]: the pane of each key's rows so far."""
    found_rows: Numbers
    """int64[known]: which row of ``found`` each of the best rows so far is."""
    found: FoundRows
    new: pa.Table
    values: pa.Table
    """Of all rows the columns that are compared."""
    times: Numbers
    """int64[rows]: the times of all rows; 0 of known ones if they do not count."""

    @property
    def known_rows(self) -> int:
        """The number of the best rows so far."""
        return len(self.found_rows)

    def filter_known(self, remains: Numbers) -> RankedRows:
        """The rows without those of the best ones so far that do not remain (bool[known])."""
        before = np.append(0, np.cumsum(remains))
        rows = np.append(remains, np.ones(len(self.new), bool))
        values, times = self.values.filter(pa.array(rows)), self.times[rows]
        return replace(self, firsts=before[self.firsts], found_rows=self.found_rows[remains], values=values, times=times)

    def take(self, rows: Numbers, names: Sequence[str]) -> pa.Table:
        """These columns of rows by their numbers."""
        is_known = rows < self.known_rows
        new = self.new.select(names)
        if not is_known.any():
            return new.take(pa.array(rows - self.known_rows))
        needed = np.zeros(len(self.found.keys), bool)
        needed[self.found_rows[rows[is_known]]] = True
        counts = np.cumsum(needed)
        at = rows - self.known_rows + counts[-1]
        at[is_known] = counts[self.found_rows[rows[is_known]]] - 1
        return whole([self.found.read(names, needed), new]).take(pa.array(at))
