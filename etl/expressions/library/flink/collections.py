"""Flink's functions of arrays, maps and rows. Python computes those that Arrow has no function for, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value, on_columns
from etl.expressions.widening import BOOLEAN, DOUBLE, FLOATS, INT32, INT64, INTEGERS, NULL, STRING, is_number


def _common(values: Iterable[BoundNode], what: str) -> pa.DataType:
    type_ = common([value.type for value in values])
    if type_ is None:
        raise MisuseError(f"the {what} have no type in common")
    return type_


# ── Constructors ──────────────────────────────────────────────────────────────────────────────────


def array(*items: BoundNode) -> BoundNode:
    """``ARRAY[…]``."""
    type_ = _common(items, "elements of an array")
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
    keys, values = _common(parts[::2], "keys of a map"), _common(parts[1::2], "values of a map")
    _check_keys(keys)
    given = [cast(part, values if at % 2 else keys) for at, part in enumerate(parts)]

    def make(*found: Any) -> list[tuple[Any, Any]]:
        return list(dict(zip(found[::2], found[1::2], strict=True)).items())

    return by_value(pa.map_(keys, values), make, nulls=True, fails=False)(*given)


def _check_keys(type_: pa.DataType) -> None:
    """Raise MisuseError for keys of a map that have values inside."""
    if pa.types.is_nested(type_):
        raise MisuseError(f"the keys of a map are single values, and these are of type {type_name(type_)}")


def row(*members: BoundNode) -> BoundNode:
    """``ROW(…)``: members have the names EXPR$0, EXPR$1 …"""
    fields = [pa.field(f"EXPR${number}", member.type) for number, member in enumerate(members)]
    target = pa.struct(fields)
    return on_columns(target, lambda *columns: pa.StructArray.from_arrays(list(columns), fields=fields), *members)


# ── Elements ──────────────────────────────────────────────────────────────────────────────────────


def element_at(value: BoundNode, key: BoundNode) -> BoundNode:
    """``array[1]``, ``map['a']``; null where there is none."""
    if pa.types.is_map(value.type):
        return by_value(value.type.item_type, lambda found, wanted: dict(found).get(wanted), fails=False)(
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


# ── Arrays ────────────────────────────────────────────────────────────────────────────────────────


def _unique(items: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    for item in items:
        key = repr(item) if isinstance(item, list | dict) else item
        if key not in seen:
            seen.add(key)
            found.append(item)
    return found


def _of_array(
    function: Callable[..., Any], type_: Callable[[pa.DataType], pa.DataType] | None = None
) -> Callable[..., BoundNode]:
    """A function of an array; further arrays are cast to its type."""

    def build(value: BoundNode, *more: BoundNode) -> BoundNode:
        arrays = [value, *(one for one in more if pa.types.is_list(one.type))]
        known = _common(arrays, "arrays")
        given = [cast(one, known) if one in arrays else one for one in (value, *more)]
        return by_value(type_(known) if type_ else known, function, fails=False)(*given)

    return build


def _with_item(function: Callable[..., Any], type_: pa.DataType | None = None, *, nulls: bool = True) -> Callable[..., BoundNode]:
    """A function of an array and an element, which may be null."""

    def build(value: BoundNode, item: BoundNode) -> BoundNode:
        inner = value.type.value_type
        wanted = common([inner, item.type])
        if wanted is None:
            raise MisuseError(f"the array has elements of type {type_name(inner)}, and this is {type_name(item.type)}")
        known = pa.list_(wanted)

        def one(items: Any, element: Any) -> Any:
            return None if items is None or (element is None and not nulls) else function(items, element)

        return by_value(type_ or known, one, nulls=True, fails=False)(cast(value, known), cast(item, wanted))

    return build


def _slice(items: list[Any], first: int, last: int | None = None) -> list[Any]:
    size = len(items)
    begin = first if first > 0 else size + first + 1 if first < 0 else 1
    end = size if last is None else last if last > 0 else size + last + 1 if last < 0 else 1
    begin, end = max(begin, 1), min(end, size)
    return items[begin - 1 : end] if begin <= end and begin <= size and end > 0 else []


def _sort(items: list[Any], ascending: bool = True, null_first: bool | None = None) -> list[Any]:
    null_first = ascending if null_first is None else null_first
    nulls = [item for item in items if item is None]
    found = sorted((item for item in items if item is not None), reverse=not ascending)
    return nulls + found if null_first else found + nulls


def _without_nulls(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def one(items: list[Any]) -> Any:
        found = [item for item in items if item is not None]
        return choose(found) if found else None

    return one


def join_elements(items: BoundNode, *texts: BoundNode) -> BoundNode:
    """``ARRAY_JOIN``."""
    if (item := items.type.value_type) not in (STRING, NULL):
        raise MisuseError(f"the elements are texts, and these are of type {type_name(item)}")
    return by_value(STRING, _join, fails=False)(items, *texts)


def _join(items: list[str | None], separator: str, missing: str | None = None) -> str:
    return separator.join(missing if item is None else item for item in items if item is not None or missing is not None)  # type: ignore[misc]


def _except(items: list[Any], other: list[Any]) -> list[Any]:
    return [item for item in _unique(items) if item not in other]


def concat(*values: BoundNode) -> BoundNode:
    known = _common(values, "arrays")
    return by_value(known, lambda *lists: [item for items in lists for item in items], fails=False)(
        *(cast(one, known) for one in values)
    )


# ── Maps ──────────────────────────────────────────────────────────────────────────────────────────


def _of_map(type_: Callable[[pa.DataType], pa.DataType], function: Callable[[Any], Any]) -> Callable[[BoundNode], BoundNode]:
    return lambda value: by_value(type_(value.type), function, fails=False)(value)


def map_from_arrays(keys: BoundNode, values: BoundNode) -> BoundNode:
    _check_keys(keys.type.value_type)

    def make(names: list[Any], items: list[Any]) -> list[tuple[Any, Any]]:
        if len(names) != len(items):
            raise RowError("a map needs as many keys as values")
        return list(dict(zip(names, items, strict=True)).items())

    return by_value(pa.map_(keys.type.value_type, values.type.value_type), make)(keys, values)


def map_union(*maps: BoundNode) -> BoundNode:
    def make(*found: Any) -> list[tuple[Any, Any]]:
        merged: dict[Any, Any] = {}
        for pairs in found:
            merged |= dict(pairs)
        return list(merged.items())

    return by_value(maps[0].type, make, fails=False)(*maps)


def _entries_type(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))


def _sum(items: list[Any]) -> Any:
    found = [item for item in items if item is not None]
    return sum(found) if found else None


def _average(items: list[Any]) -> float | None:
    found = [item for item in items if item is not None]
    return float(sum(found)) / len(found) if found else None


def _sum_type(type_: pa.DataType) -> pa.DataType:
    item = type_.value_type
    if not is_number(item) and item != NULL:
        raise MisuseError(f"the elements are numbers, and these are of type {type_name(item)}")
    return INT64 if item in INTEGERS else DOUBLE if item in FLOATS else item


def _average_type(type_: pa.DataType) -> pa.DataType:
    _sum_type(type_)
    return DOUBLE


def multiset(value: BoundNode) -> BoundNode:
    """Each distinct element and how often it occurs; empty of null."""
    if not pa.types.is_list(value.type):
        raise MisuseError(f"a multiset is made of an array, and this is {type_name(value.type)}")

    def make(items: list[Any] | None) -> list[tuple[Any, int]]:
        counts: dict[Any, int] = {}
        for item in items or ():
            counts[item] = counts.get(item, 0) + 1
        return list(counts.items())

    return by_value(pa.map_(value.type.value_type, INT32), make, nulls=True, fails=False)(value)


def _entry(
    name: str, arguments: str, result: str, build: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    return LibraryFunction(f"flink_{name}", arguments, result, build, about, example, gives, **more)


_ARRAY = "the array's type"
_ONE, _TWO = "value: array", "value: array, other: array"

ARRAY_SUMS = (
    LibraryFunction(
        "array_sum",
        _ONE,
        "the elements' type, at least bigint",
        _of_array(_sum, _sum_type),
        "The sum of an array's elements.",
        "array_sum(array(1, 2))",
        3,
        null="null for null and an array without values",
        loops=True,
    ),
    LibraryFunction(
        "array_average",
        _ONE,
        "double",
        _of_array(_average, _average_type),
        "The average of an array's elements.",
        "array_average(array(1, 2))",
        1.5,
        null="null for null and an array without values",
        loops=True,
    ),
)

FUNCTIONS = (
    _entry(
        "multiset",
        _ONE,
        "a map",
        multiset,
        "The distinct elements of an array, and how often each occurs: Flink's MULTISET.",
        "flink_multiset(flink_array('a', 'a'))",
        [("a", 2)],
        null="empty if the array is null",
        loops=True,
    ),
    _entry(
        "array",
        "item: any, more: any...",
        "an array",
        array,
        "An array of values; all are cast to their common type.",
        "flink_array(1, 2)",
        [1, 2],
        null="a null is an element",
    ),
    _entry(
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
    _entry(
        "row",
        "member: any, more: any...",
        "a struct",
        row,
        "A row of values.",
        "flink_row(1, 'a')",
        {"EXPR$0": 1, "EXPR$1": "a"},
        null="a null is a member",
    ),
    _entry(
        "element_at",
        "value: array|map, key: any",
        "the element's type",
        element_at,
        "The element of an array, counted from 1, or the value of a key.",
        "flink_element_at(flink_array(7, 8), 2)",
        8,
        null="null without such an element",
    ),
    _entry(
        "element",
        _ONE,
        "the element's type",
        element,
        "The only element of an array.",
        "flink_element(flink_array(7))",
        7,
        errors="an array with several elements",
        loops=True,
    ),
    _entry(
        "cardinality",
        "value: array|map",
        "int",
        cardinality,
        "The number of elements.",
        "flink_cardinality(flink_array(1, 2))",
        2,
    ),
    _entry(
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
    _entry(
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
    _entry(
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
    _entry(
        "array_concat",
        "value: array, more: array...",
        _ARRAY,
        concat,
        "The elements of arrays, one array after the other.",
        "flink_array_concat(flink_array(1), flink_array(2))",
        [1, 2],
        loops=True,
    ),
    _entry(
        "array_distinct",
        _ONE,
        _ARRAY,
        _of_array(_unique),
        "The elements, each once.",
        "flink_array_distinct(flink_array(1, 1, 2))",
        [1, 2],
        loops=True,
    ),
    _entry(
        "array_position",
        "value: array, item: any",
        "int",
        _with_item(lambda items, item: items.index(item) + 1 if item in items else 0, INT32, nulls=False),
        "The position of an element, from 1; 0 without it.",
        "flink_array_position(flink_array(1, 2), 2)",
        2,
        loops=True,
    ),
    _entry(
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
    _entry(
        "array_reverse",
        _ONE,
        _ARRAY,
        _of_array(lambda items: items[::-1]),
        "The elements backwards.",
        "flink_array_reverse(flink_array(1, 2))",
        [2, 1],
        loops=True,
    ),
    _entry(
        "array_slice",
        "value: array, first: integer, last: integer?",
        _ARRAY,
        _of_array(_slice),
        "The elements between two positions, both included, counted from 1 or from the end.",
        "flink_array_slice(flink_array(1, 2, 3), 2, 3)",
        [2, 3],
        loops=True,
    ),
    _entry(
        "array_sort",
        "value: array, ascending: boolean?, null_first: boolean?",
        _ARRAY,
        _of_array(_sort),
        "The elements in order.",
        "flink_array_sort(flink_array(3, 1))",
        [1, 3],
        loops=True,
    ),
    _entry(
        "array_union",
        _TWO,
        _ARRAY,
        _of_array(lambda one, other: _unique([*one, *other])),
        "The elements of both arrays, each once.",
        "flink_array_union(flink_array(1), flink_array(1, 2))",
        [1, 2],
        loops=True,
    ),
    _entry(
        "array_intersect",
        _TWO,
        _ARRAY,
        _of_array(lambda one, other: [item for item in _unique(one) if item in other]),
        "The elements that are in both arrays, each once.",
        "flink_array_intersect(flink_array(1, 2), flink_array(2))",
        [2],
        loops=True,
    ),
    _entry(
        "array_except",
        _TWO,
        _ARRAY,
        _of_array(_except),
        "The elements that the second array lacks, each once.",
        "flink_array_except(flink_array(1, 2), flink_array(2))",
        [1],
        loops=True,
    ),
    _entry(
        "array_max",
        _ONE,
        "the element's type",
        _of_array(_without_nulls(max), lambda type_: type_.value_type),
        "The greatest element.",
        "flink_array_max(flink_array(1, 3))",
        3,
        loops=True,
    ),
    _entry(
        "array_min",
        _ONE,
        "the element's type",
        _of_array(_without_nulls(min), lambda type_: type_.value_type),
        "The least element.",
        "flink_array_min(flink_array(1, 3))",
        1,
        loops=True,
    ),
    _entry(
        "array_join",
        "value: array, separator: string, missing: string?",
        "string",
        join_elements,
        "The elements as one text.",
        "flink_array_join(flink_array('a', 'b'), '-')",
        "a-b",
        null="null if the array is null; null elements are left out",
        loops=True,
    ),
    _entry(
        "map_keys",
        "value: map",
        "an array",
        _of_map(lambda type_: pa.list_(type_.key_type), lambda found: [key for key, _ in found]),
        "The keys.",
        "flink_map_keys(flink_map('a', 1))",
        ["a"],
        loops=True,
    ),
    _entry(
        "map_values",
        "value: map",
        "an array",
        _of_map(lambda type_: pa.list_(type_.item_type), lambda found: [item for _, item in found]),
        "The values.",
        "flink_map_values(flink_map('a', 1))",
        [1],
        loops=True,
    ),
    _entry(
        "map_entries",
        "value: map",
        "an array of structs",
        _of_map(_entries_type, lambda found: [{"key": key, "value": item} for key, item in found]),
        "The pairs of key and value.",
        "flink_map_entries(flink_map('a', 1))",
        [{"key": "a", "value": 1}],
        loops=True,
    ),
    _entry(
        "map_from_arrays",
        "keys: array, values: array",
        "a map",
        map_from_arrays,
        "A map of keys and their values.",
        "flink_map_from_arrays(flink_array('a'), flink_array(1))",
        [("a", 1)],
        errors="arrays of different lengths",
        loops=True,
    ),
    _entry(
        "map_union",
        "value: map, more: map...",
        "the map's type",
        map_union,
        "The pairs of all maps; later ones count.",
        "flink_map_union(flink_map('a', 1), flink_map('a', 2))",
        [("a", 2)],
        loops=True,
    ),
)
