"""Casts between texts, dates, timestamps and times of day."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import casts as spark
from etl.expressions.library.flink.number_casts import Converted
from etl.expressions.library.function import TIME
from etl.expressions.values.number_casts import BLANKS, where_any
from etl.expressions.values.times import timestamps
from etl.expressions.widening import (
    INT32,
    INT64,
)

_STAMP = (
    r"\A(?P<year>[0-9]{4,6})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,6})[0-9]*)?)?)?\z"
)


def parse_timestamps(values: Any) -> Converted:
    """``2024-01-02 03:04:05.678``, the time may be missing; Flink does not accept a ``T`` between date and time."""
    return timestamps(values, pc.extract_regex(pc.utf8_trim(values, BLANKS), _STAMP))


def text_to_time(values: Any) -> Converted:
    parts = pc.extract_regex(
        pc.utf8_trim(values, BLANKS), r"\A(?P<h>[0-9]{1,2})(?::(?P<m>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.[0-9]*)?)?)?\z"
    )

    def number(name: str) -> Any:
        found = pc.fill_null(pc.struct_field(parts, name), "")
        return pc.cast(pc.if_else(pc.equal(found, ""), "0", found), INT32)

    hour, minute, second = number("h"), number("m"), number("s")
    good = pc.and_(pc.is_valid(parts), pc.and_(pc.less(hour, 24), pc.and_(pc.less(minute, 60), pc.less(second, 60))))
    seconds = pc.add(pc.add(pc.multiply(hour, 3600), pc.multiply(minute, 60)), second)
    failed = where_any(pc.and_(pc.is_valid(values), pc.invert(good)))
    return pc.cast(pc.cast(pc.if_else(good, seconds, pa.scalar(None, seconds.type)), INT32), TIME), failed


def time_of_timestamp(values: Any) -> Any:
    micros = pc.cast(values, INT64)
    days = spark.floor_divide(micros, 86_400_000_000)
    seconds = pc.divide(pc.subtract(micros, pc.multiply(days, 86_400_000_000)), 1_000_000)
    return pc.cast(pc.cast(seconds, INT32), TIME)


def time_to_text(precision: int | None, values: Any) -> Any:
    """The time with as many digits of the fraction as its type has; as many as it needs if that is not known."""
    texts = pc.strftime(values, format="%Y-%m-%d %H:%M:%S")
    if precision is None:
        return pc.replace_substring_regex(texts, r"\.?0*\z", "") if pa.types.is_timestamp(values.type) else texts
    if precision >= 6:
        return texts
    return pc.utf8_slice_codeunits(texts, 0, 19 if precision == 0 else 20 + precision)


def truncate_time(values: Any, precision: int) -> Any:
    """A timestamp without the digits that a precision does not have."""
    unit = 10 ** (6 - precision)
    micros = pc.cast(values, INT64)
    return pc.cast(pc.multiply(spark.floor_divide(micros, unit), unit), values.type)
