"""Counts, sums and averages over changelogs: an event that removes a row is subtracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import signs
from etl.state.aggregates.accumulator import Accumulator, MergedByFunctions
from etl.state.aggregates.sums import Average, Count, Floats, Sum

_HAS_OWN_COUNT = 1
"""Columns after those of a sum: the number of values that are not null."""


@dataclass(frozen=True)
class SignedAggregate(MergedByFunctions):
    """A count or average whose partial results are added, with the sign of each event."""

    inner: Count | Average

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.inner.types

    @property
    def functions(self) -> tuple[str, ...]:
        return self.inner.functions

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        factors = pa.array(signs(batch))
        return [_times(column, factors) for column in self.inner.lift(batch)]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        found = self.inner.finish(columns)
        return found if isinstance(self.inner, Count) else _null_where_empty(found, columns[-1])


@dataclass(frozen=True)
class SignedSum(SignedAggregate):
    """A sum: partial results are those of an average, because a sum of no values is null."""

    inner: Average

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return _null_where_empty(self.inner.form.total(columns[:-_HAS_OWN_COUNT]), columns[-1])


def signed(accumulator: Accumulator) -> Accumulator | None:
    """The same over a changelog; None for those of which a value cannot be taken back, and sums of doubles, which would not be
    exact."""
    if isinstance(accumulator, Count):
        return SignedAggregate(accumulator)
    if isinstance(accumulator, Sum | Average) and isinstance(accumulator.form, Floats):
        return None
    if isinstance(accumulator, Average):
        return SignedAggregate(accumulator)
    return SignedSum(Average(accumulator.argument, accumulator.form)) if isinstance(accumulator, Sum) else None


def _times(column: pa.Array, factors: pa.Array) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return pc.if_else(pc.less(factors, 0), pc.negate(column), column)
    return pc.multiply(column, factors)


def _null_where_empty(results: pa.Array, counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, results.type), results)
