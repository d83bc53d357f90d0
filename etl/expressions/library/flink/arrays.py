"""Flink's functions of arrays. Python computes those that Arrow has no function for, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.constructors import ONE_ARRAY, TWO_ARRAYS, common_type
from etl.expressions.library.flink.types import common
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import by_value
from etl.expressions.widening import BOOLEAN, INT32


def _unique(items: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    known_keys: set[Any] = set()
    for item in items:
        key = repr(item) if isinstance(item, list | dict) else item
        if key not in known_keys:
            known_keys.add(key)
            found.append(item)
    return found


def of_array(function: Callable[..., Any], type_: Callable[[pa.DataType], pa.DataType] | None = None) -> Callable[..., BoundNode]:
    """A function of an array; further arrays are cast to its type."""

    def build(value: BoundNode, *more: BoundNode) -> BoundNode:
        arrays = [value, *(one for one in more if pa.types.is_list(one.type))]
        known = common_type(arrays, "arrays")
        given = [cast(one, known) if one in arrays else one for one in (value, *more)]
        return by_value(type_(known) if type_ else known, function, fails=False)(*given)

    return build


def _with_item(function: Callable[..., Any], type_: pa.DataType | None = None, *, nulls: bool = True) -> Callable[..., BoundNode]:
    """A function of an array and an element, which may be null."""

    def build(value: BoundNode, item: BoundNode) -> BoundNode:
        inner = value.type.value_type
        item_type = common([inner, item.type])
        if item_type is None:
            raise MisuseError(f"the array has elements of type {type_name(inner)}, and this is {type_name(item.type)}")
        known = pa.list_(item_type)

        def one(items: Any, element: Any) -> Any:
            return None if items is None or (element is None and not nulls) else function(items, element)

        return by_value(type_ or known, one, nulls=True, fails=False)(cast(value, known), cast(item, item_type))

    return build


def _slice(items: list[Any], first: int, last: int | None = None) -> list[Any]:
    size = len(items)
    begin = first if first > 0 else size + first + 1 if first < 0 else 1
    end = size if last is None else last if last > 0 else size + last + 1 if last < 0 else 1
    begin, end = max(begin, 1), min(end, size)
    return items[begin - 1 : end] if begin <= end and begin <= size and end > 0 else []


def ordered_type(type_: pa.DataType) -> pa.DataType:
    """The type of an array's elements. Raises MisuseError for elements that have no order."""
    if pa.types.is_nested(type_.value_type):
        raise MisuseError(f"the elements are single values, and these are of type {type_name(type_.value_type)}")
    return type_.value_type


def _sort(items: list[Any], ascending: bool = True, null_first: bool | None = None) -> list[Any]:
    null_first = ascending if null_first is None else null_first
    nulls = [item for item in items if item is None]
    found = sorted((item for item in items if item is not None), reverse=not ascending)
    return nulls + found if null_first else found + nulls


def _except(items: list[Any], other: list[Any]) -> list[Any]:
    return [item for item in _unique(items) if item not in other]


def concat(*values: BoundNode) -> BoundNode:
    known = common_type(values, "arrays")
    return by_value(known, lambda *lists: [item for items in lists for item in items], fails=False)(
        *(cast(one, known) for one in values)
    )


_ARRAY = "the array's type"


FUNCTIONS = (
    flink_function(
        "array_contains",
        "value: array, item: any",
        "boolean",
        _with_item(lambda items, item: item in items, BOOLEAN),
        "Whether an element is in an array.",
        "flink_array_contains(flink_array(1, 2), 2)",
        True,
        null="null if the array is null",
        loops=True,
    ),
    flink_function(
        "array_append",
        "value: array, item: any",
        _ARRAY,
        _with_item(lambda items, item: [*items, item]),
        "The array with an element after its last.",
        "flink_array_append(flink_array(1), 2)",
        [1, 2],
        null="null if the array is null",
        loops=True,
    ),
    flink_function(
        "array_prepend",
        "value: array, item: any",
        _ARRAY,
        _with_item(lambda items, item: [item, *items]),
        "The array with an element before its first.",
        "flink_array_prepend(flink_array(1), 2)",
        [2, 1],
        null="null if the array is null",
        loops=True,
    ),
    flink_function(
        "array_concat",
        "value: array, more: array...",
        _ARRAY,
        concat,
        "The elements of arrays, one array after the other.",
        "flink_array_concat(flink_array(1), flink_array(2))",
        [1, 2],
        loops=True,
    ),
    flink_function(
        "array_distinct",
        ONE_ARRAY,
        _ARRAY,
        of_array(_unique),
        "The elements, each once.",
        "flink_array_distinct(flink_array(1, 1, 2))",
        [1, 2],
        loops=True,
    ),
    flink_function(
        "array_position",
        "value: array, item: any",
        "int",
        _with_item(lambda items, item: items.index(item) + 1 if item in items else 0, INT32, nulls=False),
        "The position of an element, from 1; 0 without it.",
        "flink_array_position(flink_array(1, 2), 2)",
        2,
        loops=True,
    ),
    flink_function(
        "array_remove",
        "value: array, item: any",
        _ARRAY,
        _with_item(
            lambda items, item: (
                [one for one in items if one != item and (one is not None or item is not None)]
                if item is None
                else [one for one in items if one is None or one != item]
            )
        ),
        "The array without an element.",
        "flink_array_remove(flink_array(1, 2), 2)",
        [1],
        null="null if the array is null",
        loops=True,
    ),
    flink_function(
        "array_reverse",
        ONE_ARRAY,
        _ARRAY,
        of_array(lambda items: items[::-1]),
        "The elements backwards.",
        "flink_array_reverse(flink_array(1, 2))",
        [2, 1],
        loops=True,
    ),
    flink_function(
        "array_slice",
        "value: array, first: integer, last: integer?",
        _ARRAY,
        of_array(_slice),
        "The elements between two positions, both included, counted from 1 or from the end.",
        "flink_array_slice(flink_array(1, 2, 3), 2, 3)",
        [2, 3],
        loops=True,
    ),
    flink_function(
        "array_sort",
        "value: array, ascending: boolean?, null_first: boolean?",
        _ARRAY,
        of_array(_sort, lambda type_: pa.list_(ordered_type(type_))),
        "The elements in order.",
        "flink_array_sort(flink_array(3, 1))",
        [1, 3],
        loops=True,
    ),
    flink_function(
        "array_union",
        TWO_ARRAYS,
        _ARRAY,
        of_array(lambda one, other: _unique([*one, *other])),
        "The elements of both arrays, each once.",
        "flink_array_union(flink_array(1), flink_array(1, 2))",
        [1, 2],
        loops=True,
    ),
    flink_function(
        "array_intersect",
        TWO_ARRAYS,
        _ARRAY,
        of_array(lambda one, other: [item for item in _unique(one) if item in other]),
        "The elements that are in both arrays, each once.",
        "flink_array_intersect(flink_array(1, 2), flink_array(2))",
        [2],
        loops=True,
    ),
    flink_function(
        "array_except",
        TWO_ARRAYS,
        _ARRAY,
        of_array(_except),
        "The elements that the second array lacks, each once.",
        "flink_array_except(flink_array(1, 2), flink_array(2))",
        [1],
        loops=True,
    ),
)
