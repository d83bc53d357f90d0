"""Arrow values as values of Python. Times outside the years 1 to 9999, which Python cannot hold, are None as null is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last second that Python's datetime can hold."""
_DAY_1, _DAY_LAST = _YEAR_1 // 86_400, _YEAR_9999 // 86_400
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
"""Unit of a timestamp → units in a second."""


def to_python(array: pa.Array) -> list[Any]:
    """The values of an array."""
    if is_time(array.type):
        return within_python(array).to_pylist()
    if not pa.types.is_nested(array.type):
        return array.to_pylist()
    try:
        return array.to_pylist()
    except (OverflowError, ValueError):  # a time that Python cannot hold; such batches are rare, so value by value is enough
        return [scalar_to_python(one) for one in array]


def scalar_to_python(value: pa.Scalar) -> Any:
    """One value."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if isinstance(value, pa.MapScalar):
            return [(scalar_to_python(one["key"]), scalar_to_python(one["value"])) for one in value.values]
        if isinstance(value, pa.StructScalar):
            return {name: scalar_to_python(value[name]) for name in value}
        return [scalar_to_python(one) for one in value.values] if isinstance(value, pa.ListScalar) else None


def is_time(type_: pa.DataType) -> bool:
    """Whether values of a type may be times that Python cannot hold."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


def within_python(array: pa.Array) -> pa.Array:
    """Times or dates with null for those outside the years 1 to 9999."""
    if pa.types.is_date32(array.type):
        numbers, first, last = array.view(pa.int32()), _DAY_1, _DAY_LAST
    elif array.type.unit == "ns":
        return array  # 64 bits of nanoseconds end in the year 2262
    else:
        unit = _UNITS[array.type.unit]
        numbers, first, last = array.view(pa.int64()), _YEAR_1 * unit, (_YEAR_9999 + 1) * unit - 1
    is_within = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return array if pc.all(is_within, min_count=0).as_py() else pc.if_else(is_within, array, pa.scalar(None, array.type))
