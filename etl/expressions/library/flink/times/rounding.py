"""``FLOOR(time TO unit)`` and ``CEIL(time TO unit)``: weeks begin on Sunday."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.function import TIME
from etl.expressions.widening import DATE, INT32, NULL

_UNITS = {"year": 1, "quarter": 1, "month": 1, "week": 1, "day": 1, "hour": 1, "minute": 1, "second": 1, "millisecond": 1}
_YEARS = {"decade": 10, "century": 100, "millennium": 1000}
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def round_time(name: str, value: BoundNode, unit: BoundNode) -> BoundNode:
    """The start of a unit, before (floor) or after (ceil) a time. Raises MisuseError for an unknown unit."""
    unit_name = (text_literal(unit) or "").lower()
    if unit_name not in _UNITS and unit_name not in _YEARS:
        raise MisuseError(f"{unit_name!r} is not a unit of time; units are {', '.join([*_UNITS, *_YEARS])}")
    if value.type == NULL:
        return value
    if value.type == TIME:
        return b.apply(TIME, partial(_round_clock, name, _SECONDS.get(unit_name, 86_400)), value)
    return b.apply(value.type, partial(_round, name, unit_name), value)


def _round(name: str, unit: str, values: Any) -> Any:
    type_ = values.type
    times = pc.cast(values, TIMESTAMP) if type_ == DATE else values
    start = _floor(unit, times)
    if name == "ceil":
        start = pc.if_else(pc.equal(start, times), start, _next(unit, start))
    return pc.cast(start, type_)


def _floor(unit: str, times: Any) -> Any:
    if unit in _YEARS:
        span = _YEARS[unit]
        years = pc.year(times)
        first = pc.multiply(pc.divide(pc.subtract(years, 0 if unit == "decade" else 1), span), span)
        return _year_start(pc.add(first, 0 if unit == "decade" else 1), times.type)
    if unit == "week":
        return pc.floor_temporal(times, unit="week", week_starts_monday=False)
    return pc.floor_temporal(times, unit=unit)


def _year_start(years: Any, type_: pa.DataType) -> Any:
    texts = pc.binary_join_element_wise(pc.utf8_lpad(pc.cast(years, pa.string()), 4, "0"), "-01-01", "")
    return pc.cast(pc.strptime(texts, format="%Y-%m-%d", unit="us"), type_)


def _next(unit: str, starts: Any) -> Any:
    if unit in _YEARS:
        return _year_start(pc.add(pc.year(starts), _YEARS[unit]), starts.type)
    options = {"week_starts_monday": False} if unit == "week" else {}
    return pc.ceil_temporal(starts, unit=unit, ceil_is_strictly_greater=True, **options)


def _round_clock(name: str, seconds: int, values: Any) -> Any:
    number = pc.cast(values, INT32)
    if name == "ceil":
        number = pc.add(number, seconds - 1)
    whole = pc.multiply(pc.divide(number, seconds), seconds)
    return pc.cast(pc.cast(pc.subtract(whole, pc.multiply(pc.divide(whole, 86_400), 86_400)), INT32), TIME)
