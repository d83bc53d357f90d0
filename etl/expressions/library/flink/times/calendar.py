"""Days and months: dates from years and months, months added to times, months between times."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.widening import INT64

DAY = 86_400_000_000
"""Microseconds."""


def _floor(values: Any, divisor: int) -> Any:
    quotient = pc.divide(values, divisor)
    return pc.if_else(pc.less(values, pc.multiply(quotient, divisor)), pc.subtract(quotient, 1), quotient)


def days_of(year: Any, month: Any) -> Any:
    """Days from 1970 to the first of a month; months beyond 12 run on."""
    count = pc.subtract(month, 1)
    year = pc.add(year, _floor(count, 12))
    month = pc.add(pc.subtract(count, pc.multiply(_floor(count, 12), 12)), 1)
    early = pc.less_equal(month, 2)
    year = pc.subtract(year, pc.if_else(early, 1, 0))
    month = pc.if_else(early, pc.add(month, 9), pc.subtract(month, 3))
    leaps = pc.add(pc.subtract(_floor(year, 4), _floor(year, 100)), _floor(year, 400))
    in_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    return pc.subtract(pc.add(pc.add(pc.multiply(year, 365), leaps), in_year), 719_468)


def days_in_month(year: Any, month: Any) -> Any:
    return pc.subtract(days_of(year, pc.add(month, 1)), days_of(year, month))


def add_months(micros: Any, months: Any) -> Any:
    """Microseconds some months later; a day that the month lacks is its last."""
    days = _floor(micros, DAY)
    times = pc.cast(micros, pa.timestamp("us"))
    year, day = pc.cast(pc.year(times), INT64), pc.cast(pc.day(times), INT64)
    month = pc.add(pc.cast(pc.month(times), INT64), months)
    day = pc.min_element_wise(day, days_in_month(year, month), skip_nulls=False)
    target = pc.subtract(pc.add(days_of(year, month), day), 1)
    return pc.add(micros, pc.multiply(pc.subtract(target, days), DAY))


def months_between(first: Any, last: Any) -> Any:
    """Whole months from one time to another."""
    one, other = pc.cast(first, pa.timestamp("us")), pc.cast(last, pa.timestamp("us"))
    count = pc.add(
        pc.multiply(pc.subtract(pc.cast(pc.year(other), INT64), pc.cast(pc.year(one), INT64)), 12),
        pc.subtract(pc.cast(pc.month(other), INT64), pc.cast(pc.month(one), INT64)),
    )
    candidate = add_months(first, count)
    too_far = pc.and_(pc.greater(count, 0), pc.greater(candidate, last))
    too_near = pc.and_(pc.less(count, 0), pc.less(candidate, last))
    return pc.subtract(count, pc.subtract(pc.if_else(too_far, 1, 0), pc.if_else(too_near, 1, 0)))
