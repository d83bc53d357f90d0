"""Script functions of lists of JSON objects, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.kernels import by_value
from etl.expressions.library.rsql.arguments import constant_text
from etl.expressions.library.rsql.json_values import (
    SAMPLE_ROWS,
    json_function,
    json_text,
    nested_or_text,
    null_if_bad,
    of_json,
    read_json,
    write_json,
)
from etl.expressions.widening import STRING


def _rows(value: Any) -> list[dict[str, Any]]:
    """The objects in a JSON array. Raises ValueError for a text that is not JSON."""
    return [row for row in read_json(value) if isinstance(row, dict)]


def _sort_key(value: Any) -> tuple[int, Any]:
    """Numbers by their value, before texts."""
    if isinstance(value, bool | int | float):
        return 0, value
    try:
        return 0, float(value)
    except ValueError:
        return 1, str(value)


def _extreme(choose: Callable[..., Any], value: Any, key: str) -> str | None:
    """The smallest or largest value of a member; ``choose`` is ``min`` or ``max``."""
    found = [row[key] for row in _rows(value) if row.get(key) is not None]
    return json_text(choose(found, key=_sort_key)) if found else None


def _last(value: Any, key: str) -> str | None:
    """A member of the last object."""
    rows = _rows(value)
    return json_text(rows[-1].get(key)) if rows else None


def _without_last(value: Any, key: str) -> str | None:
    """The objects whose member differs from that of the last one."""
    rows = _rows(value)
    return write_json([row for row in rows if row.get(key) != rows[-1].get(key)]) if rows else write_json(rows)


def _by_column(value: Any, key: Any, column: Any) -> str:
    """An object with a member for each row; rows without the key are left out."""
    if value is None:
        return "{}"
    found = {str(row[key]): json_text(row.get(column)) for row in _rows(value) if key is not None and row.get(key) is not None}
    return write_json(dict(sorted(found.items())))


def _in_list(value: Any, key: str, quote: str) -> str:
    """The values of a member as the list of SQL's IN, in quotes if ``quote`` is true."""
    found = [json_text(row.get(key)) or "" for row in _rows(value)]
    if quote.lower() == "true":
        return ",".join("'" + one.replace("'", "''") + "'" for one in found)
    return ",".join(found)


def _objects(names: list[str], value: Any) -> list[dict[str, Any]]:
    """Rows with the columns c1, c2 …: the members of these names."""
    return [{f"c{number}": json_text(row.get(name)) for number, name in enumerate(names, 1)} for row in _rows(value)]


def _json_rows(value: BoundNode, *names: BoundNode) -> BoundNode:
    keys = [constant_text(name, "the name of a member") for name in names]
    row = pa.struct([(f"c{number}", STRING) for number in range(1, len(keys) + 1)])
    return by_value(pa.list_(row), null_if_bad(partial(_objects, keys)), fails=False)(nested_or_text(value))


FUNCTIONS = (
    json_function(
        "in_max",
        "rows: any, key: string",
        "string",
        of_json(STRING, partial(_extreme, max)),
        "The largest value of a key in an array of objects; numbers count as numbers.",
        f"in_max({SAMPLE_ROWS}, 'n')",
        "10",
    ),
    json_function(
        "in_min",
        "rows: any, key: string",
        "string",
        of_json(STRING, partial(_extreme, min)),
        "The smallest value of a key in an array of objects; numbers count as numbers.",
        f"in_min({SAMPLE_ROWS}, 'n')",
        "9",
    ),
    json_function(
        "max",
        "rows: any, key: string",
        "string",
        of_json(STRING, _last),
        "The value of a key in the last object of an array.",
        f"max({SAMPLE_ROWS}, 'k')",
        "b",
    ),
    json_function(
        "without_max",
        "rows: any, key: string",
        "string",
        of_json(STRING, _without_last),
        "An array without its last object and those with the same value of a key.",
        f"without_max({SAMPLE_ROWS}, 'k')",
        '[{"k":"a","n":9}]',
    ),
    json_function(
        "row2column",
        "rows: any, key: string, value: string",
        "string",
        of_json(STRING, _by_column, nulls=True),
        "An object with a member for each object of an array: one member names it, another is its value.",
        f"row2column({SAMPLE_ROWS}, 'k', 'n')",
        '{"a":"9","b":"10"}',
        "an empty object for null",
    ),
    json_function(
        "insql",
        "rows: any, key: string, quoted: any",
        "string",
        of_json(STRING, _in_list),
        "The values of a key in an array of objects, with commas between them, quoted or not.",
        f"insql({SAMPLE_ROWS}, 'k', true)",
        "'a','b'",
    ),
    json_function(
        "json_rows",
        "json: any, names: string...",
        "an array of rows c1, c2 …",
        _json_rows,
        "A row for each object of an array, with the members of these names as texts.",
        f"array_size(rsql_json_rows({SAMPLE_ROWS}, 'k', 'n'))",
        2,
    ),
)
