"""Casts to numbers, from numbers and from texts, with Java's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.values.number_casts import BLANKS, bounds, where_any
from etl.expressions.widening import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    STRING,
    is_decimal,
)

Converted = tuple[Any, Any]


Convert = Callable[[Any], Converted]


def to_integer(values: Any, target: pa.DataType) -> Any:
    """Cut the fraction; whole numbers wrap around, as Java's casts do."""
    if values.type in FLOATS:
        wide = INT64 if target == INT64 else INT32
        return pc.cast(_saturate(values, wide), target, safe=False)
    if is_decimal(values.type):
        wide = pc.cast(
            values, pa.decimal256(values.type.precision + 1, values.type.scale)
        )  # Arrow keeps a digit before the point
        whole = pc.cast(pc.round(wide, 0, "towards_zero"), pa.decimal128(38, 0))
        return pc.cast(pc.cast(whole, INT64, safe=False), target, safe=False)
    return pc.cast(values, target, safe=False)


def _saturate(values: Any, target: pa.DataType) -> Any:
    """A whole number by cutting; the least or greatest beyond the range, 0 of NaN."""
    values = pc.cast(values, DOUBLE)
    low, high = bounds(target)
    above, below = pc.greater_equal(values, float(high)), pc.less_equal(values, float(low))
    inside = pc.if_else(pc.or_(pc.or_(above, below), pc.is_nan(values)), 0.0, values)
    whole = pc.cast(pc.trunc(inside), target)
    return pc.if_else(above, pa.scalar(high, target), pc.if_else(below, pa.scalar(low, target), whole))


def to_float(values: Any, target: pa.DataType) -> Any:
    if is_decimal(values.type):  # by way of a text, which rounds as Java does
        return pc.cast(pc.cast(pc.cast(values, STRING), DOUBLE), target, safe=False)
    if values.type == FLOAT:  # the text of a float is its value for Flink
        return pc.cast(pc.cast(values, STRING), DOUBLE)
    return pc.cast(values, target, safe=False)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Bits of a type of whole numbers → digits of its least number."""


def to_decimal(values: Any, target: pa.DataType) -> Any:
    """Round half up; null where it does not fit."""
    if values.type == BOOLEAN:
        values = pc.cast(values, INT64)
    if values.type in INTEGERS:
        if target.precision - target.scale >= _DIGITS[values.type.bit_width]:
            return pc.cast(values, target)
        return fit(pc.cast(values, pa.decimal256(38, 0)), target)
    if values.type in FLOATS:
        return text_to_decimal(target, pc.cast(values, STRING))[0]
    return fit(values, target)


def fit(values: Any, target: pa.DataType) -> Any:
    """Decimals as ones of another type: rounded half up, null where the digits do not suffice."""
    type_ = values.type
    if type_ == target:
        return values
    rounded = type_.scale > target.scale
    if rounded:
        values = pc.round(values, target.scale, "half_towards_infinity")
    if type_.precision - type_.scale + rounded > target.precision - target.scale:  # rounding may add a digit
        limit = pa.scalar(10 ** (target.precision - target.scale), pa.decimal256(76, 0))
        whole = pc.cast(pc.round(values, 0, "towards_zero"), pa.decimal256(76 - type_.scale, 0), safe=False)
        size = pc.abs(pc.cast(whole, pa.decimal256(76, 0)))
        values = pc.if_else(pc.less(size, limit), values, pa.scalar(None, values.type))
    return pc.cast(values, target, safe=False)


_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"


_DOUBLE = r"\A[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)\z"


def text_to_decimal(target: pa.DataType, values: Any) -> Converted:
    """A text that is not a number fails, as one that does not fit."""
    from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

    context = Context(prec=120)

    def one(text: str) -> Decimal | None:
        try:
            number = Decimal(text.strip(BLANKS)).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, context)
        except (InvalidOperation, ValueError):
            return None
        return number if number.is_finite() and abs(number) < Decimal(10) ** (target.precision - target.scale) else None

    found = each_distinct(values, one, target)
    return found, where_any(pc.and_(pc.is_valid(values), pc.is_null(found)))


def each_distinct(values: Any, function: Callable[[Any], Any], type_: pa.DataType) -> Any:
    """A Python function of each distinct value."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(function(values.as_py()) if values.is_valid else None, type_)
    encoded = pc.dictionary_encode(values)
    return pa.array([function(one) for one in encoded.dictionary.to_pylist()], type_).take(encoded.indices)


def text_to_integer(target: pa.DataType, values: Any) -> Converted:
    """Digits with a sign, blanks around them, and a fraction that is cut."""
    trimmed = pc.utf8_trim(values, BLANKS)
    good = pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]{1,30}(\.[0-9]*)?\z")
    whole = pc.replace_substring_regex(pc.utf8_ltrim(pc.if_else(good, trimmed, "0"), "+"), r"\..*", "")
    wide = pc.cast(pc.replace_substring_regex(whole, r"\A(-?)0+([0-9])", r"\1\2"), pa.decimal128(38, 0))
    low, high = (pa.scalar(limit, pa.decimal128(38, 0)) for limit in bounds(target))
    good = pc.and_(good, pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)))
    zero = pa.scalar(0, pa.decimal128(38, 0))
    return pc.cast(pc.cast(pc.if_else(good, wide, zero), INT64), target), where_any(pc.invert(good))


def text_to_float(target: pa.DataType, values: Any) -> Converted:
    trimmed = pc.utf8_trim(values, BLANKS)
    good = pc.match_substring_regex(trimmed, _DOUBLE)
    plain = pc.if_else(good, trimmed, "0")
    named = pc.match_substring(plain, "Infinity")
    text = pc.if_else(named, pc.replace_substring(plain, "Infinity", "inf"), pc.utf8_rtrim(plain, "dDfF"))
    text = pc.replace_substring_regex(pc.utf8_ltrim(text, "+"), r"\A-NaN\z", "NaN")
    return pc.cast(pc.cast(text, DOUBLE), target, safe=False), where_any(pc.invert(good))


def java_number(text: str) -> str:
    from decimal import Decimal

    named = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0"}
    if text in named:
        return named[text]
    sign, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    minus = "-" if sign else ""
    if -3 <= power < 7:
        if power < 0:
            return f"{minus}0.{'0' * (-power - 1)}{shown}"
        padded = shown.ljust(power + 1, "0")
        return f"{minus}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{power}"


def _plain_decimal(text: str) -> str:
    from decimal import Decimal

    return format(Decimal(text), "f")


def decimal_to_text(values: Any) -> Any:
    """All digits of the scale, never an exponent."""
    texts = pc.cast(values, STRING)
    if isinstance(values, pa.Scalar) or pc.any(pc.match_substring(texts, "E")).as_py():
        return each_distinct(texts, _plain_decimal, STRING)
    return texts
