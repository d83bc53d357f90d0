"""The functions of the step `over_all`: ranks, values of other rows, and aggregates of frames."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from etl.aggregates.calls import AggregateCall, read_call
from etl.aggregates.checks import Aggregate, check_aggregate
from etl.api import Finding, Schema, format_type
from etl.expressions import analyse
from etl.expressions.widening import is_number

RANKS = {
    "row_number": pa.int64(), "rank": pa.int64(), "dense_rank": pa.int64(), "percent_rank": pa.float64(),
    "cume_dist": pa.float64(),
}  # fmt: skip
"""Functions without arguments → the types of their results."""

NEIGHBOURS = ("lag", "lead", "nth_value")
"""Functions that give a value of another row."""

FORMS = ("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(4)", "lag(x, 1, default)",
         "lead(x, 1, default)", "nth_value(x, 2)")  # fmt: skip

_BOUND = r"(unbounded|\d+(?:\.\d+)?(?:ms|[smhd])?)\s+(preceding|following)|current\s+row"
FRAME = re.compile(rf"\s*(rows|range)\s+between\s+({_BOUND})\s+and\s+({_BOUND})\s*", re.IGNORECASE)
"""``rows between 1 preceding and current row``."""

_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
"""Microseconds."""


@dataclass(frozen=True)
class Frame:
    """The rows that count for a row: from ``start`` to ``end``, rows or values after it, negative ones before it; None: to the
    first or the last one."""

    by_rows: bool
    start: float | None
    end: float | None
    is_time: bool = False
    """Whether the bounds are microseconds."""

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the key count."""
        return self.start is None and self.end is None

    @property
    def goes_by_value(self) -> bool:
        """Whether a bound is a distance between values."""
        return not self.by_rows and bool(self.start or self.end)


UP_TO_ROW = Frame(False, None, 0)
"""The frame where there is an order: rows before the row, and those equal to it."""

WHOLE = Frame(False, None, None)
"""The frame without an order: all rows of the partition."""


def read_frame(text: str) -> Frame | str:
    """Parse a frame; returns a message for an invalid one."""
    found = FRAME.fullmatch(text)
    if found is None:
        return f"{text!r} is not a frame"
    first, last = found[2].lower().split(), found[5].lower().split()
    if first[0] == "unbounded" and first[1] == "following":
        return "a frame does not start at unbounded following"
    if last[0] == "unbounded" and last[1] == "preceding":
        return "a frame does not end at unbounded preceding"
    start, end = _distance(first), _distance(last)
    by_rows = found[1].lower() == "rows"
    bounds = [one[0] for one in (first, last) if one[0] not in ("unbounded", "current")]
    is_time = any(one[-1] in "smhd" for one in bounds)
    if by_rows and is_time:
        return "a number of rows has no unit: a time is a bound of range between"
    if is_time and any(one[-1].isdigit() and float(one) for one in bounds):
        return "one bound is a time, and the other a number"
    if any(one is not None and abs(one) >= 2**63 for one in (start, end)):
        return "a bound of the frame is too large"
    if by_rows and not all(one is None or one.is_integer() for one in (start, end)):
        return "a number of rows is whole"
    if start is not None and end is not None and start > end:
        return "the frame ends before it starts"
    return Frame(by_rows, start, end, is_time)


def _distance(words: list[str]) -> float | None:
    if words[0] == "current":
        return 0.0
    if words[0] == "unbounded":
        return None
    number, unit = re.fullmatch(r"([\d.]+)([a-z]*)", words[0]).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS.get(unit, 1) * (-1 if words[1] == "preceding" else 1)


def check_function(text: str, schema: Schema) -> Aggregate:
    """Analyse one function over all rows."""
    call = read_call(text)
    if isinstance(call, Finding):
        return Aggregate(pa.null(), (call,))
    if call.per_second:
        return _bad_aggregate("per_second is for windows, and not for frames of rows")
    if call.where and (call.function in RANKS or call.function == "ntile"):
        return _bad_aggregate(f"{call.function} takes no filter: it counts all rows")
    if call.function in RANKS:
        return _bad_aggregate(f"{call.function}() takes no argument") if call.arguments else Aggregate(RANKS[call.function])
    if call.function == "ntile":
        return _check_ntile(call)
    if call.function in NEIGHBOURS:
        return _check_neighbour(call, schema)
    checked = check_aggregate(text, schema)
    reasons = [analyse(part.text, schema).spark_reason for part in call.arguments[:1] if part.text != "*"]
    errors = any(finding.severity == "error" for finding in checked.findings)
    return checked if errors or not reasons or not reasons[0] else _needs_spark(str(reasons[0]))


def _check_ntile(call: AggregateCall) -> Aggregate:
    text = call.arguments[0].text if len(call.arguments) == 1 else ""
    is_good = text.isascii() and text.isdigit() and 1 <= int(text[:10]) < 2**31 and len(text) <= 10
    return (
        Aggregate(pa.int64()) if is_good else _bad_aggregate(f"ntile(4): the argument is a number of groups, and it is {text!r}")
    )


def _check_neighbour(call: AggregateCall, schema: Schema) -> Aggregate:
    max_arguments = 2 if call.function == "nth_value" else 3
    min_arguments = 2 if call.function == "nth_value" else 1
    if not min_arguments <= len(call.arguments) <= max_arguments or call.where:
        return _bad_aggregate(f"{call.function} is written {next(one for one in FORMS if one.startswith(call.function))}")
    distance = call.arguments[1].text if len(call.arguments) > 1 else "1"
    if not (distance.isascii() and distance.isdigit() and len(distance) <= 9) or (max_arguments == 2 and int(distance) < 1):
        return _bad_aggregate(f"the second argument is a number of rows, and it is {distance!r}", call.arguments[1].at)
    value = analyse(call.arguments[0].text, schema)
    findings = list(value.findings)
    if not value.errors and value.spark_reason:
        return _needs_spark(value.spark_reason)
    if not value.errors and pa.types.is_null(value.type):
        return _bad_aggregate(f"{call.arguments[0].text} has no known type", call.arguments[0].at)
    if len(call.arguments) > 2 and not value.errors:
        other = analyse(call.arguments[2].text, schema)
        findings += other.findings
        fits = _is_castable(other.type, value.type) or (_is_small(call.arguments[2].text) and is_number(value.type))
        if not other.errors and not fits:
            shown = f"{format_type(other.type)}, and the value is {format_type(value.type)}"
            return _bad_aggregate(f"the default is {shown}", call.arguments[2].at)
    return Aggregate(value.type, tuple(findings), frozenset(value.fields))


def _is_castable(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether each value of a type is one of the other, but for digits that a DOUBLE has not."""
    if given == target or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given) and pa.types.is_integer(target):
        return bool(given.bit_width <= target.bit_width)
    return is_number(given) and bool(pa.types.is_floating(target))


def _is_small(text: str) -> bool:
    """Whether a text is a number that each type of whole numbers has."""
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) < 1 << 7


def _needs_spark(reason: str) -> Aggregate:
    return _bad_aggregate(f"it needs Spark, which does not run this step: {reason}")


def _bad_aggregate(message: str, at: int = 0) -> Aggregate:
    return Aggregate(pa.null(), (Finding("bad-aggregate", message, at=at),))
