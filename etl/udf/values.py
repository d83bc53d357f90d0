"""Arrow arrays → the Python values that the user's functions get; the values that they return → arrays of declared types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.columns import python_values

WRONG_VALUES = (Exception, SystemExit)
"""Errors of converting values of another type than declared, which may be of the user's own classes."""


def to_array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of values of a type. Raises one of `WRONG_VALUES`."""
    array = pa.array(_to_plain(values, type_), type_)
    if isinstance(array, pa.ChunkedArray):
        raise ValueError("the results of these events have more than 2 GiB")
    return array


def to_python(array: pa.Array) -> list[Any]:
    """The values of an array; times by Polars, which is ten times as fast as Arrow's scalars."""
    if not python_values.is_time(array.type):
        return python_values.to_python(array)
    import polars

    series: Any = polars.from_arrow(python_values.within_python(array))
    return series.to_list()


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
