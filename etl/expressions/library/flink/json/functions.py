"""Flink's functions of JSON. Python computes them for each distinct value."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.flink.json.paths import MISSING, parse_path, read_json, select, write_json
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import BOOLEAN, DOUBLE, INT32, STRING


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


def _select_value(text: str, path: str) -> Any:
    """The value at a path. A strict path raises ValueError for what is not JSON and where nothing is; a lax one is MISSING."""
    parsed = parse_path(path)
    try:
        return select(read_json(text), parsed)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    except ValueError:
        if parsed.is_strict:
            raise
        return MISSING


def _select_shape(text: str, path: str, is_wanted: Callable[[Any], bool], what: str) -> Any:
    """The value at a path if it has the shape; without one a lax path finds nothing, and a strict one raises ValueError."""
    value = _select_value(text, path)
    if value is None or not is_wanted(value):
        if parse_path(path).is_strict:
            raise ValueError(what)
        return MISSING
    return value


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _answer(behaviour: str, what: str) -> Any:
    """What is given on empty or on error."""
    if behaviour == "error":
        raise RowError(what)
    if behaviour.startswith("default:"):
        return behaviour.removeprefix("default:")
    return {"true": True, "false": False, "empty array": "[]", "empty object": "{}"}.get(behaviour)


def _exists(text: str, path: str, on_error: str = "false") -> bool | None:
    try:
        value = _select_value(text, path)
    except ValueError as error:
        return bool(_answer(on_error, str(error))) if on_error != "unknown" else None
    return value is not MISSING and value is not None


def json_value(text: BoundNode, path: BoundNode, *clauses: BoundNode) -> BoundNode:
    """A scalar at a path, as a text or as RETURNING says."""
    given = [text_literal(clause) for clause in clauses]
    returning = given[0] if given else "string"
    length = re.fullmatch(r"(?:var)?char\((\d+)\)", returning or "")
    returning = "string" if length else returning
    types = {"string": STRING, "int": INT32, "integer": INT32, "double": DOUBLE, "boolean": BOOLEAN}
    if returning not in types:
        raise MisuseError(f"JSON_VALUE returns a string, int, double or boolean, not {returning!r}")
    type_ = types[returning]
    on_empty, on_error = (*(given[1:]), *("null",) * (3 - max(1, len(given))))[:2]
    found = by_value(type_, partial(_value, type_, on_empty or "null", on_error or "null"))(text, path)
    return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, 0, int(length[1])), found) if length else found


def _value(type_: pa.DataType, on_empty: str, on_error: str, text: str, path: str) -> Any:
    try:
        value = _select_shape(text, path, _is_scalar, "the value is not a scalar")
    except ValueError as error:
        return _typed(_answer(on_error, str(error)), type_)
    if value is MISSING:
        return _typed(_answer(on_empty, "there is no value at the path"), type_)
    return _check_type(value, type_)


def _check_type(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if type_ == STRING:
        return value if isinstance(value, str) else write_json(value)
    accepted = {INT32: int, BOOLEAN: bool}.get(type_, Decimal)
    if isinstance(value, bool) is (type_ == BOOLEAN) and isinstance(value, (int, Decimal) if accepted is Decimal else accepted):
        return float(str(value)) if type_ == DOUBLE else value
    raise RowError(f"{value!r} is not of type {type_}")


def _typed(text: str | None, type_: pa.DataType) -> Any:
    """A default as a value of a type."""
    if text is None or type_ == STRING:
        return text
    try:
        return _check_type(read_json(text.lower()), type_)
    except ValueError as error:
        raise RowError(f"the default {text!r} is not of type {type_}") from error


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
    def is_wanted(value: Any) -> bool:
        return wrapper in ("unconditional", "conditional") or not _is_scalar(value)

    try:
        value = _select_shape(text, path, is_wanted, "the value is not an array or object")
    except ValueError as error:
        return _answer(on_error, str(error))
    if value is MISSING:
        return _answer(on_empty, "there is no value at the path")
    if wrapper == "unconditional" or (wrapper == "conditional" and not isinstance(value, list)):
        value = [value]
    if type_ == STRING:
        return write_json(value)
    return [one if isinstance(one, str) or one is None else write_json(one) for one in value] if isinstance(value, list) else None


json_function = partial(flink_function, loops=True)


_ANSWERS = "on_empty and on_error are null, error or default:…"


FUNCTIONS = (
    json_function(
        "is_json",
        "text: string, kind: string?",
        "boolean",
        by_value(BOOLEAN, _is_json, nulls=True, fails=False),
        "Whether a text is JSON: a value, array, object or scalar.",
        "flink_is_json('[1]', 'array')",
        True,
        null="false",
    ),
    json_function(
        "json_exists",
        "text: string, path: string, on_error: string?",
        "boolean",
        by_value(BOOLEAN, _exists),
        "Whether there is a value at a JSON path.",
        "flink_json_exists('{\"a\": true}', '$.a')",
        True,
        errors="with on_error error: what is not JSON, and a strict path that leads nowhere",
    ),
    json_function(
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
    json_function(
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
)
