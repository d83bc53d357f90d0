"""Comparisons of an event's field with one of an earlier event, as numbers that kernels compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.sequences.key_events import KeyEvents
from etl.state.windows.aggregation import Numbers


@dataclass(frozen=True)
class EventTest:
    """Asks of each event of a name how a field compares with that of an earlier event."""

    name: int
    """The bit of its mask."""
    earlier: int
    last: bool
    """Whether the last of the earlier events is meant, or the first."""
    holds: int
    """Sum of 1 for less, 2 for equal, 4 for greater."""
    field: str
    earlier_field: str
    type: pa.DataType
    """To which both are cast."""


def table_of_tests(tests: Sequence[EventTest]) -> Numbers:
    """int64[tests, 4], for kernels."""
    rows = [(1 << test.name, 1 << test.earlier, test.last, test.holds) for test in tests]
    return np.array(rows, np.int64).reshape(len(tests), 4)


def value_codes(events: KeyEvents, tests: Sequence[EventTest]) -> Numbers:
    """int64[2 * tests, events]: numbers that compare like the values of both fields of a test; -1 for null."""
    count = len(events.times)
    codes = np.empty((2 * len(tests), count), np.int64)
    for at, test in enumerate(tests):
        columns = [_column(events, name, test.type) for name in (test.field, test.earlier_field)]
        codes[2 * at : 2 * at + 2] = _codes(pa.concat_arrays(columns), test.holds).reshape(2, count)
    return codes


def _column(events: KeyEvents, name: str, type_: pa.DataType) -> pa.Array:
    rows = events.rows(np.arange(len(events.times)), [name])
    if not rows.num_columns:
        return pa.nulls(len(events.times), type_)
    return rows.column(0).combine_chunks().cast(type_)


_EQUAL, _NOT_EQUAL = 2, 5


def _codes(values: pa.Array, holds: int) -> Numbers:
    """Ranks; where only equality counts, numbers of distinct values, which cost a third."""
    if pa.types.is_null(values.type):
        return np.full(len(values), -1)
    if holds in (_EQUAL, _NOT_EQUAL):
        found: Numbers = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy().astype(np.int64)
        return found
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    ranks: Numbers = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), ranks, -1)
