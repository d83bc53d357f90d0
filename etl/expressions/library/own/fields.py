"""Parts of texts: JSON paths, pairs of key and value, distances between texts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions import bound_node as b
from etl.expressions.library.flink.json.paths import MISSING, parse_path, read_json, select, write_json
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.values.edit_distance import MAX_CHARACTERS, distances, similarities
from etl.expressions.widening import DOUBLE, INT32, STRING

_PAIRS = pa.map_(STRING, STRING)


def _json_get(text: str, path: str) -> str | None:
    """The value at a path: a text as it is, anything else as JSON."""
    try:
        found = select(read_json(text), parse_path(path))
    except (ValueError, RecursionError):
        return None
    if found is MISSING or found is None or found == []:
        return None
    return found if isinstance(found, str) else write_json(found)


def _json_type(text: str, path: str = "$") -> str | None:
    try:
        found = select(read_json(text), parse_path(path))
    except (ValueError, RecursionError):
        return None
    if found is MISSING:
        return None
    names = ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array"))
    return "null" if found is None else next((name for type_, name in names if isinstance(found, type_)), "number")


def _json_length(text: str, path: str = "$") -> int | None:
    try:
        found = select(read_json(text), parse_path(path))
    except (ValueError, RecursionError):
        return None
    return len(found) if isinstance(found, list | dict) else None


_PAIR = re.compile(
    r"""(?<![^\s=,;"'])(?P<key>[^\s=,;"']++)\s*+=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<plain>[^\s,;]*))"""
)
"""A key begins after a separator or a quote only: without that, a long word would be tried from each of its characters on."""


def _key_values(text: str) -> list[tuple[str, str]]:
    """Pairs as logs write them: ``a=1 b="x y", c='z'``; the last of equal keys counts."""
    found: dict[str, str] = {}
    for pair in _PAIR.finditer(text):
        quoted = pair["double"] if pair["double"] is not None else pair["single"]
        found[pair["key"]] = pair["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return list(found.items())


def _key_value(text: str, key: str) -> str | None:
    return dict(_key_values(text)).get(key)


def _entry(
    name: str, arguments: str, type_: pa.DataType, result: str, function: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    build = by_value(type_, function, fails="errors" in more)
    return LibraryFunction(name, arguments, result, build, about, example, gives, loops=True, **more)


_NONE = "null if an argument is null, the text is not JSON, or there is no such value"
_LONG = f"a text with more than {MAX_CHARACTERS:,} characters"

FUNCTIONS = (
    _entry(
        "json_get",
        "text: string, path: string",
        STRING,
        "string",
        _json_get,
        "The value at a JSON path (`$.a[0].b`, `$..b`, `$.a[*]`): a text as it is, anything else as JSON.",
        "json_get('{\"a\": {\"b\": [1, 2]}}', '$.a.b')",
        "[1,2]",
        null=_NONE,
    ),
    _entry(
        "json_type",
        "text: string, path: string?",
        STRING,
        "string",
        _json_type,
        "The type of a JSON value: object, array, string, number, boolean or null.",
        "json_type('[1]')",
        "array",
        null=_NONE,
    ),
    _entry(
        "json_size",
        "text: string, path: string?",
        INT32,
        "int",
        _json_length,
        "The number of elements of a JSON array or object.",
        "json_size('[1, 2]')",
        2,
        null=_NONE,
    ),
    _entry(
        "key_values",
        "text: string",
        _PAIRS,
        "map<string,string>",
        _key_values,
        'The pairs of a text such as a=1 b="x y", quotes removed.',
        "key_values('a=1 b=\"x y\"')",
        [("a", "1"), ("b", "x y")],
    ),
    _entry(
        "key_value",
        "text: string, key: string",
        STRING,
        "string",
        _key_value,
        "The value of a key in such a text.",
        "key_value('user=bob action=login', 'user')",
        "bob",
        null="null if an argument is null, and without such a key",
    ),
    LibraryFunction(
        "edit_distance",
        "one: string, other: string, limit: integer?",
        "int",
        partial(b.apply_failing, INT32, distances),
        "Levenshtein's distance of two texts; -1 if it is above the limit.",
        "edit_distance('paypal', 'paypa1')",
        1,
        errors=_LONG,
    ),
    LibraryFunction(
        "similarity",
        "one: string, other: string",
        "double",
        partial(b.apply_failing, DOUBLE, similarities),
        "1 for equal texts, less the greater their edit distance, 0 for texts without anything in common.",
        "similarity('paypal', 'paypa1')",
        1 - 1 / 6,
        errors=_LONG,
    ),
)
