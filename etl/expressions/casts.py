"""Spark's ANSI casts on Arrow arrays: ``cast`` fails rows that it cannot convert, ``try_cast`` makes them null."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, format_type
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.values.number_casts import (
    BLANKS,
    Converted,
    bounds,
    narrow,
    text_to_double,
    text_to_float,
    text_to_integer,
    truncate,
    where_any,
)
from etl.expressions.values.times import outside_calendar, parse_dates, parse_timestamps, print_timestamps
from etl.expressions.widening import BOOLEAN, DATE, DOUBLE, FLOAT, FLOATS, INT64, INTEGERS, NULL, STRING, decimal_of, is_decimal

Convert: TypeAlias = Callable[[Any], Converted]

_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]
_REASON_LIMIT = 100
"""Maximum number of characters of a value in a message."""
_MICROS = 1_000_000
"""Microseconds of a second."""


def cast(value: BoundNode, target: pa.DataType, *, safe: bool = False) -> BoundNode:
    """Cast a node to another type; ``safe`` is ``try_cast``."""
    if value.type == target or value.unknown:
        return value if value.type == target else b.spark_only(value.reason or "", target)
    if value.type == NULL:
        return b.apply(target, lambda array: _nulls(array, target), value)
    if value.is_literal and is_decimal(value.type) and target in FLOATS:
        return b.literal(float(value.value), target)
    convert = find_converter(value.type, target)
    if convert is None:
        return b.spark_only(f"cast({format_type(value.type)} as {format_type(target)}) has no Arrow form", target)
    never_fails = (value.type, target) in _NEVER_FAIL or is_decimal(value.type) or is_decimal(target)
    return bind_conversion(value, target, convert, format_type(target), safe=safe or never_fails)


def bind_conversion(value: BoundNode, target: pa.DataType, convert: Convert, name: str, *, safe: bool) -> BoundNode:
    """Apply a conversion to a node: a value that cannot be converted is null if ``safe``, else a failed row."""
    if safe:
        return b.apply(target, partial(_convert_or_null, convert, target), value)
    return b.apply_failing(target, partial(_convert_or_fail, convert, name), value)


def find_converter(source: pa.DataType, target: pa.DataType) -> Convert | None:
    """The function that converts values of one type to another, or None if there is no Arrow form."""
    if source == target:
        return lambda values: (values, None)
    if source in INTEGERS and target in INTEGERS:
        return partial(narrow, target=target)
    if source in FLOATS and target in INTEGERS:
        return partial(truncate, target=target)
    if source == STRING and target in INTEGERS:
        return partial(text_to_integer, target=target)
    if (source in (*INTEGERS, BOOLEAN) and target in (*FLOATS, *INTEGERS)) or (source in FLOATS and target in FLOATS):
        return lambda values: (pc.cast(values, target, safe=False), None)
    if is_decimal(source) and target == DOUBLE:  # through a text, because that rounds as Java does
        return lambda values: (pc.cast(pc.cast(values, STRING), DOUBLE), None)
    if is_decimal(target) and _widens(source, target):
        return lambda values: (pc.cast(values, target), None)
    if source == TIMESTAMP and target in INTEGERS:
        return lambda values: narrow(_epoch_seconds(values), target)
    return _CONVERTERS.get((source, target))


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether each value of an integer or decimal type is also a value of the decimal type ``target``."""
    if source not in INTEGERS and not is_decimal(source):
        return False
    one = decimal_of(source)
    return bool(target.scale >= one.scale and target.precision - target.scale >= one.precision - one.scale)


def _convert_or_null(convert: Convert, target: pa.DataType, values: Any) -> Any:
    converted, failed = convert(values)
    return converted if failed is None else pc.if_else(failed, pa.scalar(None, target), converted)


def _convert_or_fail(convert: Convert, name: str, rows: ActiveRows, values: Any) -> Any:
    converted, failed = convert(values)
    if failed is not None:
        rows.fail(failed, lambda: describe_failures(broadcast(values, rows.length), name))
    return converted


def describe_failures(values: pa.Array, name: str) -> pa.Array:
    """Return the message for each value, such as ``cannot cast 'abc' to int``; a long text is cut."""
    shown = pc.utf8_slice_codeunits(values if values.type == STRING else pc.cast(values, STRING), 0, _REASON_LIMIT)
    quote = "'" if values.type == STRING else ""
    return pc.binary_join_element_wise(f"cannot cast {quote}", shown, f"{quote} to {name}", "")


def _nulls(values: Any, target: pa.DataType) -> Any:
    return pa.scalar(None, target) if isinstance(values, pa.Scalar) else pa.nulls(len(values), target)


# ── Booleans, texts, times ────────────────────────────────────────────────────────────────────────


def is_boolean_text(text: str) -> bool:
    """Whether Spark casts the text to a boolean, true or false."""
    return text.strip(BLANKS).lower() in (*_TRUE, *_FALSE)


def _text_to_boolean(values: Any) -> Converted:
    lower = pc.ascii_lower(pc.utf8_trim(values, BLANKS))
    true, false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    valid = pc.is_valid(values)
    return pc.if_else(valid, true, pa.scalar(None, BOOLEAN)), where_any(pc.and_(valid, pc.invert(pc.or_(true, false))))


def _boolean_to_text(values: Any) -> Converted:
    return pc.if_else(values, "true", "false"), None


def _integer_to_text(values: Any) -> Converted:
    return pc.cast(values, STRING), None


def _number_to_boolean(values: Any) -> Converted:
    return pc.not_equal(values, pa.scalar(0, values.type)), None


def _epoch_seconds(values: Any) -> Any:
    return floor_divide(pc.cast(values, INT64), _MICROS)


def floor_divide(values: Any, divisor: int) -> Any:
    """Integer division toward minus infinity."""
    quotient = pc.divide(values, divisor)
    below = pc.less(values, pc.multiply(quotient, divisor))
    return pc.if_else(below, pc.subtract(quotient, 1), quotient)


def _seconds_to_timestamp(values: Any) -> Converted:
    seconds = pc.cast(values, INT64)
    low, high = (int(limit / _MICROS) for limit in bounds(INT64))
    micros = pc.multiply(
        pc.min_element_wise(pc.max_element_wise(seconds, low, skip_nulls=False), high, skip_nulls=False), _MICROS
    )
    micros = pc.if_else(pc.greater(seconds, high), bounds(INT64)[1], micros)
    return pc.cast(pc.if_else(pc.less(seconds, low), bounds(INT64)[0], micros), TIMESTAMP), None


def _timestamp_to_double(values: Any) -> Converted:
    return pc.divide(pc.cast(pc.cast(values, INT64), DOUBLE, safe=False), float(_MICROS)), None


def _timestamp_to_date(values: Any) -> Converted:
    return pc.cast(pc.cast(floor_divide(pc.cast(values, INT64), 86_400 * _MICROS), pa.int32()), DATE), None


_DATE_LIMIT = bounds(INT64)[1] // (86_400 * _MICROS)


def _date_to_timestamp(values: Any) -> Converted:
    days = pc.cast(pc.cast(values, pa.int32()), INT64)
    outside = pc.greater(pc.abs(days), _DATE_LIMIT)
    micros = pc.multiply(pc.if_else(outside, 0, days), 86_400 * _MICROS)
    return pc.cast(micros, TIMESTAMP), where_any(outside)


def _date_to_text(values: Any) -> Converted:
    return print_timestamps(_date_to_timestamp(values)[0], "%Y-%m-%d"), outside_calendar(values)


def _timestamp_to_text(values: Any) -> Converted:
    return _trimmed_fraction(print_timestamps(values, "%Y-%m-%d %H:%M:%S")), outside_calendar(values)


def _trimmed_fraction(texts: Any) -> Any:
    return pc.replace_substring_regex(texts, r"(?:\.0{6}|(\.[0-9]*[1-9])0+)\z", r"\1")


_CONVERTERS: dict[tuple[pa.DataType, pa.DataType], Convert] = {
    (STRING, DOUBLE): text_to_double,
    (STRING, FLOAT): text_to_float,
    (STRING, BOOLEAN): _text_to_boolean,
    (STRING, DATE): parse_dates,
    (STRING, TIMESTAMP): parse_timestamps,
    (BOOLEAN, STRING): _boolean_to_text,
    (DATE, STRING): _date_to_text,
    (DATE, TIMESTAMP): _date_to_timestamp,
    (TIMESTAMP, STRING): _timestamp_to_text,
    (TIMESTAMP, DATE): _timestamp_to_date,
    (TIMESTAMP, DOUBLE): _timestamp_to_double,
    **{(type_, STRING): _integer_to_text for type_ in INTEGERS},
    **{(type_, BOOLEAN): _number_to_boolean for type_ in (*INTEGERS, *FLOATS)},
    **{(type_, TIMESTAMP): _seconds_to_timestamp for type_ in INTEGERS},
}

_NEVER_FAIL = {
    (source, target)
    for source in (*INTEGERS, BOOLEAN, *FLOATS, TIMESTAMP)
    for target in (*FLOATS, BOOLEAN, STRING, TIMESTAMP, DATE)
    if (source, target) != (TIMESTAMP, STRING)
} | {(a, b) for a in (BOOLEAN, *INTEGERS) for b in INTEGERS if a == BOOLEAN or a.bit_width <= b.bit_width}
