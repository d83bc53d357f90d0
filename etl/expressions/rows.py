"""The input and the result of an evaluation: columns of a batch, active rows, and failed rows, which become rejects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Rejects
from etl.expressions.output_limit import TOO_LARGE, is_too_large
from etl.expressions.random_values import RandomSource, unrepeatable_source


class Evaluation(NamedTuple):
    """An expression's values over a batch, and the rows for which Spark would have raised an error."""

    values: pa.Array
    """As long as the batch; values of failed rows have no meaning."""

    failed: pa.BooleanArray | None = None
    """True for failed rows, without nulls; None if no row failed."""

    reasons: pa.StringArray | None = None
    """The reason of each failed row, null for other rows."""


class ActiveRows:
    """Columns by name, all of one length, and the mask of active rows, whose errors count.

    Spark evaluates the branches of ``case``, ``and``, ``or`` and ``coalesce`` only for rows that take them. Here every branch
    runs over all rows, and the mask is narrowed to the rows for which Spark would have evaluated it.
    """

    __slots__ = ("active", "columns", "failures", "length", "random")

    def __init__(self, columns: Mapping[str, pa.Array], length: int, random: RandomSource | None = None) -> None:
        """``random``: the source of random values, if the expression has any."""
        self.columns = columns
        self.length = length
        self.random = random
        self.active: pa.BooleanArray | None = None
        self.failures: list[tuple[pa.BooleanArray, Any]] = []

    def narrow(self, mask: Any) -> ActiveRows:
        """Return the same rows with fewer active ones: those for which ``mask`` is true."""
        narrowed = ActiveRows(self.columns, self.length, self.random)
        narrowed.failures = self.failures
        mask = self.to_mask(mask)
        narrowed.active = mask if self.active is None else pc.and_(self.active, mask)
        return narrowed

    def in_call(self, number: int) -> ActiveRows:
        """Return the same rows with the random values of a call: those of each call in an expression are other ones."""
        rows = ActiveRows(self.columns, self.length, (self.random or unrepeatable_source(self.length)).of_call(number))
        rows.active, rows.failures = self.active, self.failures
        return rows

    def fail(self, mask: Any, reason: Any) -> None:
        """Mark rows as failed; ``reason`` is a text, a string array, or a function that returns one."""
        mask = self.to_mask(mask)
        if self.active is not None:
            mask = pc.and_(mask, self.active)
        if mask.true_count:
            self.failures.append((mask, reason() if callable(reason) else reason))

    def to_mask(self, value: Any) -> pa.BooleanArray:
        """Convert a condition to a boolean array without nulls; null is false."""
        array = broadcast(value, self.length)
        return array if array.null_count == 0 else pc.fill_null(array, False)

    def finish(self, values: Any) -> Evaluation:
        """Return the result of an evaluation with these values; each failed row has the reason of its first failure."""
        if isinstance(values, pa.Scalar) and is_too_large(values, self.length):
            self.fail(pa.repeat(pa.scalar(True), self.length), TOO_LARGE)
            values = pa.scalar(None, values.type)
        array = broadcast(values, self.length)
        if not self.failures:
            return Evaluation(array)
        failed = pa.repeat(pa.scalar(False), self.length)
        reasons = pa.nulls(self.length, pa.string())
        for mask, reason in self.failures:
            reasons = pc.if_else(pc.and_(mask, pc.invert(failed)), reason, reasons)
            failed = pc.or_(failed, mask)
        return Evaluation(array, failed, reasons)


def broadcast(value: Any, length: int) -> pa.Array:
    """Repeat a scalar; an array is returned as it is."""
    if not length:  # for a list, `pa.repeat` would return an array of nulls
        return pa.array([], value.type)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length) if value.is_valid else pa.nulls(length, value.type)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


CODE = "expression-failed"
"""The code of rejects for which an expression failed."""


def merge_failures(results: Iterable[Evaluation]) -> tuple[pa.BooleanArray, pa.StringArray] | None:
    """Return the rows in which any of several expressions failed, with the first reason of each; None if no row failed."""
    failed: pa.BooleanArray | None = None
    reasons: pa.StringArray | None = None
    for result in results:
        if result.failed is None:
            continue
        failed = result.failed if failed is None else pc.or_(failed, result.failed)
        reasons = result.reasons if reasons is None else pc.coalesce(reasons, result.reasons)
    return None if failed is None or reasons is None else (failed, reasons)


def reject_rows(batch: pa.RecordBatch, failed: pa.BooleanArray, reasons: pa.StringArray, code: str = CODE) -> Rejects:
    """Return the failed rows of a batch as rejects."""
    return Rejects(batch.filter(failed), code, reasons.filter(failed))
