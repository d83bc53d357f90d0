"""Flink's functions that make JSON of values."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.flink.casts import double_to_text
from etl.expressions.library.flink.json.functions import json_function
from etl.expressions.library.flink.json.paths import quote, read_json, write_json
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import DATE, NULL, STRING

RAW = pa.large_string()
"""The type of JSON text within JSON_OBJECT and JSON_ARRAY, which is not put into quotes."""


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
    if isinstance(value, date | time):
        return f'"{value.isoformat()}"'
    if isinstance(value, float):
        return str(double_to_text(pa.scalar(value, type_)).as_py())
    return write_json(value) if not isinstance(value, Decimal) else format(value, "f")


def json_string(value: BoundNode) -> BoundNode:
    if value.type == DATE or pa.types.is_time(value.type) or pa.types.is_duration(value.type):
        raise MisuseError(f"JSON_STRING takes no value of type {type_name(value.type)}")
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


def _parse(text: str, allow_duplicate_keys: bool = False) -> str:
    """The last of equal keys counts."""
    return _raw(text)


def _parse_or_none(text: str, allow_duplicate_keys: bool = False) -> str | None:
    try:
        return _raw(text)
    except RowError:
        return None


def _json_quote(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


_VALID = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')


def _json_unquote(text: str) -> str:
    """The text itself if it is not a JSON text in quotes."""
    return str(json.loads(text)) if _VALID.fullmatch(text) else text


FUNCTIONS = (
    json_function(
        "json_string", "value: any", "string", json_string, "A value as JSON.", "flink_json_string(flink_array(1, 2))", "[1,2]"
    ),
    json_function(
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
    json_function(
        "json_array",
        "on_null: string, item: any...",
        "string",
        json_array,
        "A JSON array of values; on_null is null or absent.",
        "flink_json_array('absent', 1, '2')",
        '[1,"2"]',
        null="a null is an element, or left out",
    ),
    json_function(
        "raw_json",
        "text: string",
        "JSON, within json_object and json_array",
        by_value(RAW, _raw),
        "A text that is JSON, to stand in an object or array without quotes.",
        "flink_json_array('null', flink_raw_json('{}'))",
        "[{}]",
        errors="what is not JSON",
    ),
    json_function(
        "json",
        "text: string",
        "string",
        by_value(STRING, _raw),
        "A text that is JSON, in its shortest form.",
        "flink_json('[1, 2]')",
        "[1,2]",
        errors="what is not JSON",
    ),
    json_function(
        "parse_json",
        "text: string, allow_duplicate_keys: boolean?",
        "string",
        by_value(STRING, _parse),
        "A text that is JSON, in its shortest form.",
        "flink_parse_json('{\"a\": 1}')",
        '{"a":1}',
        errors="what is not JSON",
    ),
    json_function(
        "try_parse_json",
        "text: string, allow_duplicate_keys: boolean?",
        "string",
        by_value(STRING, _parse_or_none, fails=False),
        "The same, null for what is not JSON.",
        "flink_try_parse_json('{\"a\"')",
        None,
        null="null for null and what is not JSON",
    ),
    json_function(
        "json_quote",
        "text: string",
        "string",
        by_value(STRING, _json_quote, fails=False),
        "A text in quotes, as JSON writes it.",
        "flink_json_quote('a\"b')",
        '"a\\"b"',
    ),
    json_function(
        "json_unquote",
        "text: string",
        "string",
        by_value(STRING, _json_unquote, fails=False),
        "The text that JSON writes in quotes; another text as it is.",
        "flink_json_unquote('\"ab\"')",
        "ab",
    ),
)
