"""Script functions of JSON: of texts that hold it, and of arrays. Values come as texts, objects and arrays as JSON.

Python computes them for each distinct text of a batch; JSON that cannot be read is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import rsql_functions
from etl.expressions.library.kernels import by_value
from etl.expressions.library.rsql.arguments import is_flag, is_numeric, text_of
from etl.expressions.widening import INT32, STRING

_NULL = "null if an argument is null or no JSON"


_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def read_json(value: Any) -> Any:
    """The value of a JSON text, or a nested value as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | list | dict):
        return write_json(value)
    return str(value)


def write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def null_if_bad(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None

    return call


def _at_path(value: Any, path: str) -> str | None:
    found = read_json(value)
    for name, index in _STEP.findall(path.strip().removeprefix("$")):
        found = found[int(index)] if index else found.get(name)
    return json_text(found)


def _size(value: Any) -> int | None:
    found = read_json(value)
    return len(found) if isinstance(found, list | dict) else None


def _item(value: Any, key: Any) -> str | None:
    found = read_json(value)
    if isinstance(found, list) and found and isinstance(found[0], tuple):  # a map
        found = dict(found)
    return json_text(found[int(key)] if isinstance(found, list) else found.get(str(key)))


def _valid(value: Any) -> str | None:
    found = read_json(value)
    return write_json(found) if isinstance(found, dict | list) else None


def _add(value: Any, *pairs: Any) -> str | None:
    found = read_json(value)
    if not isinstance(found, dict):
        return None
    return write_json(found | dict(zip(pairs[::2], pairs[1::2], strict=False)))


def _remove(value: Any, *names: str) -> str | None:
    found = read_json(value)
    return write_json({name: one for name, one in found.items() if name not in names})


def _object(*pairs: Any) -> str:
    """An object of names and values; those that are null are left out."""
    return write_json({name: value for name, value in zip(pairs[::2], pairs[1::2], strict=False) if value is not None})


def _nest_members(*pairs: Any) -> str:
    """An object in which dotted names are members of inner objects."""
    found: dict[str, Any] = {}
    for name, value in zip(pairs[::2], pairs[1::2], strict=False):
        *outer, last = name.split(".")
        node = found
        for part in outer:
            node = node.setdefault(part, {})
        if value is not None:
            node[last] = value
    return write_json(found)


def of_json(type_: pa.DataType, function: Callable[..., Any], *, nulls: bool = False) -> Callable[..., BoundNode]:
    build = by_value(type_, null_if_bad(function), nulls=nulls, fails=False)
    return lambda value, *rest: build(nested_or_text(value), *map(text_of, rest))


def _of_values(type_: pa.DataType, function: Callable[..., Any]) -> Callable[..., BoundNode]:
    """Numbers, booleans and arrays stay what they are."""
    build = by_value(type_, null_if_bad(function), nulls=True, fails=False)
    return lambda *args: build(*map(_plain, args))


def nested_or_text(value: BoundNode) -> BoundNode:
    return value if pa.types.is_nested(value.type) else text_of(value)


def _plain(value: BoundNode) -> BoundNode:
    return value if is_numeric(value) or is_flag(value) or pa.types.is_nested(value.type) else text_of(value)


json_function = rsql_functions(_NULL, loops=True)

SAMPLE_ROWS = """'[{"k":"a","n":9},{"k":"b","n":10}]'"""


FUNCTIONS = (
    json_function(
        "json_value",
        "json: any, path: string",
        "string",
        of_json(STRING, _at_path),
        "The value at a path such as $.a.b[2].c or a.b, as a text.",
        """json_value('{"a":{"b":[1,2]}}', '$.a.b[1]')""",
        "2",
    ),
    json_function("array_size", "array: any", "int", of_json(INT32, _size), "Number of elements.", "array_size('[1,2,3]')", 3),
    json_function("cardinality", "array: any", "int", of_json(INT32, _size), "Number of elements.", "cardinality('[1,2,3]')", 3),
    json_function(
        "item",
        "value: any, key: any",
        "string",
        of_json(STRING, _item),
        "An element of an array by its number from 0, or a member of an object or map, as a text.",
        """item('["x","y"]', 1)""",
        "y",
    ),
    json_function(
        "json",
        "text: any",
        "string",
        of_json(STRING, _valid),
        "The JSON of an object or array; null for anything else.",
        "json('[1, 2]')",
        "[1,2]",
    ),
    json_function(
        "json_create",
        "names_and_values: any...",
        "string",
        _of_values(STRING, _object),
        "JSON of names and values.",
        "json_create('a', 'x', 'n', 7, 'z', null)",
        '{"a":"x","n":7}',
        "null values are left out",
    ),
    json_function(
        "json_nested",
        "names_and_values: any...",
        "string",
        _of_values(STRING, _nest_members),
        "JSON of names and values; dotted names are members of inner objects.",
        "json_nested('a', 'x', 'm.z', 1)",
        '{"a":"x","m":{"z":1}}',
        "null values are left out",
    ),
    json_function(
        "jsonadd",
        "json: any, names_and_values: any...",
        "string",
        _of_values(STRING, _add),
        "An object with further members.",
        """jsonadd('{"a":1}', 'k', 'v')""",
        '{"a":1,"k":"v"}',
    ),
    json_function(
        "jsonremove",
        "json: any, names: any...",
        "string",
        of_json(STRING, _remove),
        "An object without some members.",
        """jsonremove('{"a":1,"b":2}', 'a')""",
        '{"b":2}',
    ),
)
