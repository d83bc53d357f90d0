"""Methods of Painless as functions of Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NoCounterpartError
from etl.migration.values import (
    NUMBER,
    TEXT,
    TEXTS,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    call,
    common_type,
    reads_of,
)


def appended(before: Value, added: Value, duplicates: bool = True) -> Value:
    """A list and more items; a single value counts as a list of one."""
    if before.is_null:
        return added if added.is_array else as_type(added, f"array<{TEXT if added.is_null else added.type}>")
    type_ = common_type(before.type if before.is_array else f"array<{before.type}>", added.type)
    one, other = as_type(before, type_), as_type(added, type_)
    joined = call("concat" if duplicates else "array_union", [one, other], type_)
    if not added.reads:
        return Value(f"case when {one.sql} is null then {other.sql} else {joined.sql} end", type_, joined.reads)
    alone = f"when {one.sql} is null then {other.sql} when {other.sql} is null then {one.sql}"
    return Value(f"case {alone} else {joined.sql} end", type_, joined.reads)


def _text(function: str, type_: str = TEXT) -> Callable[..., Value]:
    return lambda *values: call(function, [as_type(one, TEXT) if one.type != WHOLE else one for one in values], type_)


def _contains(target: Value, part: Value) -> Value:
    if target.is_array:
        return call("array_contains", [target, as_type(part, target.type[6:-1])], TRUTH)
    return call("contains", [as_type(target, TEXT), as_type(part, TEXT)], TRUTH)


def _substring(text: Value, first: Value, last: Value | None = None) -> Value:
    begin = Value(f"{first.sql} + 1", WHOLE, first.reads)
    length = [] if last is None else [Value(f"{last.sql} - {first.sql}", WHOLE, first.reads | last.reads)]
    return call("substring", [as_type(text, TEXT), begin, *length], TEXT)


def _pieces(text: Value, token: Value, *limit: Value) -> Value:
    if token.reads:
        raise NoCounterpartError("splitOnToken(…) in Painless with a token that is not constant")
    literal = re.escape(token.sql[1:-1].replace("\\'", "'").replace("\\\\", "\\"))
    return call("split", [as_type(text, TEXT), Value(quoted_text(literal), TEXT), *limit], TEXTS)


def _get(target: Value, index: Value) -> Value:
    if not target.is_array:
        raise NoCounterpartError("[…] in Painless on something that is not a list")
    return call("get", [target, index], target.type[6:-1])


def _empty(value: Value) -> Value:
    return Value(f"size({value.sql}) = 0" if value.is_array else f"{as_type(value, TEXT).sql} = ''", TRUTH, value.reads)


MIN_ARGUMENTS = {"get": 1, "getOrDefault": 2, "contains": 1, "containsKey": 1, "replaceAll": 2}
"""Methods that a script may call with too few arguments, which no event can make right."""

METHODS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("contains", 1): _contains,
    ("startsWith", 1): _text("startswith", TRUTH),
    ("endsWith", 1): _text("endswith", TRUTH),
    ("equals", 1): lambda one, other: Value(f"{one.sql} <=> {as_type(other, one.type).sql}", TRUTH, reads_of([one, other])),
    ("equalsIgnoreCase", 1): lambda one, other: Value(f"lower({one.sql}) <=> lower({other.sql})", TRUTH, reads_of([one, other])),
    ("toLowerCase", 0): _text("lower"),
    ("toUpperCase", 0): _text("upper"),
    ("trim", 0): _text("trim"),
    ("strip", 0): _text("trim"),
    ("length", 0): lambda one: call("length", [as_type(one, TEXT)], WHOLE),
    ("size", 0): lambda one: call("size" if one.is_array else "length", [one], WHOLE),
    ("isEmpty", 0): _empty,
    ("isBlank", 0): lambda one: Value(f"trim({one.sql}) = ''", TRUTH, one.reads),
    ("indexOf", 1): lambda one, part: Value(f"instr({one.sql}, {part.sql}) - 1", WHOLE, reads_of([one, part])),
    ("substring", 1): _substring,
    ("substring", 2): _substring,
    ("replace", 2): _text("replace"),
    ("concat", 1): _text("concat"),
    ("splitOnToken", 1): _pieces,
    ("splitOnToken", 2): _pieces,
    ("get", 1): _get,
    ("toString", 0): lambda one: as_type(one, TEXT),
    ("intValue", 0): lambda one: as_type(one, WHOLE),
    ("longValue", 0): lambda one: as_type(one, WHOLE),
    ("doubleValue", 0): lambda one: as_type(one, NUMBER),
    ("encodeBase64", 0): lambda one: Value(f"base64(cast({one.sql} as binary))", TEXT, one.reads),
    ("decodeBase64", 0): _text("base64_text"),
    ("(int)", 0): lambda one: as_type(one, WHOLE),
    ("(long)", 0): lambda one: as_type(one, WHOLE),
    ("(double)", 0): lambda one: as_type(one, NUMBER),
    ("(float)", 0): lambda one: as_type(one, NUMBER),
    ("(String)", 0): lambda one: as_type(one, TEXT),
    ("(def)", 0): lambda one: one,
}
"""Methods by name and number of arguments."""


def _rounded(value: Value) -> Value:
    number = value if value.is_number else as_type(value, NUMBER)
    return Value(f"cast(floor({number.sql} + 0.5D) as bigint)", WHOLE, number.reads)


def _of_numbers(function: str) -> Callable[..., Value]:
    return lambda *values: call(function, [as_type(one, NUMBER) for one in values], NUMBER)


def _parsed(type_: str) -> Callable[[Value], Value]:
    return lambda value: Value(f"cast({value.sql} as {type_})", type_, value.reads)


STATICS: Mapping[str, Callable[..., Value]] = {
    "Math.round": _rounded,
    "Math.floor": _of_numbers("floor"),
    "Math.ceil": _of_numbers("ceil"),
    "Math.abs": _of_numbers("abs"),
    "Math.max": _of_numbers("greatest"),
    "Math.min": _of_numbers("least"),
    "Math.pow": _of_numbers("power"),
    "Math.sqrt": _of_numbers("sqrt"),
    "Integer.parseInt": _parsed(WHOLE),
    "Long.parseLong": _parsed(WHOLE),
    "Double.parseDouble": _parsed(NUMBER),
    "Float.parseFloat": _parsed(NUMBER),
    "String.valueOf": lambda one: as_type(one, TEXT),
    "Integer.toString": lambda one: as_type(one, TEXT),
    "Long.toString": lambda one: as_type(one, TEXT),
    "Integer.valueOf": _parsed(WHOLE),
    "Long.valueOf": _parsed(WHOLE),
    "Boolean.parseBoolean": lambda one: Value(f"lower({one.sql}) = 'true'", TRUTH, one.reads),
}
"""Static methods by class and name."""
