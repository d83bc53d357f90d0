"""What scripts need between steps: elements of collections as rows, and JSON of collected pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode, apply_failing
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.json.paths import quote
from etl.expressions.library.flink.json.writing import to_json
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value, on_columns
from etl.expressions.output_limit import fail_largest
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import INTEGERS, NULL, STRING


def _unnest(value: BoundNode, count: BoundNode) -> BoundNode:
    if value.type == NULL:
        return value
    columns = int(count.value) if count.is_literal else 1
    if pa.types.is_map(value.type):
        return _unnest_map(value, columns)
    item = value.type.value_type
    if not pa.types.is_struct(item) and columns == 1:
        return value
    if not pa.types.is_struct(item) or item.num_fields != columns:
        found = f"rows of {item.num_fields} members" if pa.types.is_struct(item) else type_name(item)
        raise MisuseError(f"the elements are {found}, and {columns} columns are named")
    row = pa.struct([(f"c{number}", member.type) for number, member in enumerate(item, 1)])
    return on_columns(pa.list_(row), lambda lists: _with_elements(lists, _rename(lists.flatten(), row)), value)


def _rename(rows: pa.StructArray, row: pa.DataType) -> pa.StructArray:
    return pa.StructArray.from_arrays(rows.flatten(), fields=list(row)) if len(rows) else pa.array([], row)


def _unnest_map(value: BoundNode, columns: int) -> BoundNode:
    type_ = value.type
    if columns == 2:
        row = pa.struct([("c1", type_.key_type), ("c2", type_.item_type)])

        def entries(maps: pa.MapArray) -> pa.Array:
            lists = _lists(maps)
            return _with_elements(lists, pa.StructArray.from_arrays(lists.flatten().flatten(), fields=list(row)))

        return on_columns(pa.list_(row), entries, value)
    if columns != 1 or type_.item_type not in INTEGERS:
        raise MisuseError(f"a map gives two columns, a key and a value, and not {columns}")
    return apply_failing(pa.list_(type_.key_type), lambda rows, maps: _repeat(rows, broadcast(maps, rows.length)), value)


def _repeat(rows: ActiveRows, maps: pa.MapArray) -> pa.Array:
    """The keys of a multiset, each as often as its value says."""
    import numpy as np

    lists = _lists(maps)
    keys, counts = lists.flatten().flatten()
    times = np.maximum(counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), 0)
    owners = np.repeat(np.arange(len(lists)), pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))
    bytes_of_keys = -(-keys.nbytes // max(len(keys), 1)) + _REFERENCE_BYTES
    left_out = fail_largest(rows, np.bincount(owners, times.astype(np.float64), len(lists)) * bytes_of_keys)
    if left_out is not None:
        times[left_out.to_numpy(zero_copy_only=False)[owners]] = 0
    before = np.concatenate(([0], np.cumsum(times)))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = before[np.concatenate(([0], np.cumsum(lengths)))]
    elements = keys.take(pa.array(np.repeat(np.arange(len(keys)), times)))
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=mask)


_REFERENCE_BYTES = 8
"""Bytes that an element takes beside its value."""


def _lists(maps: pa.MapArray) -> pa.ListArray:
    entry = pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])
    return maps.cast(pa.list_(entry)) if not isinstance(maps, pa.ListArray) or pa.types.is_map(maps.type) else maps


def _with_elements(lists: pa.ListArray, elements: pa.Array) -> pa.ListArray:
    """Lists of the same lengths with other elements, which are those of the lists that are not null."""
    import numpy as np

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, mask=lists.is_null() if lists.null_count else None)


def _json_objectagg(pairs: BoundNode, on_null: BoundNode) -> BoundNode:
    item = pairs.type.value_type
    if not pa.types.is_struct(item) or item.num_fields != 2 or item[0].type not in (STRING, NULL):
        raise MisuseError("JSON_OBJECTAGG takes keys that are texts, and values")
    key, value = item[0].name, item[1]
    is_absent = on_null.is_literal and on_null.value == "absent"

    def make(found: list[dict[str, Any]], mode: str) -> str:
        members: dict[str, str] = {}
        for one in found:
            if one[key] is None:
                raise RowError("the key of a JSON object is null")
            if one[key] in members:
                raise RowError(f"the key {one[key]!r} is there twice, and keys of JSON_OBJECTAGG are unique")
            if one[value.name] is not None or not is_absent:
                members[one[key]] = to_json(value.type, one[value.name])
        return "{" + ",".join(f"{quote(name)}:{members[name]}" for name in sorted(members)) + "}"

    return by_value(STRING, make)(pairs, on_null)


FUNCTIONS = (
    flink_function(
        "unnest",
        "value: array|map, columns: integer",
        "array",
        _unnest,
        "The elements that UNNEST makes rows of: of a map and of rows structs with members `c1`, `c2` …, of a multiset each "
        "value as often as it is there.",
        "flink_unnest(flink_map('a', 2), 1)",
        ["a", "a"],
    ),
    flink_function(
        "json_objectagg",
        "pairs: array, on_null: string",
        "string",
        _json_objectagg,
        "JSON of collected rows of a key and a value; on_null is `null` or `absent`.",
        "flink_json_objectagg(flink_array(flink_row('a', 1)), 'null')",
        '{"a":1}',
        errors="a key that is null, or there twice",
        loops=True,
    ),
)
"""Functions that statements of scripts become."""
