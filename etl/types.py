"""Spark SQL type names ↔ Arrow types: ``array<string>``, ``decimal(10,2)``, ``struct<a: int, b: string>``.

Source of the names: Spark SQL reference, "Data Types". A timestamp is microseconds in UTC, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
from pydantic import AfterValidator

TIMESTAMP = pa.timestamp("us", tz="UTC")

_BY_NAME = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "void": pa.null(),
}
_OTHER_NAMES = {
    **dict.fromkeys(("str", "text", "varchar", "char", "keyword", "utf8", "object"), "string"),
    **dict.fromkeys(("int64", "uint32", "serial", "bigserial"), "bigint"),
    **dict.fromkeys(("int32", "int16", "uint16"), "int"),
    **dict.fromkeys(("number", "numeric", "float64", "num"), "double, bigint or decimal(p,s)"),
    **dict.fromkeys(("datetime", "time", "timestamptz"), "timestamp"),
    **dict.fromkeys(("list", "tuple"), "array<string>, or with another type inside"),
    **dict.fromkeys(("dict", "json", "mapping"), "map<string,string> or struct<name: string>"),
    **dict.fromkeys(("ip", "inet"), "string"),
    **dict.fromkeys(("bytes", "blob"), "binary"),
}
"""Type names of other systems → type names here."""
_NAMES = {type_: name for name, type_ in reversed(_BY_NAME.items())}
_TOKEN = re.compile(r"\s*([A-Za-z_@][\w@.\-]*|\d+|[<>(),:])")


def parse_type(text: str) -> pa.DataType:
    """Type name → Arrow type. Raises ValueError that names the accepted types."""
    tokens = list(_tokens(text))
    type_ = _take(tokens, text)
    if tokens:
        raise ValueError(f"{text!r} has {tokens[0]!r} left over after the type")
    return type_


def format_type(type_: pa.DataType) -> str:
    """Arrow type → the name that `parse_type` reads back; Arrow's own name for types Spark lacks."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{format_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{format_type(type_.key_type)},{format_type(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return "struct<" + ",".join(f"{member.name}:{format_type(member.type)}" for member in type_) + ">"
    return _NAMES.get(type_, str(type_))


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            sign = text[at:].strip()[:1]
            cure = f"; write {text.replace('[', '<').replace(']', '>')}" if sign == "[" and "]" in text else ""
            raise ValueError(f"{text!r} is not a type: unexpected {sign!r}{cure}")
        yield found[1]
        at = found.end()


def _take(tokens: list[str], text: str) -> pa.DataType:
    name = tokens.pop(0).lower() if tokens else ""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "decimal":
        return _decimal(tokens, text)
    if name == "array":
        _expect(tokens, "<", text)
        item = _take(tokens, text)
        _expect(tokens, ">", text)
        return pa.list_(item)
    if name == "map":
        _expect(tokens, "<", text)
        key = _take(tokens, text)
        _expect(tokens, ",", text)
        item = _take(tokens, text)
        _expect(tokens, ">", text)
        return pa.map_(key, item)
    if name == "struct":
        return _struct(tokens, text)
    from difflib import get_close_matches

    if meant := _OTHER_NAMES.get(name):
        raise ValueError(f"{name!r} is not a type; write {meant}")
    accepted = ", ".join(sorted([*_BY_NAME, "decimal(p,s)", "array<…>", "map<…,…>", "struct<name: …>"]))
    close = get_close_matches(name, _BY_NAME, n=1, cutoff=0.7)
    raise ValueError(f"{name or text!r} is not a type; " + (f"did you mean {close[0]!r}?" if close else f"types are {accepted}"))


def _decimal(tokens: list[str], text: str) -> pa.DataType:
    if tokens[:1] != ["("]:
        return pa.decimal128(10, 0)
    _expect(tokens, "(", text)
    precision = int(tokens.pop(0))
    scale = 0
    if tokens[:1] == [","]:
        tokens.pop(0)
        scale = int(tokens.pop(0))
    _expect(tokens, ")", text)
    return pa.decimal128(precision, scale)


def _struct(tokens: list[str], text: str) -> pa.DataType:
    _expect(tokens, "<", text)
    members = []
    while True:
        name = tokens.pop(0) if tokens else ""
        _expect(tokens, ":", text)
        members.append(pa.field(name, _take(tokens, text)))
        if tokens[:1] != [","]:
            break
        tokens.pop(0)
    _expect(tokens, ">", text)
    return pa.struct(members)


def _expect(tokens: list[str], expected: str, text: str) -> None:
    found = tokens.pop(0) if tokens else "the end"
    if found != expected:
        raise ValueError(f"{text!r} is not a type: {expected!r} is missing before {found!r}")


def _check(text: str) -> str:
    parse_type(text)
    return text


TypeName = Annotated[str, AfterValidator(_check)]
"""A Spark SQL type name: ``int``, ``timestamp``, ``array<string>``."""


_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Whole numbers → the digits of a decimal that holds them, in Spark."""

_FLOATS = (pa.float32(), pa.float64())
_MAX_DIGITS = 38
_LOCAL = pa.timestamp("us")


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds both, or None: whole numbers and decimals widen, numbers beside fractions are doubles, a date beside a
    time is one, lists, maps and structs have parts that hold both, an unknown type gives way."""
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_signed_integer(left) and pa.types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    if _is_number(left) and _is_number(right):
        return pa.float64() if left in _FLOATS or right in _FLOATS else _wider_decimal(left, right)
    times = (pa.date32(), _LOCAL, TIMESTAMP)
    if left in times and right in times:
        return max(left, right, key=times.index)
    return _wider_nested(left, right)


def _is_number(type_: pa.DataType) -> bool:
    return type_ in _DIGITS or type_ in _FLOATS or bool(pa.types.is_decimal128(type_))


def _wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """All digits before the point; where 38 are not enough, fewer after it."""
    sizes = [(_DIGITS[one], 0) if one in _DIGITS else (one.precision - one.scale, one.scale) for one in (left, right)]
    whole = min(max(one[0] for one in sizes), _MAX_DIGITS)
    scale = min(max(one[1] for one in sizes), _MAX_DIGITS - whole)
    return pa.decimal128(whole + scale, scale)


def _wider_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of lists, maps and structs, whose parts have one that holds both."""
    if pa.types.is_list(left) and pa.types.is_list(right):
        item = wider(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, value = wider(left.key_type, right.key_type), wider(left.item_type, right.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if pa.types.is_struct(left) and pa.types.is_struct(right) and [one.name for one in left] == [one.name for one in right]:
        members = [(one.name, wider(one.type, other.type)) for one, other in zip(left, right, strict=True)]
        return None if any(type_ is None for _, type_ in members) else pa.struct(members)
    return None


def widen(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column as a wider type: see `wider`. Decimals with more digits after the point are rounded."""
    if column.type.equals(type_):
        return column
    if pa.types.is_decimal(column.type) and pa.types.is_decimal(type_) and column.type.scale > type_.scale:
        import pyarrow.compute as pc

        column = pc.round(column, type_.scale, round_mode="half_towards_infinity")
    return column.cast(type_)
