"""Dictionary-encoded columns: an expression over columns of few distinct values is evaluated once for each combination of them.

Logs have few levels, actions and protocols, and a ``case`` over them takes a kernel for each comparison. Each row takes the
result of its own combination of values. An expression without fields is evaluated for one row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from etl.expressions.rows import Evaluation

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MIN_ROWS = 512
"""Minimum number of rows of a batch for which columns are encoded."""

SAMPLE, MAX_DISTINCT_IN_SAMPLE = 256, 64
"""Sample size in rows, and maximum number of distinct values in the sample for which the column is encoded."""

MIN_REPEATS = 8
"""Minimum average number of rows for each combination of values."""


_COSTLY = re.compile(r"\b(?:rlike|regexp_\w+|like)\b", re.IGNORECASE)
_CALL, _BRANCH = re.compile(r"\w\("), re.compile(r"\bwhen\b", re.IGNORECASE)
_COSTS = {_COSTLY: 4, _CALL: 1, _BRANCH: 0.5}
"""Constructs of an expression and their estimated costs."""

COST_OF_A_FIELD = 5
"""Estimated cost of encoding a column."""

MAX_FIELDS = 2
"""Maximum number of fields of an expression; more have too many combinations."""


def is_worth_encoding(text: str, fields: Sequence[str]) -> bool:
    """Whether evaluating an expression costs more than encoding its fields."""
    cost = sum(cost * len(found.findall(text)) for found, cost in _COSTS.items())
    return len(fields) <= MAX_FIELDS and cost >= max(1, COST_OF_A_FIELD * len(fields))


class DictionaryColumn(NamedTuple):
    """A column's distinct values, including null, and for each row the index of its value."""

    values: pa.Array
    numbers: Array


class DictionaryColumns:
    """The columns of one batch, each encoded at first use."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._hashed_schema: dict[str, DictionaryColumn | None] = {}

    def combined(self, fields: Sequence[str]) -> tuple[Mapping[str, pa.Array], int, pa.Array] | None:
        """All combinations of the fields' values as columns, their count, and for each row the index of its combination."""
        import numpy as np

        rows = self._batch.num_rows
        if rows < MIN_ROWS:
            return None
        columns: dict[str, Array] = {}
        values: dict[str, pa.Array] = {}
        count, numbers = 1, np.zeros(rows, np.int32)
        for name in fields:
            found = self._of(name)
            if found is None or count * len(found.values) * MIN_REPEATS > rows:
                return None
            size = len(found.values)
            columns = {other: np.repeat(at, size) for other, at in columns.items()} | {name: np.tile(np.arange(size), count)}
            values[name] = found.values
            numbers = found.numbers if count == 1 else numbers * np.int32(size) + found.numbers
            count *= size
        return {name: values[name].take(pa.array(at)) for name, at in columns.items()}, count, pa.array(numbers)

    def _of(self, name: str) -> DictionaryColumn | None:
        if name not in self._hashed_schema:
            self._hashed_schema[name] = _encode(self._batch.column(name))
        return self._hashed_schema[name]


def expand(found: Evaluation, numbers: pa.Array) -> Evaluation:
    """The result for the rows, from that for the combinations."""
    values = found.values.take(numbers)
    failed = None if found.failed is None else found.failed.take(numbers)
    if failed is None or found.reasons is None or not failed.true_count:
        return Evaluation(values)
    return Evaluation(values, failed, found.reasons.take(numbers))


def _encode(column: pa.Array) -> DictionaryColumn | None:
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return None
    import numpy as np

    if column.null_count == len(column):
        return DictionaryColumn(pa.nulls(1, column.type), np.zeros(len(column), np.int32))
    step = max(1, len(column) // SAMPLE)
    if len(column.take(pa.array(np.arange(0, len(column), step))).unique()) > MAX_DISTINCT_IN_SAMPLE:
        return None
    encoded = column.dictionary_encode()
    values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, column.type)]) if column.null_count else encoded.dictionary
    numbers = encoded.indices.fill_null(len(values) - 1) if column.null_count else encoded.indices
    return DictionaryColumn(values, numbers.to_numpy(zero_copy_only=False).astype(np.int32, copy=False))
