"""Rates: an aggregate divided by the length of its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Accumulator, Grouping, Numbers

_MICROSECONDS = 1_000_000
"""In a second."""


@dataclass(frozen=True)
class PerSecond:
    """``per_second(f(x))``: partial results are those of f, because one of a pane is in several windows."""

    total: Accumulator

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.total.types

    @property
    def functions(self) -> tuple[str, ...] | None:
        return self.total.functions

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return self.total.lift(batch)

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return self.total.merge(grouping, columns)

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The total, as that of a window of a second."""
        return self.total.finish(columns).cast(pa.float64(), safe=False)

    def divide(self, totals: pa.Array, lengths: Numbers) -> pa.Array:
        """Totals divided by the lengths of their windows, int64[groups], in microseconds."""
        return pc.divide(totals, pa.array(lengths / _MICROSECONDS))
