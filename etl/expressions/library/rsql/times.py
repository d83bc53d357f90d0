"""Script functions of dates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import rsql_functions
from etl.expressions.library.rsql.arguments import as_whole
from etl.expressions.library.rsql.time_values import as_time, epoch, format_time, print_epoch, print_format
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import BOOLEAN, STRING

NULL_DATE = "null if an argument is null or no date in the pattern"


def _is_time(value: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    time = as_time(value, pattern)

    def run(rows: ActiveRows) -> Any:
        assert time.run is not None
        return pc.is_valid(time.run(rows))

    return b.lazily(BOOLEAN, run, time)


def _format(value: BoundNode, first: BoundNode, second: BoundNode | None = None) -> BoundNode:
    """``format(date, pattern)`` or ``format(date, its pattern, pattern)``."""
    return format_time(as_time(value, first if second else None), second or first)


def _of_number(divisor: int) -> Callable[..., BoundNode]:
    def build(value: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
        return b.apply(STRING, partial(print_epoch, print_format(pattern), divisor), as_whole(value))

    return build


def to_date(value: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    return b.apply(_TIMESTAMP, lambda time: pc.cast(pc.assume_timezone(time, "UTC"), _TIMESTAMP), as_time(value, pattern))


_TIMESTAMP = pa.timestamp("us", "UTC")


date_function = rsql_functions(NULL_DATE)

SAMPLE_DATE = "'2022-04-08 13:45:30'"


DATE_WITH_PATTERN = "date: any, pattern: string?"


FUNCTIONS = (
    date_function(
        "curstamp",
        DATE_WITH_PATTERN,
        "bigint",
        lambda v, p=None: epoch(v, p, 1000),
        "Milliseconds since 1970 of a date.",
        f"curstamp({SAMPLE_DATE})",
        1649425530000,
    ),
    date_function(
        "curstamp_second",
        DATE_WITH_PATTERN,
        "bigint",
        lambda v, p=None: epoch(v, p, 1),
        "Seconds since 1970 of a date.",
        f"curstamp_second({SAMPLE_DATE})",
        1649425530,
    ),
    date_function(
        "unixtimestamp",
        DATE_WITH_PATTERN,
        "bigint",
        lambda v, p=None: epoch(v, p, 1),
        "Seconds since 1970 of a date.",
        f"unixtimestamp({SAMPLE_DATE})",
        1649425530,
    ),
    date_function(
        "format",
        "date: any, pattern: string, new_pattern: string?",
        "string",
        _format,
        "A date in another pattern: format(date, pattern) or format(date, its pattern, pattern).",
        "format('2022-04-08', 'yyyy-MM-dd', 'dd.MM.yyyy')",
        "08.04.2022",
    ),
    date_function(
        "tochar",
        "millis: any, pattern: string?",
        "string",
        _of_number(1000),
        "The date of milliseconds since 1970.",
        "tochar('1649425530000', 'yyyy-MM-dd')",
        "2022-04-08",
    ),
    date_function(
        "linuxtochar",
        "seconds: any",
        "string",
        _of_number(1),
        "The date of seconds since 1970.",
        "linuxtochar('1649425530')",
        "2022-04-08 13:45:30",
    ),
    date_function(
        "fromunixtime",
        "seconds: any, pattern: string?",
        "string",
        _of_number(1),
        "The date of seconds since 1970.",
        "fromunixtime('1649425530', 'yyyy/MM/dd')",
        "2022/04/08",
    ),
    date_function(
        "isvalidtime",
        DATE_WITH_PATTERN,
        "boolean",
        _is_time,
        "Whether a text is a date.",
        "isvalidtime('2022-13-40 00:00:00')",
        False,
        "false for null",
    ),
    date_function(
        "isdate",
        DATE_WITH_PATTERN,
        "boolean",
        _is_time,
        "Whether a text is a date.",
        "isdate('2022-04-08', 'yyyy-MM-dd')",
        True,
        "false for null",
    ),
    date_function(
        "to_date",
        DATE_WITH_PATTERN,
        "timestamp",
        to_date,
        "The time of a text.",
        f"curstamp_second(rsql_to_date({SAMPLE_DATE}))",
        1649425530,
    ),
)
