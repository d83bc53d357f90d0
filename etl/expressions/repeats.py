"""Columns whose values repeat, as numbers of their different values: what is computed of these is computed of all rows.

A log has few levels, actions and protocols, and a ``case`` over them takes a kernel for each comparison. So an expression over
such columns is evaluated once for every combination of their values, and each row takes the result of its own. An expression
without fields is evaluated for one row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from etl.expressions.rows import Evaluated

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LEAST_ROWS = 512
"""Rows of a batch from which on it is tried."""

SAMPLE, MOST_IN_SAMPLE = 256, 64
"""Rows that show whether a column repeats, and their most different values."""

LEAST_REPEATS = 8
"""Rows for each combination of values, on the average."""


_DEAR = re.compile(r"\b(?:rlike|regexp_\w+|like)\b", re.IGNORECASE)
_CALL, _BRANCH = re.compile(r"\w\("), re.compile(r"\bwhen\b", re.IGNORECASE)
_COSTS = {_DEAR: 4, _CALL: 1, _BRANCH: 0.5}
"""What stands in an expression, and about what it costs."""

COST_OF_A_FIELD = 5
"""Of numbering the values of a column."""

MOST_FIELDS = 2
"""Of an expression; those of more have too many combinations."""


def pays(text: str, fields: Sequence[str]) -> bool:
    """Whether an expression costs more than to number the values of its fields."""
    cost = sum(cost * len(found.findall(text)) for found, cost in _COSTS.items())
    return len(fields) <= MOST_FIELDS and cost >= max(1, COST_OF_A_FIELD * len(fields))


class Repeated(NamedTuple):
    """A column's different values, null among them, and of each row the number of its own."""

    values: pa.Array
    numbers: Array


class RepeatedColumns:
    """The columns of one batch, each looked at when it is first asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._known: dict[str, Repeated | None] = {}

    def combined(self, fields: Sequence[str]) -> tuple[Mapping[str, pa.Array], int, pa.Array] | None:
        """All combinations of the fields' values as columns, how many they are, and of each row the number of its own."""
        import numpy as np

        rows = self._batch.num_rows
        if rows < LEAST_ROWS:
            return None
        columns: dict[str, Array] = {}
        values: dict[str, pa.Array] = {}
        count, numbers = 1, np.zeros(rows, np.int32)
        for name in fields:
            found = self._of(name)
            if found is None or count * len(found.values) * LEAST_REPEATS > rows:
                return None
            size = len(found.values)
            columns = {other: np.repeat(at, size) for other, at in columns.items()} | {name: np.tile(np.arange(size), count)}
            values[name] = found.values
            numbers = found.numbers if count == 1 else numbers * np.int32(size) + found.numbers
            count *= size
        return {name: values[name].take(pa.array(at)) for name, at in columns.items()}, count, pa.array(numbers)

    def _of(self, name: str) -> Repeated | None:
        if name not in self._known:
            self._known[name] = _repeated(self._batch.column(name))
        return self._known[name]


def spread(found: Evaluated, numbers: pa.Array) -> Evaluated:
    """What was found of combinations, for the rows that have them."""
    values = found.values.take(numbers)
    failed = None if found.failed is None else found.failed.take(numbers)
    if failed is None or found.reasons is None or not failed.true_count:
        return Evaluated(values)
    return Evaluated(values, failed, found.reasons.take(numbers))


def _repeated(column: pa.Array) -> Repeated | None:
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return None
    import numpy as np

    if column.null_count == len(column):
        return Repeated(pa.nulls(1, column.type), np.zeros(len(column), np.int32))
    step = max(1, len(column) // SAMPLE)
    if len(column.take(pa.array(np.arange(0, len(column), step))).unique()) > MOST_IN_SAMPLE:
        return None
    encoded = column.dictionary_encode()
    values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, column.type)]) if column.null_count else encoded.dictionary
    numbers = encoded.indices.fill_null(len(values) - 1) if column.null_count else encoded.indices
    return Repeated(values, numbers.to_numpy(zero_copy_only=False).astype(np.int32, copy=False))
