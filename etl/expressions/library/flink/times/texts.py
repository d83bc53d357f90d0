"""Flink's functions that read and write times: formats, UNIX times, time zones."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, whole_literal
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.times import zones
from etl.expressions.library.flink.times.casts import truncate_time
from etl.expressions.library.flink.times.parsing import layout, parse_times, to_times, unknown_letter
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value, constant
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.values.time_texts import BadPatternError, writer
from etl.expressions.values.times import parse_dates
from etl.expressions.widening import DATE, DOUBLE, FLOATS, INT64, NULL, STRING

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
"""The pattern of functions that are called without one."""


def _check_pattern(dialect: str, pattern: str) -> str | None:
    """The reason why a pattern of times is invalid; None for a valid one."""
    try:
        writer(pattern, dialect)
    except BadPatternError as error:
        return str(error)
    return None


def _write(dialect: str, time: BoundNode, pattern: BoundNode) -> BoundNode:
    """Format times; the pattern is one of ``java`` (DateTimeFormatter) or of ``simple`` (SimpleDateFormat)."""
    is_known, text = constant(pattern)
    if not is_known:
        return _write_each(dialect, time, pattern)
    if text is None:
        return b.apply(STRING, lambda x: pc.if_else(pc.is_valid(x), pa.scalar(None, STRING), pa.scalar(None, STRING)), time)
    try:
        return b.apply(STRING, writer(text, dialect), time)
    except BadPatternError as error:
        return b.apply_failing(STRING, partial(fail_all, str(error)), time)


def fail_all(reason: str, rows: ActiveRows, values: Any, type_: pa.DataType = STRING) -> Any:
    """Fail each row that has a value, for a constant pattern that is invalid."""
    rows.fail(pc.is_valid(values), reason)
    return pa.nulls(rows.length, type_)


def _write_each(dialect: str, time: BoundNode, pattern: BoundNode) -> BoundNode:
    """Format times by a pattern that differs from row to row."""

    def one(micros: int, text: str) -> Any:
        check_length(text)
        try:
            return writer(text, dialect)(pa.scalar(micros, INT64).cast(TIMESTAMP)).as_py()
        except BadPatternError as error:
            raise RowError(str(error)) from error

    return by_value(STRING, one)(b.apply(INT64, lambda x: pc.cast(x, INT64), time), pattern)


MAX_PATTERN = 200
"""Maximum length of a pattern that comes from an event, in characters: the time to prepare a pattern grows with its length."""


def check_length(pattern: str) -> None:
    """Raise RowError for a pattern that is too long."""
    if len(pattern) > MAX_PATTERN:
        raise RowError(f"the pattern has {len(pattern)} characters; one that is not a constant has at most {MAX_PATTERN}")


def date_format(time: BoundNode, pattern: BoundNode) -> BoundNode:
    if time.type == STRING:  # SimpleDateFormat reads and writes texts
        return _write("simple", _parse(time, None, lenient=True), pattern)
    return _write("java", cast(time, TIMESTAMP) if time.type == NULL else time, pattern)


def from_unixtime(seconds: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    time = b.apply(TIMESTAMP, partial(_instant, 1_000_000), seconds)
    return _write("simple", time, pattern or b.literal(DEFAULT_PATTERN, STRING))


def _instant(factor: int, number: Any) -> Any:
    """A number of units since 1970, of ``factor`` microseconds each → a time; null beyond the year 292,000, int64's range."""
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(number, limit), pc.greater_equal(number, -limit))
    return pc.cast(pc.multiply(pc.if_else(fits, number, pa.scalar(None, INT64)), factor), TIMESTAMP)


def _parse(text: BoundNode, pattern: BoundNode | None, *, lenient: bool) -> BoundNode:
    """Parse texts by a pattern; null where a text does not match, or the pattern is invalid."""
    is_known, given = (True, DEFAULT_PATTERN) if pattern is None else constant(pattern)
    if not is_known and pattern is not None:

        def one(value: str, time_format: str) -> int | None:
            known = layout(time_format, lenient=lenient) if len(time_format) <= MAX_PATTERN else None
            return None if known is None else parse_times(pa.array([value]), known, lenient=lenient)[0].as_py()

        return b.apply(TIMESTAMP, lambda x: pc.cast(x, TIMESTAMP), by_value(INT64, one, fails=False)(text, pattern))
    if lenient and given is not None and (letter := unknown_letter(given)):
        reason = f"the pattern {given!r} has {letter!r}, which means nothing there"
        return b.apply_failing(TIMESTAMP, partial(fail_all, reason, type_=TIMESTAMP), text)
    known = None if given is None else layout(given, lenient=lenient)
    if known is None:
        return b.apply(
            TIMESTAMP, lambda x: pc.if_else(pc.is_valid(x), pa.scalar(None, TIMESTAMP), pa.scalar(None, TIMESTAMP)), text
        )
    return b.apply(TIMESTAMP, to_times(lambda x: parse_times(x, known, lenient=lenient)), text)


def _parse_default_times(texts: pa.Array) -> pa.Array:
    """Parse ``2024-05-07``, also with a time of day, also with a fraction of a second of any length."""
    known = layout(DEFAULT_PATTERN, lenient=False)
    assert known is not None
    found = parse_times(pc.replace_substring_regex(texts, r"\.\z", ""), known, lenient=False)
    return pc.multiply(pc.divide(found, 1000), 1000)


def to_timestamp(text: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    if pattern is None:
        return b.apply(TIMESTAMP, to_times(_parse_default_times), text)
    return b.apply(TIMESTAMP, lambda x: truncate_time(x, 3), _parse(text, pattern, lenient=False))


def to_timestamp_ltz(value: BoundNode, *more: BoundNode) -> BoundNode:
    """The time of a number of seconds (``more`` is 0) or milliseconds (3), or of a text with a pattern and a time zone."""
    if value.type == STRING:
        if any(one.type not in (STRING, NULL) for one in more):
            raise MisuseError("the pattern and the time zone of a text are texts")
        time = to_timestamp(value, more[0] if more else None)
        return time if len(more) < 2 else zones.shift(time, more[1])
    precision = whole_literal(more[0]) if more else 3
    if precision not in (0, 3):
        raise MisuseError(f"the precision is 0 or 3, not {precision}")
    factor = 1000 if precision == 3 else 1_000_000
    if value.type in FLOATS:  # milliseconds of a fraction
        millis = b.apply(DOUBLE, lambda x: pc.multiply(x, 1.0 if precision == 3 else 1000.0), cast(value, DOUBLE))
        return b.apply(TIMESTAMP, partial(_instant, 1000), cast(millis, INT64))
    return b.apply(TIMESTAMP, partial(_instant, factor), cast(value, INT64))


def to_date(text: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    if pattern is None:
        return b.apply(DATE, _parse_default_dates, text)
    return cast(_parse(text, pattern, lenient=True), DATE)


def _parse_default_dates(texts: Any) -> Any:
    days, failed = parse_dates(texts)
    return days if failed is None else pc.if_else(failed, pa.scalar(None, DATE), days)


_NO_TIME = -(2**63)
"""The result of UNIX_TIMESTAMP for a text that is not a time."""


def unix_timestamp(text: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    if pattern is not None and constant(pattern) == (True, None):
        return b.apply(INT64, lambda x: pc.if_else(pc.is_valid(x), pa.scalar(None, INT64), pa.scalar(None, INT64)), text)
    time = _parse(text, pattern, lenient=True)

    def kernel(texts: Any, times: Any) -> Any:
        seconds = pc.divide(pc.cast(times, INT64), 1_000_000)
        return pc.if_else(pc.and_(pc.is_valid(texts), pc.is_null(seconds)), pa.scalar(_NO_TIME, INT64), seconds)

    runs = [node.run for node in (text, time) if node.run is not None]
    return b.lazily(INT64, lambda rows: kernel(*(broadcast(run(rows), rows.length) for run in runs)), text, time)


_NULL = "null if an argument is null, or the text is not a time"


ANY_TIME = "timestamp|date|time"


FUNCTIONS = (
    flink_function(
        "date_format",
        "time: timestamp|string, pattern: string",
        "string",
        date_format,
        "A time by a pattern of Java's DateTimeFormatter; a text is read as yyyy-MM-dd HH:mm:ss.",
        "flink_date_format(timestamp'2024-05-07 13:04:05', 'EEE, d MMM yyyy')",
        "Tue, 7 May 2024",
        null=_NULL,
        errors="an invalid pattern",
        checks={"pattern": partial(_check_pattern, "java")},
    ),
    flink_function(
        "from_unixtime",
        "seconds: bigint, pattern: string?",
        "string",
        from_unixtime,
        "Seconds since 1970 by a pattern, yyyy-MM-dd HH:mm:ss.",
        "flink_from_unixtime(44)",
        "1970-01-01 00:00:44",
        errors="an invalid pattern",
        checks={"pattern": partial(_check_pattern, "simple")},
    ),
    flink_function(
        "to_timestamp",
        "text: string, pattern: string?",
        "timestamp",
        to_timestamp,
        "A text as a time: a day, with a time of day, with a fraction, or by a pattern; 30 February is its last day.",
        "flink_to_timestamp('07/May/2024:13:14:15', 'dd/MMM/yyyy:HH:mm:ss')",
        "2024-05-07 13:14:15+00:00",
        null=_NULL,
    ),
    flink_function(
        "to_timestamp_ltz",
        "value: string|number, more: any...",
        "timestamp",
        to_timestamp_ltz,
        "A number of milliseconds (of seconds with precision 0), or a text with a pattern and a time zone, as a time.",
        "flink_to_timestamp_ltz(100, 0)",
        "1970-01-01 00:01:40+00:00",
        null=_NULL,
    ),
    flink_function(
        "to_date",
        "text: string, pattern: string?",
        "date",
        to_date,
        "A text as a date, by ISO or a pattern.",
        "flink_to_date('07/05/2024', 'dd/MM/yyyy')",
        "2024-05-07",
        null=_NULL,
    ),
    flink_function(
        "unix_timestamp",
        "text: string, pattern: string?",
        "bigint",
        unix_timestamp,
        "The seconds since 1970 of a text; the smallest bigint for a text that is not a time.",
        "flink_unix_timestamp('1970-01-01 08:00:01')",
        28801,
    ),
    flink_function(
        "convert_tz",
        "text: string, from: string, to: string",
        "string",
        by_value(STRING, zones.convert_tz, fails=False),
        "A text yyyy-MM-dd HH:mm:ss of one time zone in another; an unknown zone is UTC.",
        "flink_convert_tz('2024-07-01 12:00:00', 'UTC', 'Asia/Shanghai')",
        "2024-07-01 20:00:00",
        null=_NULL,
        loops=True,
    ),
)
