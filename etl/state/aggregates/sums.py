"""Counts, sums and averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import MergedByFunctions
from etl.state.aggregates.argument import AggregateArgument

_LOW = 0xFFFFFFFF
_WORD = 32
_HIGHEST = 1 << 31
"""Upper halves of bigint are below this number."""

_WIDE_PRECISION = 28
"""Digits of a decimal up to which 38 digits hold the sum of 10**10 of them."""


@dataclass(frozen=True)
class Count(MergedByFunctions):
    """``count(*)``, ``count(x)``, ``count_if(x)``."""

    argument: AggregateArgument
    true_only: bool = False

    types = (pa.int64(),)
    functions = ("sum",)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self.argument.value is not None:
            values = self.argument.values(batch)
            counted = pc.fill_null(values.cast(pa.bool_()), False) if self.true_only else pc.is_valid(values)
            return [counted.cast(pa.int64())]
        mask = self.argument.mask(batch)
        return [pa.array(np.ones(batch.num_rows, np.int64)) if mask is None else mask.cast(pa.int64())]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


class SumForm(Protocol):
    """How numbers of a type are added."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The columns of a sum; pyarrow's ``sum`` merges each."""

    def split(self, values: pa.Array) -> list[pa.Array]:
        """The columns of each number."""

    def total(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The sum; null where it overflows."""

    def divide(self, columns: Sequence[pa.Array], count: pa.Array) -> pa.Array:
        """The sum divided by a number of values above 0."""


@dataclass(frozen=True)
class Floats:
    """Floating-point numbers, added as double."""

    types = (pa.float64(),)

    def split(self, values: pa.Array) -> list[pa.Array]:
        return [values.cast(pa.float64())]

    def total(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]

    def divide(self, columns: Sequence[pa.Array], count: pa.Array) -> pa.Array:
        return pc.divide(columns[0], _as_double(count))


@dataclass(frozen=True)
class Integers:
    """Integers of up to 32 bits: their sum is exact in 64 bits."""

    types = (pa.int64(),)

    def split(self, values: pa.Array) -> list[pa.Array]:
        return [values.cast(pa.int64())]

    def total(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]

    def divide(self, columns: Sequence[pa.Array], count: pa.Array) -> pa.Array:
        return pc.divide(_as_double(columns[0]), _as_double(count))


@dataclass(frozen=True)
class BigIntegers:
    """Integers of 64 bits, ``high * 2**32 + low`` with a low half that has a sign: both sums are exact in 64 bits."""

    types = (pa.int64(), pa.int64())

    def split(self, values: pa.Array) -> list[pa.Array]:
        low = pc.shift_right(pc.shift_left(values, _WORD), _WORD)
        carry = pc.bit_wise_and(pc.shift_right(values, _WORD - 1), 1)
        return [pc.add(pc.shift_right(values, _WORD), carry), low]

    def total(self, columns: Sequence[pa.Array]) -> pa.Array:
        high = pc.add(columns[0], pc.shift_right(columns[1], _WORD))
        value = pc.add(pc.shift_left(high, _WORD), pc.bit_wise_and(columns[1], _LOW))
        fits = pc.and_(pc.greater_equal(high, -_HIGHEST), pc.less(high, _HIGHEST))
        return pc.if_else(fits, value, pa.scalar(None, pa.int64()))

    def divide(self, columns: Sequence[pa.Array], count: pa.Array) -> pa.Array:
        total = pc.add(pc.multiply(_as_double(columns[0]), float(1 << _WORD)), _as_double(columns[1]))
        return pc.divide(total, _as_double(count))


@dataclass(frozen=True)
class Decimals:
    """Decimals, added in 38 digits, or in 76 where those could overflow."""

    incoming: pa.DataType
    result: pa.DataType
    """Of a sum or an average."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        wide = self.incoming.precision > _WIDE_PRECISION
        return (pa.decimal256(76, self.incoming.scale) if wide else pa.decimal128(38, self.incoming.scale),)

    def split(self, values: pa.Array) -> list[pa.Array]:
        return [values.cast(self.types[0])]

    def total(self, columns: Sequence[pa.Array]) -> pa.Array:
        return _cast_or_null(columns[0], self.result)

    def divide(self, columns: Sequence[pa.Array], count: pa.Array) -> pa.Array:
        """Rounded half up. The quotient is cut off some 20 digits after the point, which does not change the rounding."""
        total = _cast_or_null(columns[0], pa.decimal128(38, self.incoming.scale)).cast(pa.decimal256(38, self.incoming.scale))
        quotient = pc.divide(total, count.cast(pa.decimal256(19, 0)))
        return _cast_or_null(pc.round(quotient, self.result.scale, "half_towards_infinity"), self.result)


@dataclass(frozen=True)
class Sum(MergedByFunctions):
    """``sum(x)``: null where it overflows, whatever the order of the numbers."""

    argument: AggregateArgument
    form: SumForm

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.form.types

    @property
    def functions(self) -> tuple[str, ...]:
        return ("sum",) * len(self.form.types)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return self.form.split(self.argument.values(batch))

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return self.form.total(columns)


@dataclass(frozen=True)
class Average(MergedByFunctions):
    """``avg(x)``: the columns of the sum, then the number of values."""

    argument: AggregateArgument
    form: SumForm

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (*self.form.types, pa.int64())

    @property
    def functions(self) -> tuple[str, ...]:
        return ("sum",) * len(self.types)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values = self.argument.values(batch)
        return [*self.form.split(values), pc.is_valid(values).cast(pa.int64())]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        *total, count = columns
        return self.form.divide(total, pc.max_element_wise(count, 1))


def sum_form(incoming: pa.DataType, result: pa.DataType) -> SumForm:
    """How numbers of a type are added, for a sum or an average of the type ``result``."""
    if pa.types.is_decimal(incoming):
        return Decimals(incoming, result)
    if pa.types.is_floating(incoming):
        return Floats()
    return Integers() if incoming.bit_width <= _WORD else BigIntegers()


def _as_double(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.float64(), safe=False)


def _cast_or_null(decimals: pa.Array, result: pa.DataType) -> pa.Array:
    """Decimals as a type of the same scale or a smaller one, in which the digits cut off are zeros; null where too large."""
    wide = decimals.cast(pa.decimal256(76, decimals.type.scale))
    largest = pa.scalar(Decimal((0, (9,) * result.precision, -result.scale)), result).cast(wide.type)
    return pc.if_else(pc.greater(pc.abs(wide), largest), pa.scalar(None, wide.type), wide).cast(result)
