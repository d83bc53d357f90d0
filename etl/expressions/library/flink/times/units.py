"""Flink's functions that take the unit of a time: EXTRACT, TIMESTAMPADD, TIMESTAMPDIFF; OVERLAPS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.times import calendar
from etl.expressions.library.flink.times.texts import ANY_TIME
from etl.expressions.library.function import TIME, flink_function
from etl.expressions.widening import BOOLEAN, DATE, INT32, INT64, NULL


def _century(span: int) -> Callable[[Any], Any]:
    return lambda x: pc.add(pc.divide(pc.subtract(pc.year(x), 1), span), 1)


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": lambda x: pc.year(x),
    "quarter": lambda x: pc.quarter(x),
    "month": lambda x: pc.month(x),
    "week": lambda x: pc.iso_week(x),
    "day": lambda x: pc.day(x),
    "dow": lambda x: pc.day_of_week(x, count_from_zero=False, week_start=7),
    "isodow": lambda x: pc.day_of_week(x, count_from_zero=False),
    "doy": lambda x: pc.day_of_year(x),
    "isoyear": lambda x: pc.iso_year(x),
    "century": _century(100),
    "millennium": _century(1000),
    "decade": lambda x: pc.divide(pc.year(x), 10),
    "epoch": lambda x: calendar._floor(pc.cast(pc.cast(x, TIMESTAMP), INT64), 1_000_000),
    "hour": lambda x: pc.hour(x),
    "minute": lambda x: pc.minute(x),
    "second": lambda x: pc.second(x),
    "millisecond": lambda x: _micros_of_second(x, 1000),
    "microsecond": lambda x: _micros_of_second(x, 1),
    "nanosecond": lambda x: pc.multiply(_micros_of_second(x, 1), 1000),
}


_CLOCK = {"hour": 3600, "minute": 60, "second": 1}


def _micros_of_second(values: Any, divisor: int) -> Any:
    micros = pc.cast(pc.cast(values, TIMESTAMP), INT64)
    return pc.divide(pc.subtract(micros, pc.multiply(calendar._floor(micros, 1_000_000), 1_000_000)), divisor)


def extract(unit: BoundNode, time: BoundNode) -> BoundNode:
    name = (text_literal(unit) or "").lower()
    if name not in _PARTS:
        raise MisuseError(f"{name!r} is not a part of a time; parts are {', '.join(_PARTS)}")
    if time.type == TIME:
        seconds = _CLOCK.get(name)
        if seconds is None:
            raise MisuseError(f"a time of day has no {name}")
        limit = 24 if name == "hour" else 60
        return b.apply(INT64, lambda x: _remainder(pc.divide(pc.cast(pc.cast(x, INT32), INT64), seconds), limit), time)
    if time.type == DATE and name in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond"):
        time = cast(time, TIMESTAMP)
    return b.apply(INT64, lambda x: pc.cast(_PARTS[name](x), INT64), cast(time, DATE) if time.type == NULL else time)


def _remainder(values: Any, divisor: int) -> Any:
    return pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))


_MICROS = {
    "microsecond": 1, "millisecond": 1000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": calendar.DAY,
    "week": 7 * calendar.DAY,
}  # fmt: skip


_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}


def _unit(unit: BoundNode) -> str:
    name = (text_literal(unit) or "").lower().removeprefix("sql_tsi_")
    if name not in _MICROS and name not in _MONTHS:
        raise MisuseError(f"{name!r} is not a unit of time; units are {', '.join([*_MICROS, *_MONTHS])}")
    return name


def timestampadd(unit: BoundNode, count: BoundNode, time: BoundNode) -> BoundNode:
    """A date stays a date where the unit is a day or longer."""
    name = _unit(unit)
    number = cast(count, INT64)
    if time.type == TIME:
        return b.apply(TIME, partial(_add_to_clock, _MICROS.get(name, 0) // 1_000_000), number, time)
    is_date = time.type == DATE and (name in _MONTHS or _MICROS[name] % calendar.DAY == 0)
    moment = cast(time, TIMESTAMP) if time.type in (DATE, NULL) else time

    def kernel(numbers: Any, times: Any) -> Any:
        micros = pc.cast(times, INT64)
        if name in _MONTHS:
            return pc.cast(calendar.add_months(micros, pc.multiply(numbers, _MONTHS[name])), moment.type)
        return pc.cast(pc.add(micros, pc.multiply(numbers, _MICROS[name])), moment.type)

    made = b.apply(moment.type, kernel, number, moment)
    return cast(made, DATE) if is_date else made


def _add_to_clock(seconds: int, numbers: Any, times: Any) -> Any:
    total = pc.add(pc.cast(pc.cast(times, INT32), INT64), pc.multiply(numbers, seconds))
    return pc.cast(pc.cast(pc.subtract(total, pc.multiply(calendar._floor(total, 86_400), 86_400)), INT32), TIME)


def timestampdiff(unit: BoundNode, first: BoundNode, last: BoundNode) -> BoundNode:
    name = _unit(unit)
    sides = [side if side.type == TIMESTAMP else cast(side, TIMESTAMP) for side in (first, last)]

    def kernel(x: Any, y: Any) -> Any:
        one, other = pc.cast(x, INT64), pc.cast(y, INT64)
        if name in _MONTHS:
            return pc.cast(pc.divide(calendar.months_between(one, other), _MONTHS[name]), INT32, safe=False)
        return pc.cast(pc.divide(pc.subtract(other, one), _MICROS[name]), INT32, safe=False)

    return b.apply(INT32, kernel, *sides)


def overlaps(*ends: BoundNode) -> BoundNode:
    """Whether two spans of time have a moment together; each is given by its ends in any order."""
    numbers = [_as_number(end) for end in ends]

    def kernel(a: Any, z: Any, c: Any, y: Any) -> Any:
        spans = [
            (pc.min_element_wise(*one, skip_nulls=False), pc.max_element_wise(*one, skip_nulls=False)) for one in ((a, z), (c, y))
        ]
        (first, last), (other, end) = spans
        return pc.and_(pc.greater_equal(last, other), pc.greater_equal(end, first))

    return b.apply(BOOLEAN, kernel, *numbers)


def _as_number(time: BoundNode) -> BoundNode:
    if time.type == TIME:
        return b.apply(INT64, lambda x: pc.cast(pc.cast(x, INT32), INT64), time)
    return b.apply(INT64, lambda x: pc.cast(x, INT64), cast(time, TIMESTAMP) if time.type != TIMESTAMP else time)


FUNCTIONS = (
    flink_function(
        "extract",
        f"unit: string, time: {ANY_TIME}",
        "bigint",
        extract,
        "A part of a time: year, quarter, month, week (ISO), day, dow (Sunday is 1), doy, isodow, isoyear, epoch or hour.",
        "flink_extract('dow', date'2024-01-07')",
        1,
    ),
    flink_function(
        "timestampadd",
        f"unit: string, count: integer, time: {ANY_TIME}",
        "the time's type",
        timestampadd,
        "A time some units later; a day that the month lacks is its last.",
        "flink_timestampadd('month', 1, date'2024-01-31')",
        "2024-02-29",
    ),
    flink_function(
        "timestampdiff",
        "unit: string, first: timestamp|date, last: timestamp|date",
        "int",
        timestampdiff,
        "The whole units from one time to another.",
        "flink_timestampdiff('day', date'2024-03-01', date'2024-02-28')",
        -2,
    ),
    flink_function(
        "overlaps",
        f"begin: {ANY_TIME}, end: {ANY_TIME}, other_begin: {ANY_TIME}, other_end: {ANY_TIME}",
        "boolean",
        overlaps,
        "Whether two spans of time have a moment together.",
        "flink_overlaps(date'2024-01-01', date'2024-02-01', date'2024-02-01', date'2024-03-01')",
        True,
    ),
)
