"""Minima and maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import MergedByFunctions, Numbers
from etl.state.aggregates.argument import AggregateArgument

_MAGNITUDE = (1 << 63) - 1
"""All bits of a double but its sign."""


@dataclass(frozen=True)
class MinOrMax(MergedByFunctions):
    """``min(x)`` or ``max(x)``."""

    argument: AggregateArgument
    function: Literal["min", "max"]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        type_ = self.argument.type
        return (pa.int64() if pa.types.is_floating(type_) else type_,)

    @property
    def functions(self) -> tuple[str, ...]:
        return (self.function,)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = self.argument.values(batch)
        return [ordered_bits(values) if pa.types.is_floating(values.type) else values]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        if not pa.types.is_floating(self.argument.type):
            return columns[0]
        return from_ordered_bits(columns[0]).cast(self.argument.type)


def ordered_bits(floats: pa.Array) -> pa.Array:
    """Floating-point numbers → int64 in the order of Spark: -inf … -0.0, 0.0 … inf, NaN; every NaN is the same."""
    numbers = floats.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    invalid = floats.is_null().to_numpy(zero_copy_only=False) if floats.null_count else None
    return pa.array(_flip(bits), mask=invalid)


def from_ordered_bits(bits: pa.Array) -> pa.Array:
    """int64 of `ordered_bits` → double."""
    numbers = _flip(bits.fill_null(0).to_numpy(zero_copy_only=False)).view(np.float64)
    return pa.array(numbers, mask=bits.is_null().to_numpy(zero_copy_only=False) if bits.null_count else None)


def _flip(bits: Numbers) -> Numbers:
    return bits ^ ((bits >> 63) & _MAGNITUDE)
