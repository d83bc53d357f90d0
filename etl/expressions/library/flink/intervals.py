"""Intervals as values of expressions: days to milliseconds, and years to months. They exist within expressions only."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.library.function import MONTHS, flink_function
from etl.expressions.library.kernels import on_columns
from etl.expressions.widening import INT32, INT64, STRING

MILLIS = pa.duration("ms")

_SIZES = {
    "day": (86_400_000, None),
    "hour": (3_600_000, 24),
    "minute": (60_000, 60),
    "second": (1000, 60),
    "millisecond": (1, 1000),
}
"""Milliseconds of a part of an interval, and after how many of it the next larger one begins."""


def _months(values: pa.Array) -> pa.Array:
    """int32 → intervals of that number of months."""
    import numpy as np

    parts = np.zeros(len(values), np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")]))
    parts["months"] = values.fill_null(0).to_numpy(zero_copy_only=False)
    valid = pa.array(values.is_valid()).buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(MONTHS, len(values), [valid, pa.py_buffer(parts.tobytes())])


def _number(values: pa.Array) -> pa.Array:
    """Intervals → their months or milliseconds, int64."""
    if values.type == MILLIS:
        return values.cast(INT64)
    import numpy as np

    found = np.frombuffer(values.buffers()[1], "<i4")[::4][values.offset : values.offset + len(values)]
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(found.astype(np.int64), mask=mask)


def _text(values: pa.Array) -> pa.Array:
    """``+1 02:03:04.005`` or ``+1-02``."""
    numbers = _number(values)
    size = pc.abs(numbers)
    sign = pc.if_else(pc.less(numbers, 0), "-", "+")
    if values.type == MONTHS:
        years = pc.divide(size, 12)
        return pc.binary_join_element_wise(sign, years.cast(STRING), "-", _pad(pc.subtract(size, pc.multiply(years, 12)), 2), "")
    day, hour, minute, second, milli = (_part(size, name) for name in _SIZES)
    clock = pc.binary_join_element_wise(_pad(hour, 2), _pad(minute, 2), _pad(second, 2), ":")
    return pc.binary_join_element_wise(sign, day.cast(STRING), " ", clock, ".", _pad(milli, 3), "")


def _pad(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(STRING), width, "0")


def _part(size: pa.Array, name: str) -> pa.Array:
    unit, count = _SIZES[name]
    whole = pc.divide(size, unit)
    return whole if count is None else pc.subtract(whole, pc.multiply(pc.divide(whole, count), count))


def _extract(unit: BoundNode, interval: BoundNode) -> BoundNode:
    name = text_literal(unit)
    if interval.type == MONTHS and name in ("year", "month"):

        def of_months(values: pa.Array) -> Any:
            numbers = _number(values)
            years = pc.divide(numbers, 12)
            return years if name == "year" else pc.subtract(numbers, pc.multiply(years, 12))

        return on_columns(INT64, of_months, interval)
    if interval.type != MILLIS or name not in _SIZES:
        raise MisuseError(f"the interval has no part {name!r}")
    return on_columns(INT64, lambda values: _part(_number(values), name), interval)


FUNCTIONS = (
    flink_function(
        "interval_millis",
        "number: bigint",
        "an interval",
        lambda number: b.apply(MILLIS, lambda values: pc.cast(values, MILLIS), number),
        "The interval of a number of milliseconds.",
        "flink_interval_text(flink_interval_millis(1000))",
        "+0 00:00:01.000",
    ),
    flink_function(
        "interval_months",
        "number: bigint",
        "an interval",
        lambda number: on_columns(MONTHS, lambda values: _months(values.cast(INT32)), number),
        "The interval of a number of months.",
        "flink_interval_text(flink_interval_months(14))",
        "+1-02",
    ),
    flink_function(
        "interval_number",
        "interval: interval",
        "bigint",
        lambda interval: on_columns(INT64, _number, interval),
        "The milliseconds or months of an interval.",
        "flink_interval_number(flink_interval_millis(1000))",
        1000,
    ),
    flink_function(
        "interval_text",
        "interval: interval",
        "string",
        lambda interval: on_columns(STRING, _text, interval),
        "The text of an interval, as CAST gives it.",
        "flink_interval_text(flink_interval_months(-1))",
        "-0-01",
    ),
    flink_function(
        "interval_part",
        "unit: string, interval: interval",
        "bigint",
        _extract,
        "A part of an interval: `day`, `hour`, `minute`, `second`, `millisecond`, or `year`, `month`.",
        "flink_interval_part('minute', flink_interval_millis(90000))",
        1,
    ),
)
"""Functions of intervals."""
