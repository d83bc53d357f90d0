"""Rows of changelogs in state, each with its weight: 1 for a row that is added, -1 for one that is removed.

Equal rows of a key are merged, their weights are added, and where the sum is 0 nothing is left.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import CHANGE, NEVER, OFFSET, PANE, AfterRun, ComponentError, PaneSpan, Schema, WatermarkAdvance, signs
from etl.state.aggregates.accumulator import Numbers
from etl.state.changes.key_limits import MAX_BYTES_OF_KEY, MAX_ROWS_OF_KEY
from etl.state.key_hash import HASH, HASH2, key_hashes, new_seed
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import hashes_of, numbers, prepare_rows, whole
from etl.state.keyed.latest_rows import existing_columns, with_column
from etl.state.keyed.time_to_live import UNLIMITED, TimeToLive
from etl.state.keyed.waiting_events import ORDER

WEIGHT = "\0weight"
"""Column (int64): how often a row is there."""

_SEED = new_seed()
"""Of hashes that are compared within this process."""


@dataclass(frozen=True)
class WeightedRows(ABC):
    """``fields`` are those of results, with the kind of change; ``incoming`` those of rows."""

    fields: Schema
    incoming: Schema
    keys: tuple[str, ...]
    time: str
    result_key: tuple[str, ...] | None
    """Fields by which a result replaces another one; None if results are only added and removed."""
    ttl: TimeToLive = UNLIMITED

    @property
    def hashed(self) -> bool:
        """Keys are looked up."""
        return True

    @property
    def after_run(self) -> AfterRun:
        """Rows are added as they arrive."""
        return "arrived"

    @property
    def retention(self) -> TimeToLive:
        """How long rows stay in state."""
        return self.ttl

    @cached_property
    def _rows(self) -> Schema:
        return pa.schema([one for one in self.incoming if one.name not in (CHANGE, OFFSET, self.time)])

    @property
    def _columns(self) -> tuple[str, ...]:
        """Those of rows in state."""
        return (*self._rows.names, HASH, HASH2, PANE, TIME, ORDER, WEIGHT)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows with their weights; none is late."""
        more = {ORDER: events.column(OFFSET).to_numpy(), WEIGHT: signs(events)}
        rows, late = prepare_rows(events, self._rows, self.time, 1, NEVER, more)
        return with_column(rows, PANE, self.retention.expiry_panes(numbers(rows, TIME))), late

    def combine(self, rows: pa.Table) -> pa.Table:
        """Equal rows as one with the sum of their weights, the earliest one; without those whose weights are 0 together."""
        return self.merged(rows, -(1 << 62))

    def merged(self, rows: pa.Table, min_weight: int) -> pa.Table:
        """The same with weights of at least ``min_weight``."""
        groups = EventsByKey.of(self.row_hashes(rows), numbers(rows, TIME), numbers(rows, ORDER))
        sums = np.add.reduceat(numbers(rows, WEIGHT)[groups.order], groups.firsts[:-1]) if len(rows) else np.empty(0, np.int64)
        weights = np.maximum(sums, min_weight)
        if len(groups.hash) == len(rows) and (weights == sums).all():
            return rows
        firsts = earliest_added(rows, groups)
        remaining = np.flatnonzero(self._needed(rows, firsts, weights))
        remaining = remaining[
            np.argsort(firsts[remaining])
        ]  # the order of rows is that in which they came, whatever the seed of hashes
        return with_column(rows.take(pa.array(firsts[remaining])), WEIGHT, weights[remaining])

    def _needed(self, rows: pa.Table, at: Numbers, weights: Numbers) -> Numbers:
        """bool[n]: which of these rows are there."""
        return weights != 0

    def row_hashes(self, rows: pa.Table, with_pane: bool = True) -> Numbers:
        """Hashes of the values of rows; rows that expire at other times are others."""
        names = [name for name in self._rows.names if name in rows.column_names]
        found: Numbers = key_hashes(rows, [*names, *([PANE] if with_pane and self.ttl.micros is not None else [])], _SEED)
        return found

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events."""
        return arrived is not None

    def past_rows(self, new: pa.Table, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of the keys of new ones so far. Raises ComponentError for a key with too many."""
        return whole(
            [existing_columns(new, self._columns).slice(0, 0), *self.looked_up(new, tables, lambda run, rows: rows >= 0)]
        )

    def looked_up(
        self, new: pa.Table, tables: Sequence[pa.Table], chosen: Callable[[pa.Table, Numbers], Numbers]
    ) -> list[pa.Table]:
        """The rows of these keys in each table of which ``chosen`` says that they are needed, by their numbers."""
        groups = EventsByKey.of(hashes_of(new), np.zeros(len(new), np.int64))
        found = []
        for keys, run, rows in rows_of_keys(groups, tables):
            needed = chosen(run, rows)
            found.append((keys[needed], run, rows[needed]))
        self._check_sizes(new, groups, [(keys, run.nbytes / len(run)) for keys, run, _ in found])
        return [existing_columns(run, self._columns).take(pa.array(rows)) for _, run, rows in found]

    def _check_sizes(self, new: pa.Table, groups: EventsByKey, found: Iterable[tuple[Numbers, float]]) -> None:
        """Raise ComponentError for a key that has too many rows to compute it again with each change. ``found``: numbers of
        keys, one for each row, and the bytes of a row."""
        keys = len(groups.hash)
        rows, size = np.zeros(keys, np.int64), np.zeros(keys)
        for own, row_bytes in found:
            counts = np.bincount(own, minlength=keys)
            rows += counts
            size += counts * row_bytes
        too_large = np.flatnonzero((rows > MAX_ROWS_OF_KEY) | (size > MAX_BYTES_OF_KEY))
        if len(too_large):
            at = too_large[0]
            of_key = new.slice(int(groups.order[groups.firsts[at]]), 1)
            raise ComponentError(_too_large(self.key_values(of_key), int(rows[at]), int(size[at])))

    def key_values(self, row: pa.Table) -> Mapping[str, Any]:
        """The key of one row."""
        return {name: row.column(name)[0].as_py() for name in self.keys}

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether all rows of the pane have expired."""
        return last_pane <= watermark

    def watermark_after(self, watermark: int) -> int:
        """Results are given as events come."""
        return watermark


def earliest_added(rows: pa.Table, groups: EventsByKey) -> Numbers:
    """The number of the first row of each group, if possible of one that is added, whose place in time counts."""
    is_added = numbers(rows, WEIGHT)[groups.order] > 0
    at = np.where(is_added, np.arange(len(rows)), len(rows))
    first = np.minimum.reduceat(at, groups.firsts[:-1])
    found: Numbers = groups.order[np.where(first < len(rows), first, groups.firsts[:-1])]
    return found


def _too_large(key: Mapping[str, Any], rows: int, size: int) -> str:
    shown = ", ".join(f"{name}={value!r:.200}" for name, value in key.items())
    return (
        f"the key {shown or 'of all rows'} has {rows:,} rows of {size >> 20:,} MiB, and its results are computed again from "
        f"all of them with each change: at most {MAX_ROWS_OF_KEY:,} rows and {MAX_BYTES_OF_KEY >> 20:,} MiB are possible. "
        "Filter the key out before the step, or aggregate or dedupe its rows first. Nothing is lost: the next run goes on where "
        "this one ended"
    )
