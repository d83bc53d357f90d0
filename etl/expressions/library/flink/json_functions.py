"""Flink's functions of JSON. Python computes them for each distinct value."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.flink.casts import double_to_text
from etl.expressions.library.flink.json_paths import MISSING, parse_path, quote, read_json, select, write_json
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import BOOLEAN, DATE, DOUBLE, INT32, NULL, STRING

RAW = pa.large_string()
"""The type of JSON text within JSON_OBJECT and JSON_ARRAY, which is not put into quotes."""


def _is_json(text: str | None, kind: str = "value") -> bool:
    try:
        value = read_json(text) if text is not None else MISSING
    except (ValueError, RecursionError):
        return False
    tests: dict[str, Callable[[Any], bool]] = {
        "value": lambda found: found is not MISSING,
        "array": lambda found: isinstance(found, list),
        "object": lambda found: isinstance(found, dict),
        "scalar": lambda found: found is not MISSING and not isinstance(found, list | dict),
    }
    return tests.get(kind, tests["value"])(value)


def _found(text: str, path: str) -> Any:
    """The value at a path. Raises ValueError for what is no JSON, and where a strict path leads nowhere."""
    try:
        return select(read_json(text), parse_path(path))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _answer(behaviour: str, what: str) -> Any:
    """What is given on empty or on error."""
    if behaviour == "error":
        raise RowError(what)
    if behaviour.startswith("default:"):
        return behaviour.removeprefix("default:")
    return {"true": True, "false": False, "empty array": "[]", "empty object": "{}"}.get(behaviour)


def _exists(text: str, path: str, on_error: str = "false") -> bool | None:
    try:
        value = _found(text, path)
    except ValueError as error:
        return bool(_answer(on_error, str(error))) if on_error != "unknown" else None
    return value is not MISSING and value is not None and value != []


def json_value(text: BoundNode, path: BoundNode, *clauses: BoundNode) -> BoundNode:
    """A scalar at a path, as a text or as RETURNING says."""
    given = [text_literal(clause) for clause in clauses]
    returning = given[0] if given else "string"
    types = {"string": STRING, "int": INT32, "integer": INT32, "double": DOUBLE, "boolean": BOOLEAN}
    if returning not in types:
        raise MisuseError(f"JSON_VALUE returns a string, int, double or boolean, not {returning!r}")
    type_ = types[returning]
    on_empty, on_error = (*(given[1:]), *("null",) * (3 - max(1, len(given))))[:2]
    return by_value(type_, partial(_value, type_, on_empty or "null", on_error or "null"))(text, path)


def _value(type_: pa.DataType, on_empty: str, on_error: str, text: str, path: str) -> Any:
    try:
        value = _found(text, path)
        if isinstance(value, list | dict):
            raise ValueError("the value is no scalar")
    except ValueError as error:
        return _typed(_answer(on_error, str(error)), type_)
    if value is MISSING or value is None:
        return _typed(_answer(on_empty, "there is no value at the path"), type_)
    return _typed(value, type_)


def _typed(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if type_ == STRING:
        return value if isinstance(value, str) else write_json(value)
    wanted = {INT32: int, BOOLEAN: bool}.get(type_, Decimal)
    if isinstance(value, bool) is (type_ == BOOLEAN) and isinstance(value, (int, Decimal) if wanted is Decimal else wanted):
        return float(str(value)) if type_ == DOUBLE else value
    raise RowError(f"{value!r} is not of type {type_}")


_QUERY_TYPES = {"string": STRING, "array<string>": pa.list_(STRING)}


def json_query(text: BoundNode, path: BoundNode, *clauses: BoundNode) -> BoundNode:
    """An object or array at a path as JSON, or as an array of texts."""
    given = [text_literal(clause) or "null" for clause in clauses]
    returning, wrapper, on_empty, on_error = (*given, *("string", "without", "null", "null")[len(given) :])
    type_ = _QUERY_TYPES.get(returning.replace(" ", ""))
    if type_ is None:
        raise MisuseError(f"JSON_QUERY returns a string or array<string>, not {returning!r}")
    return by_value(type_, partial(_query, type_, wrapper, on_empty, on_error))(text, path)


def _query(type_: pa.DataType, wrapper: str, on_empty: str, on_error: str, text: str, path: str) -> Any:
    try:
        value = _found(text, path)
    except ValueError as error:
        return _answer(on_error, str(error))
    if value is MISSING or value is None:
        return _answer(on_empty, "there is no value at the path")
    if wrapper == "unconditional" or (wrapper == "conditional" and not isinstance(value, list)):
        value = [value]
    if not isinstance(value, list | dict):
        return _answer(on_error, "the value is no array or object")
    if type_ == STRING:
        return write_json(value)
    return [one if isinstance(one, str) or one is None else write_json(one) for one in value] if isinstance(value, list) else None


# ── JSON of values ────────────────────────────────────────────────────────────────────────────────


def to_json(type_: pa.DataType, value: Any) -> str:
    """The JSON of a Python value of a type."""
    if value is None:
        return "null"
    if pa.types.is_large_string(type_):
        return str(value)
    if pa.types.is_map(type_):
        return "{" + ",".join(f"{quote(str(key))}:{to_json(type_.item_type, item)}" for key, item in value) + "}"
    if pa.types.is_list(type_):
        return "[" + ",".join(to_json(type_.value_type, item) for item in value) + "]"
    if pa.types.is_struct(type_):
        return "{" + ",".join(f"{quote(field.name)}:{to_json(field.type, value[field.name])}" for field in type_) + "}"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds" if value.microsecond else "seconds")
        return f'"{text.rstrip("0") if value.microsecond else text}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, float):
        return str(double_to_text(pa.scalar(value, type_)).as_py())
    return write_json(value) if not isinstance(value, Decimal) else format(value, "f")


def json_string(value: BoundNode) -> BoundNode:
    if value.type == DATE:
        raise MisuseError("JSON_STRING takes no date")
    return by_value(STRING, partial(to_json, value.type), fails=False)(value)


def json_object(on_null: BoundNode, *pairs: BoundNode) -> BoundNode:
    if len(pairs) % 2:
        raise MisuseError("a JSON object needs pairs of key and value")
    is_absent, types = text_literal(on_null) == "absent", [one.type for one in pairs]
    if wrong := [type_name(type_) for type_ in types[::2] if type_ not in (STRING, NULL)]:
        raise MisuseError(f"the keys of a JSON object are texts, and this one is of type {wrong[0]}")

    def make(mode: str, *found: Any) -> str:
        members: dict[str, str] = {}
        for at in range(0, len(found), 2):
            if found[at] is None:
                raise RowError("the key of a JSON object is null")
            if found[at + 1] is not None or not is_absent:
                members[found[at]] = to_json(types[at + 1], found[at + 1])
        return "{" + ",".join(f"{quote(key)}:{members[key]}" for key in sorted(members)) + "}"

    return by_value(STRING, make, nulls=True)(on_null, *pairs)


def json_array(on_null: BoundNode, *items: BoundNode) -> BoundNode:
    is_absent, types = text_literal(on_null) == "absent", [one.type for one in items]

    def make(mode: str, *found: Any) -> str:
        shown = (to_json(type_, item) for type_, item in zip(types, found, strict=True) if item is not None or not is_absent)
        return "[" + ",".join(shown) + "]"

    return by_value(STRING, make, nulls=True, fails=False)(on_null, *items)


def _raw(text: str) -> str:
    try:
        return write_json(read_json(text))
    except (ValueError, RecursionError) as error:
        raise RowError("the text is not JSON") from error


def _parsed(text: str) -> str:
    return _raw(text)


def _try_parsed(text: str) -> str | None:
    try:
        return _raw(text)
    except RowError:
        return None


def _json_quote(text: str) -> str:
    return json.dumps(text)


_VALID = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')


def _json_unquote(text: str) -> str:
    """The text itself if it is not a JSON text in quotes."""
    return str(json.loads(text)) if _VALID.fullmatch(text) else text


def _entry(
    name: str, arguments: str, result: str, build: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    return LibraryFunction(f"flink_{name}", arguments, result, build, about, example, gives, loops=True, **more)


_ANSWERS = "on_empty and on_error are null, error or default:…"

FUNCTIONS = (
    _entry(
        "is_json",
        "text: string, kind: string?",
        "boolean",
        by_value(BOOLEAN, _is_json, nulls=True, fails=False),
        "Whether a text is JSON: a value, array, object or scalar.",
        "flink_is_json('[1]', 'array')",
        True,
        null="false",
    ),
    _entry(
        "json_exists",
        "text: string, path: string, on_error: string?",
        "boolean",
        by_value(BOOLEAN, _exists),
        "Whether there is a value at a JSON path.",
        "flink_json_exists('{\"a\": true}', '$.a')",
        True,
        errors="with on_error error: what is no JSON, and a strict path that leads nowhere",
    ),
    _entry(
        "json_value",
        "text: string, path: string, clause: string...",
        "string, or the type of RETURNING",
        json_value,
        f"The scalar at a JSON path; the clauses are returning, on_empty, on_error; {_ANSWERS}.",
        "flink_json_value('{\"a\": 1.5}', '$.a')",
        "1.5",
        null="null if an argument is null, and where nothing is found",
        errors="as on_empty and on_error say; a value of another type than RETURNING",
    ),
    _entry(
        "json_query",
        "text: string, path: string, clause: string...",
        "string or array<string>",
        json_query,
        "The object or array at a JSON path as JSON; the clauses are returning, wrapper, on_empty, on_error.",
        "flink_json_query('{\"a\": { \"b\": 1 } }', '$.a')",
        '{"b":1}',
        null="null if an argument is null, and where nothing is found",
        errors="as on_empty and on_error say",
    ),
    _entry(
        "json_string", "value: any", "string", json_string, "A value as JSON.", "flink_json_string(flink_array(1, 2))", "[1,2]"
    ),
    _entry(
        "json_object",
        "on_null: string, pair: any...",
        "string",
        json_object,
        "A JSON object of keys and values, sorted by key; on_null is null or absent.",
        "flink_json_object('null', 'a', 1)",
        '{"a":1}',
        null="a null is a member, or left out",
        errors="a key that is null",
    ),
    _entry(
        "json_array",
        "on_null: string, item: any...",
        "string",
        json_array,
        "A JSON array of values; on_null is null or absent.",
        "flink_json_array('absent', 1, '2')",
        '[1,"2"]',
        null="a null is an element, or left out",
    ),
    _entry(
        "raw_json",
        "text: string",
        "JSON, within json_object and json_array",
        by_value(RAW, _raw),
        "A text that is JSON, to stand in an object or array without quotes.",
        "flink_json_array('null', flink_raw_json('{}'))",
        "[{}]",
        errors="what is no JSON",
    ),
    _entry(
        "json",
        "text: string",
        "string",
        by_value(STRING, _raw),
        "A text that is JSON, in its shortest form.",
        "flink_json('[1, 2]')",
        "[1,2]",
        errors="what is no JSON",
    ),
    _entry(
        "parse_json",
        "text: string",
        "string",
        by_value(STRING, _parsed),
        "A text that is JSON, in its shortest form.",
        "flink_parse_json('{\"a\": 1}')",
        '{"a":1}',
        errors="what is no JSON",
    ),
    _entry(
        "try_parse_json",
        "text: string",
        "string",
        by_value(STRING, _try_parsed, fails=False),
        "The same, null for what is no JSON.",
        "flink_try_parse_json('{\"a\"')",
        None,
        null="null for null and what is no JSON",
    ),
    _entry(
        "json_quote",
        "text: string",
        "string",
        by_value(STRING, _json_quote, fails=False),
        "A text in quotes, as JSON writes it.",
        "flink_json_quote('a\"b')",
        '"a\\"b"',
    ),
    _entry(
        "json_unquote",
        "text: string",
        "string",
        by_value(STRING, _json_unquote, fails=False),
        "The text that JSON writes in quotes; another text as it is.",
        "flink_json_unquote('\"ab\"')",
        "ab",
    ),
)
