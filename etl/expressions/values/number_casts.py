"""Casts of texts and wider numbers to numbers, with a mask of the rows that fail."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.widening import DOUBLE, FLOAT, INT64

Converted: TypeAlias = tuple[Any, Any]
"""Values, and the mask of rows that failed (None if none did)."""

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""Characters that Spark trims from a text before it casts it: ASCII control characters and the space."""


def where_any(mask: Any) -> Any:
    """The mask, or None if no row is true."""
    return mask if pc.any(mask).as_py() else None


def bounds(type_: pa.DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    half = 1 << (type_.bit_width - 1)
    return -half, half - 1


def narrow(values: Any, target: pa.DataType) -> Converted:
    if target.bit_width >= values.type.bit_width:
        return pc.cast(values, target), None
    low, high = bounds(target)
    outside = where_any(pc.or_(pc.less(values, low), pc.greater(values, high)))
    return pc.cast(values, target, safe=False), outside


def truncate(values: Any, target: pa.DataType) -> Converted:
    values = pc.cast(values, DOUBLE)
    low, high = bounds(target)
    inside = pc.and_(pc.less_equal(pc.floor(values), float(high)), pc.greater_equal(pc.ceil(values), float(low)))
    outside = where_any(pc.invert(inside))
    whole = pc.trunc(pc.if_else(inside, values, 0.0))
    saturated = pc.greater_equal(whole, float(high)) if target == INT64 else None  # 2**63 - 1 is not a double
    if saturated is None or where_any(saturated) is None:
        return pc.cast(whole, target, safe=False), outside
    return pc.if_else(saturated, pa.scalar(high, target), pc.cast(pc.if_else(saturated, 0.0, whole), target)), outside


def text_to_integer(values: Any, target: pa.DataType) -> Converted:
    try:
        converted = pc.cast(values, target)
    except pa.ArrowInvalid:
        return _unruly_integers(values, target)
    hexadecimal = where_any(pc.match_substring(values, "x", ignore_case=True))  # Arrow reads 0x1F as 31, and Spark does not
    return (converted, None) if hexadecimal is None else _unruly_integers(values, target)


def _unruly_integers(values: Any, target: pa.DataType) -> Converted:
    """Texts with surrounding blanks, a plus sign or leading zeros, and texts that are not integers or too large."""
    trimmed = pc.utf8_trim(values, BLANKS)
    well_formed = pc.match_substring_regex(trimmed, r"\A[+-]?0*[0-9]{1,19}\z")
    plain = pc.replace_substring_regex(trimmed, r"\A\+", "")
    plain = pc.replace_substring_regex(plain, r"\A(-?)0+([0-9])", r"\1\2")
    wide = pc.cast(pc.if_else(well_formed, plain, "0"), pa.decimal128(38, 0))
    low, high = (pa.scalar(limit, pa.decimal128(38, 0)) for limit in bounds(target))
    good = pc.and_(well_formed, pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)))
    zero = pa.scalar(0, pa.decimal128(38, 0))
    return pc.cast(pc.cast(pc.if_else(good, wide, zero), INT64), target), where_any(pc.invert(good))


_PLAIN_DOUBLE = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\z"
_SPECIAL_DOUBLES = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_SPECIAL_DOUBLES |= {"nan": "nan", "+nan": "nan", "-nan": "nan"}


def text_to_double(values: Any) -> Converted:
    trimmed = pc.utf8_trim(values, BLANKS)
    plain = pc.match_substring_regex(trimmed, _PLAIN_DOUBLE)
    number = pc.cast(pc.if_else(plain, pc.utf8_rtrim(trimmed, "dDfF"), "0"), DOUBLE)
    if where_any(pc.invert(plain)) is None:
        return number, None
    lower = pc.utf8_lower(trimmed)
    good = plain
    for spelling, meaning in _SPECIAL_DOUBLES.items():
        found = pc.equal(lower, spelling)
        if meaning == "nan":  # Java reads NaN and Spark nan, with a sign only when spelt as Java does
            found = pc.and_(found, pc.or_(pc.equal(lower, "nan"), pc.match_substring(trimmed, "NaN")))
        number = pc.if_else(found, float(meaning), number)
        good = pc.or_(good, found)
    return number, where_any(pc.invert(good))


def text_to_float(values: Any) -> Converted:
    number, failed = text_to_double(values)
    return pc.cast(number, FLOAT, safe=False), failed
