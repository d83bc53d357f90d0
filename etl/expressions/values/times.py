"""Parses and prints dates and timestamps as Spark does in UTC."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions.values.number_casts import BLANKS

_MONTH_AND_DAY = r"(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_ZONE = r"Z|(?:UTC|GMT|UT)?[+-](?:[0-9]{1,2}(?::[0-9]{1,2}|:[0-9]{2}:[0-9]{2})?|[0-9]{4}|[0-9]{6})|UTC|UT|GMT0?"
_STAMP = (
    r"\A(?P<year>[+-]?[0-9]{4,6})" + _MONTH_AND_DAY + r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,6})[0-9]*)?(?:[\x00-\x20]*(?P<zone>" + _ZONE + r"))?)?)?)?)?)?\z"
)
_DAY = r"\A(?P<year>[+-]?[0-9]{4,7})" + _MONTH_AND_DAY + r"(?:[ T].*)?)?)?\z"
_DAY_MICROS = 86_400_000_000
_MAX_DAYS = 2**63 // _DAY_MICROS
"""Maximum days before and after 1970 that a timestamp, 64 bits of microseconds, can hold."""
_CALENDAR_DAYS = 11_200_000
"""Days before and after 1970 for which Arrow's calendar is right: its years have 16 bits."""
_ERAS = 25_000
"""Periods of 400 years before the year 0 that a year of seven digits needs."""


def outside_calendar(values: Any) -> Any:
    """Mask of the dates or timestamps for which Arrow would give a wrong year; None if there are none."""
    if pa.types.is_date(values.type):
        number, limit = pc.cast(values, pa.int32()), _CALENDAR_DAYS
    else:
        number, limit = pc.cast(values, pa.int64()), _CALENDAR_DAYS * _DAY_MICROS
    outside = pc.or_(pc.less(number, -limit), pc.greater(number, limit))
    return outside if pc.any(outside).as_py() else None


def print_timestamps(values: Any, pattern: str) -> Any:
    """strftime with Spark's years: a plus sign before more than four digits."""
    texts = pc.strftime(values, pattern)
    return pc.replace_substring_regex(texts, r"\A([0-9]{5,})", r"+\1")


def parse_dates(values: Any) -> tuple[Any, Any]:
    """ISO dates, which any time may follow → dates, and the mask of failed rows."""
    parts = pc.extract_regex(pc.utf8_trim(values, BLANKS), _DAY)
    days, good = _days(parts)
    failed = pc.and_(pc.is_valid(values), pc.invert(good))
    days = pc.if_else(good, days, pa.scalar(None, pa.int32()))
    return pc.cast(days, pa.date32()), failed if pc.any(failed).as_py() else None


def parse_timestamps(values: Any) -> tuple[Any, Any]:
    """ISO timestamps, in UTC if they have no offset → timestamps, and the mask of failed rows.

    Two forms that Spark reads fail here: a time without a day (today, for Spark), and the name of a time zone (``CET``).
    """
    return timestamps(values, pc.extract_regex(pc.utf8_trim(values, BLANKS), _STAMP))


def timestamps(values: Any, parts: Any) -> tuple[Any, Any]:
    """Year, month, day, hour, minute, second, fraction and zone as texts → timestamps, and the mask of failed rows.

    A row of ``parts`` is null if its text did not match; an empty or missing part has its least value.
    """
    days, good = _days(parts)
    hour, minute, second = (_number(parts, name) for name in ("hour", "minute", "second"))
    fraction = pc.cast(pc.utf8_rpad(pc.if_else(good, _part(parts, "fraction"), "0"), 6, "0"), pa.int64())
    offset, offset_good = _offset(_part(parts, "zone"))
    for part, limit in ((hour, 23), (minute, 59), (second, 59)):
        good = pc.and_(good, pc.less_equal(part, limit))
    good = pc.and_(pc.and_(good, offset_good), pc.less(pc.abs(days), _MAX_DAYS))
    days = pc.if_else(good, pc.cast(days, pa.int64()), 0)
    seconds = pc.subtract(pc.add(pc.add(pc.multiply(hour, 3600), pc.multiply(minute, 60)), second), offset)
    micros = pc.add(pc.add(pc.multiply(days, _DAY_MICROS), pc.multiply(seconds, 1_000_000)), fraction)
    failed = pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(good, False)))
    micros = pc.if_else(pc.fill_null(good, False), micros, pa.scalar(None, pa.int64()))
    return pc.cast(micros, TIMESTAMP), failed if pc.any(failed).as_py() else None


def _part(parts: Any, name: str) -> Any:
    if parts.type.get_field_index(name) < 0:
        return pa.scalar("")
    return pc.fill_null(pc.struct_field(parts, name), "")


def _number(parts: Any, name: str, default: str = "0") -> Any:
    text = pc.utf8_ltrim(_part(parts, name), "+")
    return pc.cast(pc.if_else(pc.equal(text, ""), default, text), pa.int64())


def _days(parts: Any) -> tuple[Any, Any]:
    """Year, month, day → days since 1970, and the mask of existing dates."""
    year, month, day = (_number(parts, name, "1") for name in ("year", "month", "day"))
    matched = pc.is_valid(parts)
    leap = pc.and_(pc.equal(_modulo(year, 4), 0), pc.or_(pc.not_equal(_modulo(year, 100), 0), pc.equal(_modulo(year, 400), 0)))
    short = pc.is_in(month, value_set=pa.array([4, 6, 9, 11]))
    last = pc.if_else(pc.equal(month, 2), pc.if_else(leap, 29, 28), pc.if_else(short, 30, 31))
    good = pc.and_(matched, pc.and_(_is_between(month, 1, 12), pc.and_(pc.greater_equal(day, 1), pc.less_equal(day, last))))
    days = _days_from_civil(year, month, day)
    good = pc.and_(pc.fill_null(good, False), pc.less(pc.abs(days), 2**31))
    return pc.cast(pc.if_else(good, days, 0), pa.int32()), good


def _days_from_civil(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970-01-01 in the proleptic Gregorian calendar; years are counted from March."""
    early = pc.less_equal(month, 2)
    year = pc.add(pc.subtract(year, pc.if_else(early, 1, 0)), 400 * _ERAS)  # so that no dividend is negative
    month = pc.if_else(early, pc.add(month, 9), pc.subtract(month, 3))
    leaps = pc.add(pc.subtract(pc.divide(year, 4), pc.divide(year, 100)), pc.divide(year, 400))
    in_year = pc.add(pc.divide(pc.add(pc.multiply(month, 153), 2), 5), day)
    return pc.subtract(pc.add(pc.add(pc.multiply(year, 365), leaps), in_year), 719_469 + 146_097 * _ERAS)


def _offset(zones: Any) -> tuple[Any, Any]:
    """``+01:30`` → seconds east of UTC, and the mask of valid offsets (at most 18 hours)."""
    parts = pc.extract_regex(zones, r"(?P<sign>[+-])(?P<hours>[0-9]{1,2}):?(?P<minutes>[0-9]{1,2})?:?(?P<seconds>[0-9]{2})?\z")
    hours, minutes, seconds = (_number(parts, name) for name in ("hours", "minutes", "seconds"))
    total = pc.add(pc.add(pc.multiply(hours, 3600), pc.multiply(minutes, 60)), seconds)
    good = pc.and_(pc.less_equal(total, 18 * 3600), pc.less_equal(pc.max_element_wise(minutes, seconds), 59))
    return pc.if_else(pc.equal(_part(parts, "sign"), "-"), pc.negate(total), total), good


def _modulo(values: Any, divisor: int) -> Any:
    return pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))


def _is_between(values: Any, low: int, high: int) -> Any:
    return pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
