"""Script functions of JSON: of texts that hold it, and of arrays. Values come as texts, objects and arrays as JSON.

Python computes them for each distinct text of a batch; JSON that cannot be read is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.library.rsql.arguments import constant_text, is_flag, is_numeric, text_of
from etl.expressions.widening import INT32, STRING

_NULL = "null if an argument is null or no JSON"
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def _read(value: Any) -> Any:
    """The value of a JSON text, or a nested value as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | list | dict):
        return _json(value)
    return str(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _null_if_bad(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None

    return call


def _at_path(value: Any, path: str) -> str | None:
    found = _read(value)
    for name, index in _STEP.findall(path.strip().removeprefix("$")):
        found = found[int(index)] if index else found.get(name)
    return _text(found)


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in _read(value) if isinstance(row, dict)]


def _order(value: Any) -> tuple[int, Any]:
    """Numbers by their value, before texts."""
    if isinstance(value, bool | int | float):
        return 0, value
    try:
        return 0, float(value)
    except ValueError:
        return 1, str(value)


def _extreme(choose: Callable[..., Any], value: Any, key: str) -> str | None:
    found = [row[key] for row in _rows(value) if row.get(key) is not None]
    return _text(choose(found, key=_order)) if found else None


def _last(value: Any, key: str) -> str | None:
    rows = _rows(value)
    return _text(rows[-1].get(key)) if rows else None


def _without_last(value: Any, key: str) -> str | None:
    rows = _rows(value)
    return _json([row for row in rows if row.get(key) != rows[-1].get(key)]) if rows else _json(rows)


def _by_column(value: Any, key: Any, column: Any) -> str:
    """An object with a member for each row; rows without the key are left out."""
    if value is None:
        return "{}"
    found = {str(row[key]): _text(row.get(column)) for row in _rows(value) if key is not None and row.get(key) is not None}
    return _json(dict(sorted(found.items())))


def _in_list(value: Any, key: str, quote: str) -> str:
    found = [_text(row.get(key)) or "" for row in _rows(value)]
    if quote.lower() == "true":
        return ",".join("'" + one.replace("'", "''") + "'" for one in found)
    return ",".join(found)


def _size(value: Any) -> int | None:
    found = _read(value)
    return len(found) if isinstance(found, list | dict) else None


def _item(value: Any, key: Any) -> str | None:
    found = _read(value)
    if isinstance(found, list) and found and isinstance(found[0], tuple):  # a map
        found = dict(found)
    return _text(found[int(key)] if isinstance(found, list) else found.get(str(key)))


def _valid(value: Any) -> str | None:
    found = _read(value)
    return _json(found) if isinstance(found, dict | list) else None


def _added(value: Any, *pairs: Any) -> str | None:
    found = _read(value)
    if not isinstance(found, dict):
        return None
    return _json(found | dict(zip(pairs[::2], pairs[1::2], strict=False)))


def _removed(value: Any, *names: str) -> str | None:
    found = _read(value)
    return _json({name: one for name, one in found.items() if name not in names})


def _object(*pairs: Any) -> str:
    """An object of names and values; those that are null are left out."""
    return _json({name: value for name, value in zip(pairs[::2], pairs[1::2], strict=False) if value is not None})


def _nested(*pairs: Any) -> str:
    """An object in which dotted names are members of inner objects."""
    found: dict[str, Any] = {}
    for name, value in zip(pairs[::2], pairs[1::2], strict=False):
        *outer, last = name.split(".")
        node = found
        for part in outer:
            node = node.setdefault(part, {})
        if value is not None:
            node[last] = value
    return _json(found)


def _objects(names: list[str], value: Any) -> list[dict[str, Any]]:
    return [{f"c{number}": _text(row.get(name)) for number, name in enumerate(names, 1)} for row in _rows(value)]


def _json_rows(value: BoundNode, *names: BoundNode) -> BoundNode:
    keys = [constant_text(name, "the name of a member") for name in names]
    row = pa.struct([(f"c{number}", STRING) for number in range(1, len(keys) + 1)])
    return by_value(pa.list_(row), _null_if_bad(partial(_objects, keys)), fails=False)(_nested_or_text(value))


def _of_json(type_: pa.DataType, function: Callable[..., Any], *, nulls: bool = False) -> Callable[..., BoundNode]:
    build = by_value(type_, _null_if_bad(function), nulls=nulls, fails=False)
    return lambda value, *rest: build(_nested_or_text(value), *map(text_of, rest))


def _of_values(type_: pa.DataType, function: Callable[..., Any]) -> Callable[..., BoundNode]:
    """Numbers, booleans and arrays stay what they are."""
    build = by_value(type_, _null_if_bad(function), nulls=True, fails=False)
    return lambda *args: build(*map(_plain, args))


def _nested_or_text(value: BoundNode) -> BoundNode:
    return value if pa.types.is_nested(value.type) else text_of(value)


def _plain(value: BoundNode) -> BoundNode:
    return value if is_numeric(value) or is_flag(value) or pa.types.is_nested(value.type) else text_of(value)


def _entry(
    name: str,
    arguments: str,
    result: str,
    build: Callable[..., BoundNode],
    about: str,
    example: str,
    gives: Any,
    null: str = _NULL,
) -> LibraryFunction:
    return LibraryFunction(f"rsql_{name}", arguments, result, build, about, f"rsql_{example}", gives, null=null, loops=True)


_ROWS = """'[{"k":"a","n":9},{"k":"b","n":10}]'"""

FUNCTIONS = (
    _entry(
        "json_value",
        "json: any, path: string",
        "string",
        _of_json(STRING, _at_path),
        "The value at a path such as $.a.b[2].c or a.b, as a text.",
        """json_value('{"a":{"b":[1,2]}}', '$.a.b[1]')""",
        "2",
    ),
    _entry("array_size", "array: any", "int", _of_json(INT32, _size), "Number of elements.", "array_size('[1,2,3]')", 3),
    _entry("cardinality", "array: any", "int", _of_json(INT32, _size), "Number of elements.", "cardinality('[1,2,3]')", 3),
    _entry(
        "item",
        "value: any, key: any",
        "string",
        _of_json(STRING, _item),
        "An element of an array by its number from 0, or a member of an object or map, as a text.",
        """item('["x","y"]', 1)""",
        "y",
    ),
    _entry(
        "json",
        "text: any",
        "string",
        _of_json(STRING, _valid),
        "The JSON of an object or array; null for anything else.",
        "json('[1, 2]')",
        "[1,2]",
    ),
    _entry(
        "in_max",
        "rows: any, key: string",
        "string",
        _of_json(STRING, partial(_extreme, max)),
        "The largest value of a key in an array of objects; numbers count as numbers.",
        f"in_max({_ROWS}, 'n')",
        "10",
    ),
    _entry(
        "in_min",
        "rows: any, key: string",
        "string",
        _of_json(STRING, partial(_extreme, min)),
        "The smallest value of a key in an array of objects; numbers count as numbers.",
        f"in_min({_ROWS}, 'n')",
        "9",
    ),
    _entry(
        "max",
        "rows: any, key: string",
        "string",
        _of_json(STRING, _last),
        "The value of a key in the last object of an array.",
        f"max({_ROWS}, 'k')",
        "b",
    ),
    _entry(
        "without_max",
        "rows: any, key: string",
        "string",
        _of_json(STRING, _without_last),
        "An array without its last object and those with the same value of a key.",
        f"without_max({_ROWS}, 'k')",
        '[{"k":"a","n":9}]',
    ),
    _entry(
        "row2column",
        "rows: any, key: string, value: string",
        "string",
        _of_json(STRING, _by_column, nulls=True),
        "An object with a member for each object of an array: one member names it, another is its value.",
        f"row2column({_ROWS}, 'k', 'n')",
        '{"a":"9","b":"10"}',
        "an empty object for null",
    ),
    _entry(
        "insql",
        "rows: any, key: string, quoted: any",
        "string",
        _of_json(STRING, _in_list),
        "The values of a key in an array of objects, with commas between them, quoted or not.",
        f"insql({_ROWS}, 'k', true)",
        "'a','b'",
    ),
    _entry(
        "json_create",
        "names_and_values: any...",
        "string",
        _of_values(STRING, _object),
        "JSON of names and values.",
        "json_create('a', 'x', 'n', 7, 'z', null)",
        '{"a":"x","n":7}',
        "null values are left out",
    ),
    _entry(
        "json_rows",
        "json: any, names: string...",
        "an array of rows c1, c2 …",
        _json_rows,
        "A row for each object of an array, with the members of these names as texts.",
        f"array_size(rsql_json_rows({_ROWS}, 'k', 'n'))",
        2,
    ),
    _entry(
        "json_nested",
        "names_and_values: any...",
        "string",
        _of_values(STRING, _nested),
        "JSON of names and values; dotted names are members of inner objects.",
        "json_nested('a', 'x', 'm.z', 1)",
        '{"a":"x","m":{"z":1}}',
        "null values are left out",
    ),
    _entry(
        "jsonadd",
        "json: any, names_and_values: any...",
        "string",
        _of_values(STRING, _added),
        "An object with further members.",
        """jsonadd('{"a":1}', 'k', 'v')""",
        '{"a":1,"k":"v"}',
    ),
    _entry(
        "jsonremove",
        "json: any, names: any...",
        "string",
        _of_json(STRING, _removed),
        "An object without some members.",
        """jsonremove('{"a":1,"b":2}', 'a')""",
        '{"b":2}',
    ),
)
