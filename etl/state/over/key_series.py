"""The past rows of some keys and the events that follow them, by key and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Numbers
from etl.state.keyed.decisions import TIME, EventsByKey, rows_of_keys
from etl.state.keyed.event_rows import numbers
from etl.state.over.frames import Frames

SEQUENCE = "\0sequence"
"""Column (int64) of past rows: the number of the event within its key."""


@dataclass(frozen=True)
class KeySeries:
    """Rows of several keys: of each its past rows, then its events."""

    past: pa.Table
    """In any order."""

    source: Numbers
    """int64[rows]: the number of each row among the past rows and the events that follow them."""

    last_past: Numbers
    """int64[keys with past rows]: the numbers of the last past row of each, among the past rows."""

    rows_of_events: Numbers
    """int64[events]: where in the series each event is."""

    sequence: Numbers
    """int64[events]: the number of each event within its key."""

    frames: Frames

    @classmethod
    def of(
        cls,
        groups: EventsByKey,
        times: Numbers,
        past_keys: Numbers,
        past: pa.Table,
        within: int | None,
        rows: int | None,
    ) -> KeySeries:
        """``past_keys``: the numbers of past rows' keys; ``times``: of the events, which are in ``groups``."""
        order = _order(past_keys, numbers(past, SEQUENCE))
        counts = np.bincount(past_keys, minlength=len(groups.hash))
        until = np.cumsum(counts)
        begins = np.append(0, until) + groups.firsts
        at_events = np.arange(len(times)) + np.repeat(until, groups.sizes)
        source = np.empty(len(order) + len(times), np.int64)
        source[np.arange(len(order)) + np.repeat(groups.firsts[:-1], counts)] = order
        source[at_events] = groups.order + len(order)
        all_times = np.concatenate((numbers(past, TIME), times))[source]
        last = order[until[counts > 0] - 1]
        bases = np.zeros(len(counts), np.int64)
        bases[counts > 0] = numbers(past, SEQUENCE)[last] + 1
        positions, sequence = np.empty((2, len(times)), np.int64)
        positions[groups.order] = at_events
        sequence[groups.order] = np.arange(len(times)) + np.repeat(bases - groups.firsts[:-1], groups.sizes)
        return cls(past, source, last, positions, sequence, Frames.of(begins, all_times, within, rows))

    def column(self, name: str, lifted: pa.Array, last_only: bool) -> pa.Array:
        """A column of past rows and events; ``last_only``: null in past rows that are not the last of their key."""
        if name not in self.past.column_names:
            past = pa.nulls(len(self.past), lifted.type)
        else:
            past = self.past.column(name).combine_chunks()
        if last_only and len(self.last_past) < len(past):
            is_last = np.zeros(len(past), bool)
            is_last[self.last_past] = True
            past = pc.if_else(pa.array(is_last), past, pa.scalar(None, past.type))
        return pa.concat_arrays([past, lifted]).take(pa.array(self.source))


def past_rows_of(groups: EventsByKey, known: Sequence[pa.Table], columns: pa.Schema) -> tuple[Numbers, pa.Table]:
    """The past rows of these keys: the number of each one's key, and these columns, null where a file lacks one."""
    found = [
        (keys, run.select([name for name in columns.names if name in run.column_names]).take(pa.array(rows)))
        for keys, run, rows in rows_of_keys(groups, known)
    ]
    tables = [columns.empty_table(), *(table for _, table in found)]
    return (
        np.concatenate([np.empty(0, np.int64), *(keys for keys, _ in found)]),
        pa.concat_tables(tables, promote_options="default").combine_chunks(),
    )


def _order(keys: Numbers, sequence: Numbers) -> Numbers:
    """int64[n]: row numbers by key and sequence, of which no two rows have the same."""
    if not len(keys):
        return keys
    first, span = sequence.min(), int(sequence.max() - sequence.min()) + 1
    if span * (int(keys.max()) + 1) >= 1 << 62:
        return np.lexsort((sequence, keys))
    return np.argsort(keys * span + (sequence - first))
