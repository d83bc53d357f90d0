"""Script functions that add to dates, and take or compare their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.casts import cast
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import on_columns
from etl.expressions.library.rsql.arguments import as_whole, constant_text
from etl.expressions.library.rsql.time_values import SECONDS, SIZES, as_time, format_time, shift, time_format
from etl.expressions.library.rsql.times import DATE_WITH_PATTERN, SAMPLE_DATE, date_function
from etl.expressions.widening import INT32, INT64, STRING


def _shift(unit: str, value: BoundNode, count: BoundNode, pattern: BoundNode | None) -> BoundNode:
    return format_time(on_columns(SECONDS, partial(shift, unit), as_time(value, pattern), as_whole(count)), pattern)


def _build_addition(unit: str) -> Callable[..., BoundNode]:
    """``add(date, count)`` or ``add(date, pattern, count)``."""
    return lambda value, first, second=None: _shift(
        unit, value, first if second is None else second, None if second is None else first
    )


_TIME_UNITS = {**{one: one for one in (*SIZES, "month", "year")}, "mm": "minute", "hh": "hour", "dd": "day", "ss": "second"}


_DATE_UNITS = {
    **dict.fromkeys(("yyyy", "year"), "year"),
    **dict.fromkeys(("MM", "month"), "month"),
    **dict.fromkeys(("dd", "day"), "day"),
    **dict.fromkeys(("hh", "hour"), "hour"),
    **dict.fromkeys(("mm", "minute", "mi"), "minute"),
    **dict.fromkeys(("ss", "second"), "second"),
}


def _time_add(value: BoundNode, part: BoundNode, count: BoundNode) -> BoundNode:
    unit = _TIME_UNITS.get(constant_text(part, "the unit").lower())
    if unit is None:
        raise MisuseError(f"{part.value!r} is not a unit", hint=f"one of: {', '.join(_TIME_UNITS)}")
    return _shift(unit, value, count, None)


def _date_add(value: BoundNode, part: BoundNode, count: BoundNode) -> BoundNode:
    """The date unchanged if the unit is unknown, as in RocketMQ Streams."""
    unit = _DATE_UNITS.get(constant_text(part, "the unit"))
    return format_time(as_time(value), None) if unit is None else _shift(unit, value, count, None)


def _part(kernel: Callable[[Any], Any]) -> Callable[..., BoundNode]:
    return lambda value, pattern=None: b.apply(INT32, lambda time: pc.cast(kernel(time), INT32), as_time(value, pattern))


def _weekday(time: Any) -> Any:
    return pc.day_of_week(time, count_from_zero=True, week_start=7)


def _week(time: Any) -> Any:
    """Weeks begin on Sunday, and the first is that of 1 January."""
    weekday, day = _weekday(time), pc.day_of_year(time)
    first = pc.subtract(pc.add(day, 6), weekday)
    saturday = pc.cast(pc.add(pc.cast(time, INT64), pc.multiply(pc.subtract(6, weekday), 86400)), SECONDS)
    return pc.if_else(pc.equal(pc.year(saturday), pc.year(time)), pc.divide(pc.add(first, 6), 7), 1)


_PARTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("yyyy", "year"), pc.year),
    **dict.fromkeys(("MM", "month"), pc.month),
    **dict.fromkeys(("dd", "day"), pc.day),
    **dict.fromkeys(("hh", "hour"), pc.hour),
    **dict.fromkeys(("mm", "minute", "mi"), pc.minute),
    **dict.fromkeys(("ss", "second"), pc.second),
}


def _date_part(value: BoundNode, first: BoundNode, second: BoundNode | None = None) -> BoundNode:
    part = constant_text(second or first, "the part")
    kernel = _PARTS.get(part) or _PARTS.get(part.lower())
    if kernel is None:
        raise MisuseError(f"{part!r} is not a part of a date", hint=f"one of: {', '.join(_PARTS)}")
    number = b.apply(INT32, lambda time: pc.cast(kernel(time), INT32), as_time(value, first if second else None))
    return cast(number, STRING)


def _truncate(value: BoundNode, part: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    unit = constant_text(part, "the unit").lower()
    if unit not in ("year", "quarter", "month", "week", "day", "hour", "minute"):
        raise MisuseError(f"{unit!r} is not a unit", hint="one of: year, quarter, month, week, day, hour, minute")
    return format_time(b.apply(SECONDS, partial(pc.floor_temporal, unit=unit), as_time(value, pattern)), pattern)


def _last_day(value: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    def run(time: pa.Array) -> pa.Array:
        one = pa.repeat(pa.scalar(1, INT64), len(time))
        day = pc.subtract(1, pc.cast(pc.day(time), INT64))
        first = shift("day", time, day)
        return shift("day", shift("month", first, one), pa.repeat(pa.scalar(-1, INT64), len(time)))

    return format_time(on_columns(SECONDS, run, as_time(value, pattern)), pattern)


_WEEKDAYS = {name: number for number, name in enumerate(("su", "mo", "tu", "we", "th", "fr", "sa"))}


def _next_day(value: BoundNode, week: BoundNode) -> BoundNode:
    """The first such weekday after a date, as a day."""
    name = constant_text(week, "the weekday").strip().lower()
    if name[:2] not in _WEEKDAYS:
        raise MisuseError(f"{name!r} is not a weekday", hint="monday, mo …")

    def run(time: pa.Array) -> pa.Array:
        ahead = pc.subtract(_WEEKDAYS[name[:2]], _weekday(time))
        return shift("day", time, pc.cast(pc.if_else(pc.less_equal(ahead, 0), pc.add(ahead, 7), ahead), INT64))

    format_ = time_format("yyyy-MM-dd", is_read=False)
    return b.apply(STRING, lambda time: pc.strftime(time, format=format_), on_columns(SECONDS, run, as_time(value)))


def _days_between(one: BoundNode, other: BoundNode) -> BoundNode:
    def run(left: Any, right: Any) -> Any:
        return pc.divide(pc.subtract(pc.cast(left, INT64), pc.cast(right, INT64)), 86400)

    return b.apply(INT64, run, as_time(one), as_time(other))


def _parts() -> tuple[LibraryFunction, ...]:
    kernels = (
        ("year", pc.year, "Year", 2022),
        ("month", pc.month, "Month", 4),
        ("day", pc.day, "Day of the month", 8),
        ("hour", pc.hour, "Hour", 13),
        ("minute", pc.minute, "Minute", 45),
        ("second", pc.second, "Second", 30),
        ("quarter", pc.quarter, "Quarter", 2),
        ("weekday", _weekday, "Day of the week from Sunday, 0, to Saturday, 6,", 5),
        ("weekofyear", _week, "Week of the year; weeks begin on Sunday, the first is that of 1 January,", 15),
    )
    return tuple(
        date_function(name, DATE_WITH_PATTERN, "int", _part(kernel), f"{words} of a date.", f"{name}({SAMPLE_DATE})", gives)
        for name, kernel, words, gives in kernels
    )


def _additions() -> tuple[LibraryFunction, ...]:
    gives = {
        "hour": "2022-04-08 15:45:30",
        "day": "2022-04-10 13:45:30",
        "month": "2022-06-08 13:45:30",
        "year": "2024-04-08 13:45:30",
    }
    return tuple(
        date_function(
            f"add{unit}",
            "date: any, pattern_or_count: any, count: any?",
            "string",
            _build_addition(unit),
            f"The date a number of {unit}s later; a pattern of the date may be given before the number.",
            f"add{unit}({SAMPLE_DATE}, 2)",
            gives[unit],
        )
        for unit in gives
    )


FUNCTIONS = (
    *_parts(),
    *_additions(),
    date_function(
        "timeadd",
        "date: any, unit: string, count: any",
        "string",
        _time_add,
        "The date a number of units later: second to year, in any case of letters.",
        f"timeadd({SAMPLE_DATE}, 'WEEK', 1)",
        "2022-04-15 13:45:30",
    ),
    date_function(
        "dateadd",
        "date: any, unit: string, count: any",
        "string",
        _date_add,
        "The date a number of units later: yyyy or year, MM or month, dd, hh, mm, ss; unchanged with another unit.",
        f"dateadd({SAMPLE_DATE}, 'hh', -3)",
        "2022-04-08 10:45:30",
    ),
    date_function(
        "datediff",
        "date: any, other: any",
        "bigint",
        _days_between,
        "Whole days from the second date to the first.",
        f"datediff({SAMPLE_DATE}, '2022-03-01 00:00:00')",
        38,
    ),
    date_function(
        "datepart",
        "date: any, pattern_or_part: string, part: string?",
        "string",
        _date_part,
        "A part of a date as a text; the date's pattern may stand before the part.",
        f"datepart({SAMPLE_DATE}, 'mm')",
        "45",
    ),
    date_function(
        "datetrunc",
        "date: any, unit: string, pattern: string?",
        "string",
        _truncate,
        "The start of the year, quarter, month, week, day, hour or minute of a date.",
        f"datetrunc({SAMPLE_DATE}, 'month')",
        "2022-04-01 00:00:00",
    ),
    date_function(
        "lastday",
        DATE_WITH_PATTERN,
        "string",
        _last_day,
        "The last day of a date's month, with its time.",
        "lastday('2024-02-10 00:00:00')",
        "2024-02-29 00:00:00",
    ),
    date_function(
        "nextday",
        "date: any, weekday: string",
        "string",
        _next_day,
        "The first such weekday after a date.",
        f"nextday({SAMPLE_DATE}, 'tu')",
        "2022-04-12",
    ),
)
