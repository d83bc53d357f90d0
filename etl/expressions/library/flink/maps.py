"""Flink's functions of maps. Python computes those that Arrow has no function for, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.flink.constructors import check_keys
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value


def _of_map(type_: Callable[[pa.DataType], pa.DataType], function: Callable[[Any], Any]) -> Callable[[BoundNode], BoundNode]:
    return lambda value: by_value(type_(value.type), function, fails=False)(value)


def map_from_arrays(keys: BoundNode, values: BoundNode) -> BoundNode:
    check_keys(keys.type.value_type)

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


FUNCTIONS = (
    flink_function(
        "map_keys",
        "value: map",
        "an array",
        _of_map(lambda type_: pa.list_(type_.key_type), lambda found: [key for key, _ in found]),
        "The keys.",
        "flink_map_keys(flink_map('a', 1))",
        ["a"],
        loops=True,
    ),
    flink_function(
        "map_values",
        "value: map",
        "an array",
        _of_map(lambda type_: pa.list_(type_.item_type), lambda found: [item for _, item in found]),
        "The values.",
        "flink_map_values(flink_map('a', 1))",
        [1],
        loops=True,
    ),
    flink_function(
        "map_entries",
        "value: map",
        "an array of structs",
        _of_map(_entries_type, lambda found: [{"key": key, "value": item} for key, item in found]),
        "The pairs of key and value.",
        "flink_map_entries(flink_map('a', 1))",
        [{"key": "a", "value": 1}],
        loops=True,
    ),
    flink_function(
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
    flink_function(
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
