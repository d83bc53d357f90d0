"""Binds calls of date and time functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import no_arrow_form, text_literal
from etl.expressions.casts import bind_conversion, cast, floor_divide
from etl.expressions.rows import ActiveRows
from etl.expressions.values import time_patterns, time_texts
from etl.expressions.values.number_casts import bounds, truncate
from etl.expressions.values.times import outside_calendar
from etl.expressions.widening import DATE, DOUBLE, FLOATS, INT8, INT16, INT32, INT64, INTEGERS, NULL, STRING


def date_part(kernel: Callable[[Any], Any]) -> Callable[[BoundNode], BoundNode]:
    """A function of a date, such as ``year``; texts are cast to date."""

    def build(value: BoundNode) -> BoundNode:
        day = value if value.type in (DATE, TIMESTAMP) else cast(value, DATE)
        return b.apply_failing(INT32, partial(_in_calendar, lambda x: pc.cast(kernel(x), INT32)), day)

    return build


def _in_calendar(kernel: Callable[[Any], Any], rows: ActiveRows, values: Any) -> Any:
    """Fail rows with a year beyond Arrow's calendar, which Spark can compute."""
    outside = outside_calendar(values)
    if outside is not None:
        rows.fail(outside, "the year is more than 30,000 years away")
    return kernel(values)


def time_part(kernel: Callable[[Any], Any]) -> Callable[[BoundNode], BoundNode]:
    return lambda value: b.apply(INT32, lambda x: pc.cast(kernel(x), INT32), cast(value, TIMESTAMP))


_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mon": "month", "mm": "month",
    "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def date_trunc(unit: BoundNode, time: BoundNode) -> BoundNode:
    name = _UNITS.get((text_literal(unit) or "").lower())
    if name is None:
        return no_arrow_form("date_trunc() to this unit", TIMESTAMP)
    return b.apply_failing(TIMESTAMP, partial(_in_calendar, lambda x: pc.floor_temporal(x, unit=name)), cast(time, TIMESTAMP))


def to_timestamp(text: BoundNode, pattern: BoundNode | None = None, *, safe: bool = False) -> BoundNode:
    """``to_timestamp``; if ``safe``, ``try_to_timestamp``."""
    if pattern is None:
        return cast(text, TIMESTAMP, safe=safe)
    layout = text_literal(pattern)
    read = time_patterns.reader(layout) if layout is not None and text.type == STRING else None
    if read is None:
        shown = "a computed pattern" if layout is None else f"the pattern {layout!r}"
        return no_arrow_form(f"to_timestamp() with {shown} (the step `timestamp` reads many formats on Arrow)", TIMESTAMP)
    return bind_conversion(text, TIMESTAMP, read, f"timestamp by {layout!r}", safe=safe)


def date_format(time: BoundNode, pattern: BoundNode) -> BoundNode:
    """``date_format`` by a constant pattern of letters that mean the same for all times and in all locales."""
    layout = text_literal(pattern)
    if layout is None:
        return no_arrow_form("date_format() with a computed pattern", STRING)
    try:
        write = time_texts.writer(layout)
    except time_texts.BadPatternError as error:
        return no_arrow_form(f"date_format(): {error}; it", STRING)
    return b.apply_failing(STRING, partial(_in_calendar, write), cast(time, TIMESTAMP))


def to_date(text: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    return cast(text if pattern is None else to_timestamp(text, pattern), DATE)


def epoch(divisor: int) -> Callable[[BoundNode], BoundNode]:
    def build(time: BoundNode) -> BoundNode:
        if time.type not in (TIMESTAMP, NULL):
            return no_arrow_form("an epoch of something that is not a timestamp", INT64)
        return b.apply(
            INT64, lambda x: floor_divide(pc.cast(x, INT64), divisor) if divisor > 1 else pc.cast(x, INT64), cast(time, TIMESTAMP)
        )

    return build


def unix_timestamp(time: BoundNode) -> BoundNode:
    """Whole seconds, rounded toward zero, while ``unix_seconds`` rounds down."""
    if time.type not in (TIMESTAMP, NULL):
        return no_arrow_form("unix_timestamp() of something that is not a timestamp", INT64)
    return b.apply(INT64, lambda x: pc.divide(pc.cast(x, INT64), 1_000_000), cast(time, TIMESTAMP))


def timestamp_of(factor: int) -> Callable[[BoundNode], BoundNode]:
    """The time of a whole number of units since 1970; ``factor`` is the microseconds of a unit."""

    def build(number: BoundNode) -> BoundNode:
        if number.type not in (*INTEGERS, NULL):
            return no_arrow_form("a timestamp of what is not a whole number", TIMESTAMP)
        return b.apply_failing(TIMESTAMP, partial(_as_micros, factor), cast(number, INT64))

    return build


def _as_micros(factor: int, rows: ActiveRows, numbers: Any) -> Any:
    if factor > 1:
        high = bounds(INT64)[1] // factor
        low = -(bounds(INT64)[1] // factor)
        outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
        rows.fail(outside, "long overflow")
        numbers = pc.multiply(numbers, factor)
    return pc.cast(numbers, TIMESTAMP)


def timestamp_seconds(number: BoundNode) -> BoundNode:
    """The time of seconds since 1970, with a fraction; null of NaN and of infinity."""
    if number.type not in FLOATS:
        return timestamp_of(1_000_000)(number)
    return b.apply(TIMESTAMP, _of_fractions, cast(number, DOUBLE))


def _of_fractions(seconds: Any) -> Any:
    low, high = bounds(INT64)
    micros = pc.multiply(pc.if_else(pc.is_finite(seconds), seconds, pa.scalar(None, DOUBLE)), 1e6)
    whole, outside = truncate(micros, INT64)
    if outside is not None:  # Java's cast gives the nearest number
        whole = pc.if_else(outside, pc.if_else(pc.less(micros, 0.0), low, high), whole)
    return pc.cast(whole, TIMESTAMP)


# ── Days and intervals ────────────────────────────────────────────────────────────────────────────


def add_days(sign: int) -> Callable[[BoundNode, BoundNode], BoundNode]:
    """``date_add``, or ``date_sub`` by a sign of -1; beyond the range of dates the count wraps around, as in Spark."""

    def build(day: BoundNode, days: BoundNode) -> BoundNode:
        if days.type not in (INT8, INT16, INT32):
            return no_arrow_form("a date after what is not a whole number of days", DATE)
        change = pc.add if sign > 0 else pc.subtract
        run = lambda date, count: pc.cast(change(pc.cast(date, INT32), count), DATE)  # noqa: E731
        return b.apply(DATE, run, cast(day, DATE), cast(days, INT32))

    return build


def days_between(last: BoundNode, first: BoundNode) -> BoundNode:
    """``datediff(last, first)`` in days."""
    return b.apply(INT32, lambda x, y: pc.subtract(pc.cast(x, INT32), pc.cast(y, INT32)), cast(last, DATE), cast(first, DATE))


def add_micros(time: BoundNode, micros: int) -> BoundNode:
    """A timestamp, or a date's midnight, and an interval of a fixed length."""
    return b.apply_failing(TIMESTAMP, partial(_later, micros), cast(time, TIMESTAMP))


def _later(micros: int, rows: ActiveRows, times: Any) -> Any:
    numbers = pc.cast(times, INT64)
    low, high = bounds(INT64)
    rows.fail(pc.greater(numbers, high - micros) if micros > 0 else pc.less(numbers, low - micros), "long overflow")
    return pc.cast(pc.add(numbers, micros), TIMESTAMP)
