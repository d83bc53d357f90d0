"""Flink's ``ARRAY[…]``, ``MAP[…]``, ``ROW(…)`` and multisets, and their elements."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.types import common
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value, on_columns
from etl.expressions.widening import BOOLEAN, INT32, INTEGERS


def common_type(values: Iterable[BoundNode], what: str) -> pa.DataType:
    type_ = common([value.type for value in values])
    if type_ is None:
        raise MisuseError(f"the {what} have no type in common")
    return type_


ONE_ARRAY, TWO_ARRAYS = "value: array", "value: array, other: array"


def array(*items: BoundNode) -> BoundNode:
    """``ARRAY[…]``."""
    type_ = common_type(items, "elements of an array")
    target = pa.list_(type_)
    return on_columns(target, partial(_interleave, target), *(cast(item, type_) for item in items))


def _interleave(target: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Rows of arrays of one length as lists."""
    import numpy as np

    length, count = len(columns[0]), len(columns)
    order = np.arange(count * length).reshape(count, length).T.ravel()
    items = pa.concat_arrays(list(columns)).take(pa.array(order))
    offsets = pa.array(np.arange(0, count * length + 1, count, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, items, type=target)


def map_(*parts: BoundNode) -> BoundNode:
    """``MAP[key, value, …]``; the last value of equal keys counts."""
    if len(parts) % 2:
        raise MisuseError("a map needs pairs of key and value")
    keys, values = common_type(parts[::2], "keys of a map"), common_type(parts[1::2], "values of a map")
    check_keys(keys)
    given = [cast(part, values if at % 2 else keys) for at, part in enumerate(parts)]

    def make(*found: Any) -> list[tuple[Any, Any]]:
        return list(dict(zip(found[::2], found[1::2], strict=True)).items())

    return by_value(pa.map_(keys, values), make, nulls=True, fails=False)(*given)


def check_keys(type_: pa.DataType) -> None:
    """Raise MisuseError for keys of a map that have values inside."""
    if pa.types.is_nested(type_):
        raise MisuseError(f"the keys of a map are single values, and these are of type {type_name(type_)}")


def row(*members: BoundNode) -> BoundNode:
    """``ROW(…)``: members have the names EXPR$0, EXPR$1 …"""
    fields = [pa.field(f"EXPR${number}", member.type) for number, member in enumerate(members)]
    target = pa.struct(fields)
    return on_columns(target, lambda *columns: pa.StructArray.from_arrays(list(columns), fields=fields), *members)


def element_at(value: BoundNode, key: BoundNode) -> BoundNode:
    """``array[1]``, ``map['a']``; null where there is none."""
    if pa.types.is_map(value.type):
        return by_value(value.type.item_type, lambda found, entry_key: dict(found).get(entry_key), fails=False)(
            value, cast(key, value.type.key_type)
        )
    if not pa.types.is_list(value.type) or key.type not in INTEGERS:
        raise MisuseError(f"elements are of arrays and maps, and this is {type_name(value.type)}")
    if key.is_literal and key.value < 1:
        raise MisuseError("elements of an array are counted from 1")
    return on_columns(value.type.value_type, _elements, value, cast(key, pa.int64()))


def _elements(lists: pa.Array, numbers: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(lists)
    good = pc.and_(pc.greater_equal(numbers, 1), pc.less_equal(numbers, pc.cast(lengths, pa.int64())))
    at = pc.add(pc.cast(lists.offsets[:-1], pa.int64()), pc.subtract(numbers, 1))
    return lists.values.take(pc.if_else(pc.fill_null(good, False), at, pa.scalar(None, pa.int64())))


def _element(items: list[Any]) -> Any:
    if len(items) > 1:
        raise RowError("the array has more than one element")
    return items[0] if items else None


def element(value: BoundNode) -> BoundNode:
    return by_value(value.type.value_type, _element)(value)


def cardinality(value: BoundNode) -> BoundNode:
    if pa.types.is_map(value.type):
        return by_value(INT32, len, fails=False)(value)
    return b.apply(INT32, lambda x: pc.list_value_length(x), value)


def multiset(value: BoundNode) -> BoundNode:
    """Each distinct element and how often it occurs; empty of null."""
    if not pa.types.is_list(value.type):
        raise MisuseError(f"a multiset is made of an array, and this is {type_name(value.type)}")
    check_keys(value.type.value_type)

    def make(items: list[Any] | None) -> list[tuple[Any, int]]:
        counts: dict[Any, int] = {}
        for item in items or ():
            counts[item] = counts.get(item, 0) + 1
        return list(counts.items())

    return by_value(pa.map_(value.type.value_type, INT32), make, nulls=True, fails=False)(value)


def equal(value: BoundNode, other: BoundNode) -> BoundNode:
    """``=`` of arrays, maps or rows: all their parts are equal, or both null; the order of a map says nothing."""
    type_ = common_type((value, other), "values")
    is_map = pa.types.is_map(type_)

    def same(one: Any, another: Any) -> bool:
        return dict(one) == dict(another) if is_map else bool(one == another)

    return by_value(BOOLEAN, same, fails=False)(cast(value, type_), cast(other, type_))


FUNCTIONS = (
    flink_function(
        "equal",
        "value: any, other: any",
        "boolean",
        equal,
        "Whether two arrays, maps or rows have equal parts.",
        "flink_equal(flink_array(1, 2), flink_array(1, 2))",
        True,
        loops=True,
    ),
    flink_function(
        "multiset",
        ONE_ARRAY,
        "a map",
        multiset,
        "The distinct elements of an array, and how often each occurs: Flink's MULTISET.",
        "flink_multiset(flink_array('a', 'a'))",
        [("a", 2)],
        null="empty if the array is null",
        loops=True,
    ),
    flink_function(
        "array",
        "item: any, more: any...",
        "an array",
        array,
        "An array of values; all are cast to their common type.",
        "flink_array(1, 2)",
        [1, 2],
        null="a null is an element",
    ),
    flink_function(
        "map",
        "key: any, value: any, more: any...",
        "a map",
        map_,
        "A map of keys and values; the last value of equal keys counts.",
        "flink_map('a', 1)",
        [("a", 1)],
        null="a null is a value",
        loops=True,
    ),
    flink_function(
        "row",
        "member: any, more: any...",
        "a struct",
        row,
        "A row of values.",
        "flink_row(1, 'a')",
        {"EXPR$0": 1, "EXPR$1": "a"},
        null="a null is a member",
    ),
    flink_function(
        "element_at",
        "value: array|map, key: any",
        "the element's type",
        element_at,
        "The element of an array, counted from 1, or the value of a key.",
        "flink_element_at(flink_array(7, 8), 2)",
        8,
        null="null without such an element",
    ),
    flink_function(
        "element",
        ONE_ARRAY,
        "the element's type",
        element,
        "The only element of an array.",
        "flink_element(flink_array(7))",
        7,
        errors="an array with several elements",
        loops=True,
    ),
    flink_function(
        "cardinality",
        "value: array|map",
        "int",
        cardinality,
        "The number of elements.",
        "flink_cardinality(flink_array(1, 2))",
        2,
    ),
)
