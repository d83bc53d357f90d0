"""Flink's type rules: the common type of numbers, and the decimal types of results.

Source: Flink's documentation, "Data Types" and "Built-in functions", and the rules of `LogicalTypeMerging`: those of SQL Server,
as in Spark, but a BIGINT has 19 digits, and a FLOAT beside a whole number stays a FLOAT.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from etl.expressions.widening import (
    DOUBLE,
    FLOAT,
    FLOATS,
    INTEGERS,
    NULL,
    STRING,
    common_type,
    decimal_result,
    is_decimal,
    is_number,
)

DIGITS = dict(zip(INTEGERS, (3, 5, 10, 19), strict=True))
"""Decimal digits of the types of whole numbers."""


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal type of a whole number's type; a decimal type itself."""
    return type_ if is_decimal(type_) else pa.decimal128(DIGITS[type_], 0)


def common(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type to which several values are cast together; None if Flink refuses them together."""
    return reduce(lambda one, other: None if one is None else _pair(one, other), types, NULL)


def _pair(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if NULL in (left, right) or left == right:
        return right if left == NULL else left
    if is_number(left) and is_number(right):
        return _number(left, right)
    if STRING in (left, right):
        return None
    if pa.types.is_list(left) and pa.types.is_list(right):
        item = _pair(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    return common_type(left, right)


def _number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left in FLOATS or right in FLOATS:
        is_wide = DOUBLE in (left, right) or is_decimal(left) or is_decimal(right)
        return DOUBLE if is_wide else FLOAT
    if is_decimal(left) or is_decimal(right):
        one, other = as_decimal(left), as_decimal(right)
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return pa.decimal128(min(38, whole + scale), min(scale, max(0, 38 - whole)) if whole + scale > 38 else scale)
    return max(left, right, key=INTEGERS.index)


def result(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of ``+ - * /`` and ``%`` of two numbers."""
    type_ = _number(left, right) if left != right else left
    if not is_decimal(type_):
        return right if operator == "%" and type_ not in FLOATS else type_
    return decimal_result(operator, as_decimal(left), as_decimal(right))
