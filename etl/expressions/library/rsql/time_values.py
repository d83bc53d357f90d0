"""Dates of scripts: texts in a pattern (``yyyy-MM-dd HH:mm:ss`` without one), milliseconds since 1970, or timestamps."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.rsql.arguments import as_whole, constant_text, is_numeric, text_of
from etl.expressions.widening import DATE, INT64, STRING

SECONDS = pa.timestamp("s")
DEFAULT = "yyyy-MM-dd HH:mm:ss"

_LETTERS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)")
_CODES = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "M": "%m", "d": "%d", "H": "%H"}
_UNPADDED = ("M", "d", "H")


def time_format(pattern: str, *, is_read: bool) -> str:
    """The format of ``strptime`` for a pattern of Java. Raises MisuseError for letters that it does not have, and for an empty
    pattern, with which Arrow's function ends the process."""
    if not pattern:
        raise MisuseError("the pattern is empty", hint="letters are yyyy MM dd HH mm ss")
    parts = []
    for found in _LETTERS.finditer(pattern):
        letters = found[0]
        if found[2] is None:
            parts.append((found[1].replace("''", "'") if found[1] else found[3] or "'").replace("%", "%%"))
        elif letters in _CODES and (is_read or letters not in _UNPADDED):
            parts.append(_CODES[letters])
        else:
            raise MisuseError(f"{letters!r} in the pattern {pattern!r} is not known", hint="letters are yyyy MM dd HH mm ss")
    return "".join(parts)


def as_time(value: BoundNode, pattern: BoundNode | None = None) -> BoundNode:
    """The time of a text in a pattern, of milliseconds, or of a timestamp, in seconds; null if it is not a time."""
    if pa.types.is_timestamp(value.type) or value.type == DATE:
        return b.apply(
            SECONDS, lambda time: pc.cast(pc.floor_temporal(pc.cast(time, pa.timestamp("us")), unit="second"), SECONDS), value
        )
    if is_numeric(value):
        return b.apply(SECONDS, partial(of_epoch, 1000), as_whole(value))
    format_ = time_format(DEFAULT if pattern is None else constant_text(pattern, "the pattern"), is_read=True)
    return b.apply(SECONDS, lambda text: pc.strptime(text, format=format_, unit="s", error_is_null=True), text_of(value))


def of_epoch(divisor: int, number: Any) -> Any:
    """Seconds of a number since 1970; null after the year 11500."""
    seconds = pc.divide(number, divisor) if divisor > 1 else number
    return pc.cast(
        pc.if_else(pc.and_(pc.less(seconds, _LAST), pc.greater(seconds, -_LAST)), seconds, pa.scalar(None, INT64)), SECONDS
    )


_LAST = 300_000_000_000
"""Seconds: before the year 11500."""


def epoch(value: BoundNode, pattern: BoundNode | None, factor: int) -> BoundNode:
    return b.apply(INT64, lambda time: pc.multiply(pc.cast(time, INT64), factor), as_time(value, pattern))


def print_format(pattern: BoundNode | None) -> str:
    """The format of ``strftime`` for a constant pattern. Raises MisuseError."""
    return time_format(DEFAULT if pattern is None else constant_text(pattern, "the pattern"), is_read=False)


def format_time(time: BoundNode, pattern: BoundNode | None) -> BoundNode:
    format_ = print_format(pattern)
    return b.apply(STRING, lambda values: pc.strftime(values, format=format_), time)


_CYCLE = 146_097 * 86_400
"""Seconds of 400 years, after which the calendar repeats."""


def print_epoch(format_: str, divisor: int, number: Any) -> Any:
    """The date of a number since 1970, also after the year 11500: the date in the first 400 years, with its year."""
    seconds = pc.divide(number, divisor) if divisor > 1 else number
    if pc.all(pc.and_(pc.less(seconds, _LAST), pc.greater(seconds, -_LAST))).as_py() is not False:
        return pc.strftime(pc.cast(seconds, SECONDS), format=format_)
    seconds = pc.if_else(pc.greater(seconds, -_LAST), seconds, pa.scalar(None, INT64))
    cycles = pc.if_else(pc.greater_equal(seconds, _LAST), pc.divide(seconds, _CYCLE), pa.scalar(0, INT64))
    near = pc.cast(pc.subtract(seconds, pc.multiply(cycles, _CYCLE)), SECONDS)
    year = pc.cast(pc.add(pc.year(near), pc.multiply(cycles, 400)), STRING)
    parts = [pc.strftime(near, format=part) if part else "" for part in format_.split("%Y")]
    texts = [parts[0]]
    for part in parts[1:]:
        texts += [pc.utf8_lpad(year, 4, "0"), part]
    return pc.binary_join_element_wise(*texts, "")


# ── Adding ────────────────────────────────────────────────────────────────────────────────────────

SIZES = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def shift(unit: str, times: pa.Array, counts: pa.Array) -> pa.Array:
    """Each time a number of units later; with months the last day of the month, if the day does not exist."""
    import numpy as np

    missing = pc.or_(pc.is_null(times), pc.is_null(counts))
    seconds = pc.fill_null(pc.cast(times, INT64), 0).to_numpy(zero_copy_only=False)
    number = np.clip(pc.fill_null(counts, 0).to_numpy(zero_copy_only=False), -_MAX_UNITS, _MAX_UNITS)
    if unit in SIZES:
        later = seconds + number * SIZES[unit]
    else:
        at = seconds.astype("datetime64[s]")
        month, day = at.astype("datetime64[M]"), at.astype("datetime64[D]")
        target = month + number * (12 if unit == "year" else 1)
        last = (target + 1).astype("datetime64[D]") - 1
        later_day = np.minimum(target.astype("datetime64[D]") + (day - month.astype("datetime64[D]")), last)
        later = (later_day.astype("datetime64[s]") + (at - day.astype("datetime64[s]"))).astype(np.int64)
    return pc.cast(pa.array(later, INT64, mask=missing.to_numpy(zero_copy_only=False)), SECONDS)


_MAX_UNITS = 1_000_000
"""Units that are added at most."""
