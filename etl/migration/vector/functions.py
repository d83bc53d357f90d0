"""Functions of VRL → expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from etl.expressions.quoting import quoted_text
from etl.migration.comparisons import contained
from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.strptime import java_pattern
from etl.migration.values import (
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    call,
    is_null,
    split_literal,
    text_value,
)


def _text(function: str, type_: str = TEXT) -> Callable[..., Value]:
    return lambda *values: call(function, [as_type(one, TEXT) for one in values], type_)


def _cast(type_: str) -> Callable[[Value], Value]:
    return lambda value: as_type(value, type_)


def _plain(value: Value) -> str:
    """The text of a constant."""
    if not value.is_literal or value.type != TEXT:
        raise NoCounterpartError("an argument that is not a constant text in VRL")
    return value.sql[1:-1].replace("\\'", "'").replace("\\\\", "\\")


def _replaced(value: Value, pattern: Value, text: Value) -> Value:
    return call("replace", [as_type(value, TEXT), pattern, text], TEXT)


def _hash(name: str) -> Callable[[Value], Value]:
    return lambda value: Value(name.format(as_type(value, TEXT).sql), TEXT, value.reads)


def _sha2(value: Value, variant: Value | None = None) -> Value:
    """A hash of the variants that Spark has, too; without one VRL takes SHA-512/256, which it has not."""
    name = "SHA-512/256" if variant is None else _plain(variant)
    if name not in ("SHA-224", "SHA-256", "SHA-384", "SHA-512"):
        raise NoCounterpartError(f"sha2 of the variant {name} in VRL")
    return _hash(f"sha2({{}}, {name[4:]})")(value)


def _timestamp(value: Value, pattern: Value) -> Value:
    java = java_pattern(_plain(pattern))
    if java in ("epoch", "iso8601"):
        raise NoCounterpartError(f"parse_timestamp with {_plain(pattern)!r}; the parser `timestamp` reads it")
    return Value(f"try_to_timestamp({as_type(value, TEXT).sql}, {quoted_text(java)})", TIME, value.reads)


def _slice(value: Value, first: Value, last: Value | None = None) -> Value:
    length = [] if last is None else [Value(f"{last.sql} - {first.sql}", WHOLE)]
    return call("substring", [as_type(value, TEXT), Value(f"{first.sql} + 1", WHOLE), *length], TEXT)


_UNITS = {"seconds": "unix_seconds", "milliseconds": "unix_millis", "microseconds": "unix_micros"}


def _unix(value: Value, unit: Value | None = None) -> Value:
    name = "seconds" if unit is None else _plain(unit)
    if name not in _UNITS:
        raise NoCounterpartError(f"to_unix_timestamp in {name} in VRL; there are {', '.join(_UNITS)}")
    return call("unix_timestamp" if unit is None else _UNITS[name], [value], WHOLE)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "downcase": _text("lower"),
    "upcase": _text("upper"),
    "starts_with": _text("startswith", TRUTH),
    "ends_with": _text("endswith", TRUTH),
    "contains": lambda value, part: contained(part, value),
    "includes": lambda items, item: contained(item, items),
    "strip_whitespace": _text("trim"),
    "trim": _text("trim"),
    "length": lambda x: call("size" if x.is_array else "length", [x], WHOLE),
    "strlen": _text("length", WHOLE),
    **dict.fromkeys(("to_int", "int"), _cast(WHOLE)),
    "parse_int": _cast(WHOLE),
    **dict.fromkeys(("to_float", "float", "parse_float"), _cast(NUMBER)),
    **dict.fromkeys(("to_string", "string"), _cast(TEXT)),
    **dict.fromkeys(("to_bool", "bool", "boolean"), _cast(TRUTH)),
    **dict.fromkeys(("array", "object", "timestamp", "to_timestamp"), lambda value: value),
    "now": lambda: Value("current_timestamp()", TIME),
    "sha1": _hash("sha1({})"),
    "sha2": _sha2,
    "md5": _hash("md5({})"),
    "encode_base64": _hash("base64(cast({} as binary))"),
    "decode_base64": _text("base64_text"),
    "ip_cidr_contains": lambda network, address: call("ip_in", [as_type(address, TEXT), network], TRUTH),
    "is_null": is_null,
    "is_nullish": lambda value: is_null(value) if value.type != TEXT else _blank(value),
    "join": lambda items, separator=None: call("array_join", [items, separator or text_value("")], TEXT),
    "push": appended,
    "append": appended,
    "truncate": lambda value, limit: call("left", [as_type(value, TEXT), limit], TEXT),
    "slice": _slice,
    "replace": _replaced,
    "split": lambda value, pattern: split_literal(as_type(value, TEXT), _plain(pattern)),
    "parse_timestamp": _timestamp,
    "format_timestamp": lambda value, pattern: call("date_format", [value, text_value(java_pattern(_plain(pattern)))], TEXT),
    **{name: (lambda value, name=name: call(name, [as_type(value, NUMBER)], NUMBER)) for name in ("abs", "floor", "round")},
    "ceil": lambda value: call("ceil", [as_type(value, NUMBER)], NUMBER),
    "to_unix_timestamp": _unix,
}
"""Functions of VRL by name."""


def _blank(value: Value) -> Value:
    return Value(f"coalesce(trim({value.sql}), '') in ('', '-')", TRUTH, value.reads)
