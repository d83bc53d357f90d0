"""Values that ClickHouse would change without an error: numbers and times beyond a range, and texts read as null.

Its conversion of 300 to UInt8 gives 44, of 1.7 to an integer 1, of a time before 1970 to DateTime the year 1970, and of a text
that is not a number to Nullable(UInt8) null. Null in Arrow texts becomes an empty text in columns of
LowCardinality(Nullable(String)), unless the texts are a dictionary (26.5). Elements of arrays, maps and tuples are not checked.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_WRAPPED = re.compile(r"(?:LowCardinality|Nullable)\((.*)\)")
_INTEGER = re.compile(r"(U?)Int(8|16|32|64|128|256)")
_DECIMAL = re.compile(r"Decimal\((\d+), (\d+)\)")
_DIGITS = r"^\s*[+-]?0*[0-9]{1,38}\s*$"
_MOMENT = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?)?$"
_WHOLE_SECONDS = r"^\d{9,10}(\.\d+)?$"
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)$"
_OCTET = r"(25[0-5]|2[0-4]\d|1?\d?\d)"
_READABLE = {
    "Float32": _NUMBER,
    "Float64": _NUMBER,
    "Decimal": _NUMBER,
    "UUID": r"(?i)^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$",
    "IPv4": rf"^{_OCTET}(\.{_OCTET}){{3}}$",
    "IPv6": r"(?i)^[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f:.]*$|^\d{1,3}(\.\d{1,3}){3}$",
    "Bool": r"(?i)^(true|false|t|f|yes|no|y|n|on|off|enable|disable|enabled|disabled|1|0)$",
}
"""Type of a column → texts that it reads; others are null in a Nullable column, and an error in another."""

_MICROSECONDS = 1_000_000
_MICROSECONDS_A_DAY = 86_400 * _MICROSECONDS
_RANGES_OF_TIMES = {
    "DateTime": (0, 2**32 * _MICROSECONDS - 1),
    "Date": (0, 2**16 * _MICROSECONDS_A_DAY - 1),
    "DateTime64": (-2_208_988_800 * _MICROSECONDS, 10_413_792_000 * _MICROSECONDS - 1),
    "Date32": (-2_208_988_800 * _MICROSECONDS, 10_413_792_000 * _MICROSECONDS - 1),
}
"""Microseconds since 1970; DateTime64 and Date32 have the years 1900 to 2299."""


def find_misfits(values: pa.Array, column_type: str) -> pa.Array | None:
    """Return which values the column cannot hold (bool, never null); None if it holds all."""
    plain = _unwrap(column_type)
    name = plain.partition("(")[0]
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    is_nullable = "Nullable(" in column_type[: len(column_type) - len(plain)]
    if integer := _INTEGER.fullmatch(plain):
        found = _beyond_integers(values, int(integer[2]), bool(integer[1]), is_text and is_nullable)
    elif span := _RANGES_OF_TIMES.get(name):
        found = _texts_beyond_times(values, *span, is_nullable) if is_text else _beyond_times(values, *span)
    elif is_text and is_nullable and name in _READABLE:
        found = pc.invert(pc.match_substring_regex(pc.utf8_trim_whitespace(values), _READABLE[name]))
    elif decimal := _DECIMAL.fullmatch(plain):
        found = _beyond_decimals(values, int(decimal[1]) - int(decimal[2]))
    else:
        return None
    if found is None:
        return None
    found = pc.fill_null(found, False)
    return found if found.true_count else None


def prepare_values(values: pa.Array, column_type: str) -> pa.Array:
    """Return values in a form that the column takes with its nulls."""
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if not column_type.startswith("LowCardinality(") or pa.types.is_dictionary(values.type):
        return values
    if not is_text and _unwrap(column_type).partition("(")[0] in ("String", "FixedString"):
        values = values.cast(pa.string())
    return values.dictionary_encode()


def _unwrap(column_type: str) -> str:
    while found := _WRAPPED.fullmatch(column_type):
        column_type = found[1]
    return column_type


def _beyond_integers(values: pa.Array, bits: int, is_unsigned: bool, rejects_texts: bool) -> pa.Array | None:
    low, high = (0, 2**bits - 1) if is_unsigned else _signed(bits)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        is_number = pc.match_substring_regex(values, _DIGITS)
        digits = pc.replace_substring_regex(values, r"[\s+]", "")
        digits = pc.replace_substring_regex(digits, r"^(-?)0*(\d)", r"\1\2")
        found = _beyond(pc.if_else(is_number, digits, None).cast(pa.decimal128(38, 0)), low, high)
        is_long = pc.match_substring_regex(values, r"^\s*[+-]?[0-9]+\s*$")  # more digits than a decimal has
        others = pc.invert(is_number) if rejects_texts else pc.and_(pc.invert(is_number), is_long) if bits <= 64 else None
        return found if others is None else others if found is None else pc.or_kleene(found, others)
    if pa.types.is_floating(values.type):
        is_whole = pc.equal(values, pc.trunc(values))
        is_within = pc.and_(pc.greater_equal(values, float(low)), pc.less(values, float(high + 1)))
        return pc.invert(pc.and_(is_whole, is_within))
    if pa.types.is_decimal(values.type):
        wide = values.cast(pa.decimal256(76, values.type.scale))  # trunc of Arrow needs a digit before the point
        return pc.or_(_beyond(wide, low, high), pc.not_equal(wide, pc.trunc(wide)))
    return _beyond(values, low, high) if pa.types.is_integer(values.type) else None


def _beyond(values: pa.Array, low: int, high: int) -> pa.Array | None:
    """Return which whole numbers lie outside of these limits; None if the type has none outside."""
    minimum, maximum = _limits(values.type)
    masks = [
        compare(values, pa.scalar(limit, values.type))
        for compare, limit in ((pc.less, low), (pc.greater, high))
        if minimum <= limit <= maximum
    ]
    return pc.or_(*masks) if len(masks) == 2 else masks[0] if masks else None


def _limits(type_: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(type_):
        maximum = 10 ** max(type_.precision - type_.scale, 0) - 1
        return -maximum, maximum
    return (0, 2**type_.bit_width - 1) if pa.types.is_unsigned_integer(type_) else _signed(type_.bit_width)


def _beyond_decimals(values: pa.Array, digits: int) -> pa.Array | None:
    """Return which decimals have more digits before the point; ClickHouse rejects such integers and floats itself."""
    if not pa.types.is_decimal(values.type) or values.type.precision - values.type.scale <= digits:
        return None
    return pc.greater_equal(pc.abs(values), pa.scalar(Decimal(10**digits), values.type))


def _signed(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _beyond_times(values: pa.Array, low: int, high: int) -> pa.Array | None:
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32())
        return pc.or_(pc.less(days, low // _MICROSECONDS_A_DAY), pc.greater(days, high // _MICROSECONDS_A_DAY))
    if pa.types.is_integer(values.type):  # seconds, or days
        return _beyond(values, low // _MICROSECONDS, high // _MICROSECONDS)
    if not pa.types.is_timestamp(values.type):
        return None
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    return pc.or_(pc.less(micros, low), pc.greater(micros, high))


def _texts_beyond_times(values: pa.Array, low: int, high: int, is_nullable: bool) -> pa.Array:
    """Return which times beyond the limits texts say; in a Nullable column also texts that no time can be read from."""
    is_moment = pc.match_substring_regex(values, _MOMENT)
    texts = pc.if_else(is_moment, values, None)
    days = pc.strptime(pc.utf8_slice_codeunits(texts, 0, 10), "%Y-%m-%d", "us", error_is_null=True)
    found = _beyond_times(days, low - _MICROSECONDS_A_DAY + 1, high)
    if not is_nullable:
        return found
    is_read = pc.or_(days.is_valid(), pc.match_substring_regex(values, _WHOLE_SECONDS))
    return pc.or_kleene(found, pc.and_(values.is_valid(), pc.invert(pc.fill_null(is_read, False))))
