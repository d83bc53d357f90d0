"""What an expression is evaluated on: a batch, the rows that count, and the rows that failed so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Evaluated(NamedTuple):
    """An expression's values over a batch, and the rows on which Spark would have raised an error."""

    values: pa.Array
    """As long as the batch; without meaning where a row failed."""

    failed: pa.BooleanArray | None = None
    """True where evaluation failed, without nulls; None when no row did."""

    reasons: pa.StringArray | None = None
    """Why, null where the row did not fail."""


class Rows:
    """Columns by name, all of one length, and the mask of rows whose errors count.

    Spark evaluates the branches of ``case``, ``and``, ``or`` and ``coalesce`` only where they are taken. Here every
    branch runs over all rows, with the mask narrowed to those where Spark would have run it.
    """

    __slots__ = ("active", "columns", "failures", "length")

    def __init__(self, columns: Mapping[str, pa.Array], length: int) -> None:
        self.columns = columns
        self.length = length
        self.active: pa.BooleanArray | None = None
        self.failures: list[tuple[pa.BooleanArray, Any]] = []

    def only(self, mask: Any) -> Rows:
        """The same rows, where errors count only if ``mask`` is true too."""
        narrowed = Rows(self.columns, self.length)
        narrowed.failures = self.failures
        mask = self.mask(mask)
        narrowed.active = mask if self.active is None else pc.and_(self.active, mask)
        return narrowed

    def fail(self, mask: Any, reason: Any) -> None:
        """Rows where ``mask`` is true have failed; ``reason`` is a text, a string array, or a function that gives one."""
        mask = self.mask(mask)
        if self.active is not None:
            mask = pc.and_(mask, self.active)
        if mask.true_count:
            self.failures.append((mask, reason() if callable(reason) else reason))

    def mask(self, value: Any) -> pa.BooleanArray:
        """A condition as an array without nulls."""
        array = broadcast(value, self.length)
        return array if array.null_count == 0 else pc.fill_null(array, False)

    def outcome(self, values: Any) -> Evaluated:
        """Values and failures put together; the first failure of a row is the one it reports."""
        array = broadcast(values, self.length)
        if not self.failures:
            return Evaluated(array)
        failed = pa.repeat(pa.scalar(False), self.length)
        reasons = pa.nulls(self.length, pa.string())
        for mask, reason in self.failures:
            reasons = pc.if_else(pc.and_(mask, pc.invert(failed)), reason, reasons)
            failed = pc.or_(failed, mask)
        return Evaluated(array, failed, reasons)


def broadcast(value: Any, length: int) -> pa.Array:
    """A scalar repeated, an array as it is."""
    if not length:  # of a list `pa.repeat` would make an array of nulls
        return pa.array([], value.type)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length) if value.is_valid else pa.nulls(length, value.type)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
