"""Spark's ANSI type rules: the common type of two values.

Source: Spark SQL reference, "ANSI Compliance", sections "Type Promotion and Precedence" and "Least Common Type
Resolution"; checked against Spark by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import pyarrow as pa

from etl.api import TIMESTAMP

BOOLEAN, STRING, DATE, NULL = pa.bool_(), pa.string(), pa.date32(), pa.null()
INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()

INTEGERS = (INT8, INT16, INT32, INT64)
FLOATS = (FLOAT, DOUBLE)
ATOMIC = (BOOLEAN, STRING, DATE, TIMESTAMP, *INTEGERS, *FLOATS)
"""Types that Arrow forms support; decimals are only compared."""

MAX_DIGITS = 38
"""Maximum number of digits of a decimal."""

_MIN_FRACTION = 6
"""Digits of the fraction that a result keeps where 38 digits are not enough for all."""

_DIGITS = {INT8: 3, INT16: 5, INT32: 10, INT64: 20}


def is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_))


def is_number(type_: pa.DataType) -> bool:
    return type_ in INTEGERS or type_ in FLOATS or is_decimal(type_)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The least common type, or None if Spark refuses the two together."""
    if left == right:
        return left
    if NULL in (left, right):
        return right if left == NULL else left
    if is_number(left) and is_number(right):
        return _wider_number(left, right)
    if STRING in (left, right):
        return _beside_string(right if left == STRING else left)
    if left in _TIMES and right in _TIMES:
        return TIMESTAMP if TIMESTAMP in (left, right) else _LOCAL
    return _common_nested(left, right)


_LOCAL = pa.timestamp("us")
_TIMES = (DATE, TIMESTAMP, _LOCAL)


def _common_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type of arrays, maps and structs, whose parts must have one."""
    if pa.types.is_list(left) and pa.types.is_list(right):
        item = common_type(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, value = common_type(left.key_type, right.key_type), common_type(left.item_type, right.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if not (pa.types.is_struct(left) and pa.types.is_struct(right)) or left.num_fields != right.num_fields:
        return None
    members = [(one.name, common_type(one.type, other.type)) for one, other in zip(left, right, strict=True)]
    return None if any(type_ is None for _, type_ in members) else pa.struct(members)


def find_member(type_: pa.StructType, name: str) -> int | None:
    """The index of a struct's member, as it is written or else in another case; None if there is none."""
    names = [field.name for field in type_]
    lower = [one.lower() for one in names]
    return names.index(name) if name in names else lower.index(name.lower()) if name.lower() in lower else None


def member_type(type_: pa.DataType, names: list[str]) -> pa.DataType:
    """The type of a path: members of structs, values of maps, of a list those of each item; ``null`` if unknown."""
    for name in names:
        depth = 0
        while pa.types.is_list(type_):
            type_, depth = type_.value_type, depth + 1
        if pa.types.is_map(type_):
            type_ = type_.item_type
        elif pa.types.is_struct(type_) and (member := find_member(type_, name)) is not None:
            type_ = type_.field(member).type
        else:
            return NULL
        type_ = pa.list_(type_) if depth == 1 and type_ != NULL else type_ if not depth else NULL
    return type_


def common_type_of(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The common type of all."""
    return reduce(lambda a, b: None if a is None else common_type(a, b), types, NULL)


def _wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left in FLOATS or right in FLOATS:
        return DOUBLE  # also int with float: Spark keeps the int's precision
    if is_decimal(left) or is_decimal(right):
        return _wider_decimal(decimal_of(left), decimal_of(right))
    return max(left, right, key=INTEGERS.index)


def decimal_of(type_: pa.DataType) -> pa.DataType:
    """The decimal type with the digits of a whole number's type; a decimal type itself."""
    return type_ if is_decimal(type_) else pa.decimal128(_DIGITS[type_], 0)


def _wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return pa.decimal128(min(MAX_DIGITS, whole + scale), scale)


def decimal_result(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of ``+ - * / %`` of two decimals by Spark's rules, with fewer digits of the fraction where 38 are not enough."""
    whole, scale = left.precision - left.scale, max(left.scale, right.scale)
    if operator in "+-":
        digits = max(whole, right.precision - right.scale) + scale + 1
    elif operator == "*":
        digits, scale = left.precision + right.precision + 1, left.scale + right.scale
    elif operator == "/":
        scale = max(_MIN_FRACTION, left.scale + right.precision + 1)
        digits = whole + right.scale + scale
    else:
        digits = min(whole, right.precision - right.scale) + scale
    if digits > MAX_DIGITS:
        scale = max(MAX_DIGITS - (digits - scale), min(scale, _MIN_FRACTION))
    return pa.decimal128(min(digits, MAX_DIGITS), scale)


def _beside_string(other: pa.DataType) -> pa.DataType | None:
    if other in INTEGERS:
        return INT64
    if is_number(other):
        return DOUBLE
    return other if other in (BOOLEAN, DATE, TIMESTAMP, pa.timestamp("us"), pa.binary()) else None
