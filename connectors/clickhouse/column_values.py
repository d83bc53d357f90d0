"""Values that ClickHouse would change without an error: numbers and times beyond a column's range, and null as empty text.

Its conversion of 300 to UInt8 gives 44, of 1.7 to an integer 1, and of a time before 1970 to DateTime the year 1970. Null in
Arrow texts becomes an empty text in columns of LowCardinality(Nullable(String)), unless the texts are a dictionary (26.5).
Elements of arrays, maps and tuples are not checked.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_WRAPPED = re.compile(r"(?:LowCardinality|Nullable)\((.*)\)")
_INTEGER = re.compile(r"(U?)Int(8|16|32|64)")
_DIGITS = r"^\s*[+-]?[0-9]{1,18}\s*$"
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
    if integer := _INTEGER.fullmatch(plain):
        bits, is_unsigned = int(integer[2]), bool(integer[1])
        low, high = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        found = _beyond_integers(values, low, high)
    elif span := _RANGES_OF_TIMES.get(plain.partition("(")[0]):
        found = _beyond_times(values, *span)
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


def _beyond_integers(values: pa.Array, low: int, high: int) -> pa.Array | None:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        is_number = pc.match_substring_regex(values, _DIGITS)
        texts = pc.if_else(is_number, pc.replace_substring_regex(values, r"[\s+]", ""), None)
        values = texts.cast(pa.int64())
    if pa.types.is_floating(values.type):
        is_whole = pc.equal(values, pc.trunc(values))
        is_within = pc.and_(pc.greater_equal(values, float(low)), pc.less(values, float(high + 1)))
        return pc.invert(pc.and_(is_whole, is_within))
    if pa.types.is_decimal(values.type):
        return pc.not_equal(values, pc.trunc(values)) if values.type.scale else None
    if not pa.types.is_integer(values.type):
        return None
    limits = [(pc.less, low), (pc.greater, high)]
    of_type = pa.types.is_unsigned_integer(values.type)
    least, most = (0, 2**values.type.bit_width - 1) if of_type else _signed(values.type.bit_width)
    masks = [compare(values, pa.scalar(limit, values.type)) for compare, limit in limits if least <= limit <= most]
    return pc.or_(*masks) if len(masks) == 2 else masks[0] if masks else None


def _signed(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _beyond_times(values: pa.Array, low: int, high: int) -> pa.Array | None:
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32())
        return pc.or_(pc.less(days, low // _MICROSECONDS_A_DAY), pc.greater(days, high // _MICROSECONDS_A_DAY))
    if not pa.types.is_timestamp(values.type):
        return None
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    return pc.or_(pc.less(micros, low), pc.greater(micros, high))
