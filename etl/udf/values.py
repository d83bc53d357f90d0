"""Arrow arrays → the Python values that the user's functions get; the values that they return → arrays of declared types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last second that Python's datetime can hold."""
_DAY_1, _DAY_LAST = _YEAR_1 // 86_400, _YEAR_9999 // 86_400
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
"""Unit of a timestamp → units in a second."""


def to_array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of values of a type. Raises what `pa.array` raises, ValueError or TypeError."""
    return pa.array(_to_plain(values, type_), type_)


def to_python(array: pa.Array) -> list[Any]:
    """The values of an array. Times outside the years 1 to 9999, which Python cannot hold, are None as null is.

    Times are converted by Polars, which is ten times as fast as Arrow's scalars.
    """
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date32(array.type)):
        return _nested_to_python(array) if pa.types.is_nested(array.type) else array.to_pylist()
    import polars

    series: Any = polars.from_arrow(_within_python(array))
    return series.to_list()


def _within_python(array: pa.Array) -> pa.Array:
    """Times or dates with null for those outside the years 1 to 9999."""
    if pa.types.is_date32(array.type):
        numbers, first, last = array.view(pa.int32()), _DAY_1, _DAY_LAST
    elif array.type.unit == "ns":
        return array  # 64 bits of nanoseconds end in the year 2262
    else:
        unit = _UNITS[array.type.unit]
        numbers, first, last = array.view(pa.int64()), _YEAR_1 * unit, (_YEAR_9999 + 1) * unit - 1
    is_held = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return array if pc.all(is_held, min_count=0).as_py() else pc.if_else(is_held, array, pa.scalar(None, array.type))


def _nested_to_python(array: pa.Array) -> list[Any]:
    try:
        return array.to_pylist()
    except (OverflowError, ValueError):  # a time that Python cannot hold; such batches are rare, so value by value is enough
        return [_scalar_to_python(one) for one in array]


def _scalar_to_python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if isinstance(value, pa.MapScalar):
            return [(_scalar_to_python(one["key"]), _scalar_to_python(one["value"])) for one in value.values]
        if isinstance(value, pa.StructScalar):
            return {name: _scalar_to_python(value[name]) for name in value}
        return [_scalar_to_python(one) for one in value.values] if isinstance(value, pa.ListScalar) else None


def _to_plain(values: list[Any], type_: pa.DataType) -> list[Any]:
    """Values in which tuples and instances of classes are mappings, where the type is a struct or holds some."""
    if pa.types.is_struct(type_):
        return [_struct(value, type_) for value in values]
    if pa.types.is_list(type_) and pa.types.is_nested(type_.value_type):
        return [None if value is None else _to_plain(list(value), type_.value_type) for value in values]
    return values


def _struct(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    names = [member.name for member in type_]
    if isinstance(value, Mapping):
        found = [value.get(name) for name in names]
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):  # a NamedTuple, too
        if len(value) != len(names):
            raise ValueError(f"{len(value)} values for {len(names)} members")
        found = list(value)
    elif all(hasattr(value, name) for name in names):
        found = [getattr(value, name) for name in names]
    else:
        raise TypeError(f"it lacks some of {', '.join(names)}")
    return {member.name: _to_plain([one], member.type)[0] for member, one in zip(type_, found, strict=True)}
