"""Texts → times by a pattern: as ``DateTimeFormatter`` reads them (null for other texts), or ``SimpleDateFormat``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions.library.flink.times.calendar import days_in_month, days_of
from etl.expressions.rows import broadcast
from etl.expressions.widening import INT64, STRING

_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<mark>[^A-Za-z'\[\]{}#])|(?P<bad>.)", re.DOTALL)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
         "december")  # fmt: skip
_FIELDS = {
    "y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "k": "hour", "h": "half", "m": "minute", "s": "second",
    "D": "yearday",
}  # fmt: skip


class Layout(NamedTuple):
    """The regular expression of a pattern, and its fields."""

    regex: str
    fields: frozenset[str]
    is_short_year: bool


@lru_cache(maxsize=64)
def layout(pattern: str, *, lenient: bool) -> Layout | None:
    """The layout of a pattern, None for one that Java refuses, or whose parts cannot be read."""
    pieces = list(_PIECE.finditer(pattern))
    regex, fields, short = "", set(), False
    for number, piece in enumerate(pieces):
        if piece["bad"]:
            return None
        letters = piece["letters"]
        if not letters:
            regex += re.escape(piece["mark"] or piece["quoted"].replace("''", "'") or "'")
            continue
        touches = number + 1 < len(pieces) and bool(pieces[number + 1]["letters"])
        part = _part(letters, lenient and not touches, touches)
        if part is None or part[0] in fields:
            return None
        short |= letters == "yy"
        fields.add(part[0])
        regex += f"(?P<{part[0]}>{part[1]})"
    return Layout(regex, frozenset(fields), short)


def unknown_letter(pattern: str) -> str | None:
    """The first letter that is none of ``SimpleDateFormat``; None where all are known."""
    letters = (piece["letters"] for piece in _PIECE.finditer(pattern) if piece["letters"])
    return next((one[0] for one in letters if one[0] not in "GyYMLwWDdFEuaHkKhmsSzZX"), None)


def _part(letters: str, lenient: bool, touches: bool) -> tuple[str, str] | None:
    """The field of some equal letters and the regular expression of its texts."""
    letter, width = letters[0], len(letters)
    if letter == "M" and width >= 3:
        return "name", "[A-Za-z]{3,9}"
    if letter in _FIELDS:
        if lenient:
            return _FIELDS[letter], "[0-9]+"
        exact = f"[0-9]{{{width}}}"
        if letter == "D":
            return _FIELDS[letter], exact if width == 3 else "[0-9]{1,3}"
        return _FIELDS[letter], exact if width > 1 and (
            letter not in "yu" or width == 2 or touches
        ) else f"[0-9]{{{width},9}}" if letter in "yu" else "[0-9]{1,2}"
    if letter == "S":
        return "fraction", "[0-9]+" if lenient else f"[0-9]{{{width}}}"
    if letter == "a":
        return "meridiem", "[AaPp][Mm]"
    if letter == "E":
        return "weekday", "[A-Za-z]{3,9}"
    if letter in "XxZ":
        return "zone", "Z|[+-][0-9]{2}(?::?[0-9]{2})?"
    return None


def _number(parts: Any, name: str, default: int) -> Any:
    if parts.type.get_field_index(name) < 0:
        return pa.scalar(default, INT64)
    found = pc.fill_null(pc.struct_field(parts, name), "")
    text = pc.utf8_slice_codeunits(pc.if_else(pc.equal(found, ""), str(default), found), 0, 15)
    return pc.cast(text, INT64)


def parse_times(texts: pa.Array, known: Layout, *, lenient: bool) -> pa.Array:
    """Microseconds since 1970 of texts, null where they do not fit.

    Strict: 30 February is its last day, 25 o'clock is nothing; a text of another layout that JDBC writes is read as that.
    Lenient: numbers run on, and what follows in the text does not matter.
    """
    found = _parse_layout(texts, known, lenient=lenient)
    return found if lenient or known == _JDBC else pc.coalesce(found, _parse_layout(texts, _JDBC, lenient=False))


_JDBC = Layout(
    r" *(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)? *",
    frozenset(("year", "month", "day", "hour", "minute", "second", "fraction")),
    False,
)
"""``1999-9-10 5:20:10``, which `java.sql.Timestamp` and `Date` read."""


def _parse_layout(texts: pa.Array, known: Layout, *, lenient: bool) -> pa.Array:
    parts = pc.extract_regex(texts, rf"\A{known.regex}" + ("" if lenient else r"\z")) if known.fields else None
    if parts is None:
        return pa.nulls(len(texts), INT64)
    year, month, day = _number(parts, "year", 1970), _number(parts, "month", 1), _number(parts, "day", 1)
    if known.is_short_year:
        year = pc.add(year, 2000)
    good = pc.is_valid(parts)
    if "name" in known.fields:
        month = _named_month(pc.struct_field(parts, "name"))
        good = pc.and_(good, pc.is_valid(month))
    hour = _number(parts, "hour", 0)
    if "half" in known.fields:
        half = _number(parts, "half", 0)
        hour = pc.subtract(half, pc.multiply(pc.divide(half, 12), 12))
        if "meridiem" in known.fields:
            is_late = pc.equal(pc.utf8_lower(pc.struct_field(parts, "meridiem")), "pm")
            hour = pc.add(hour, pc.if_else(is_late, 12, 0))
    minute, second = _number(parts, "minute", 0), _number(parts, "second", 0)
    if not lenient:
        for value, low, high in ((month, 1, 12), (day, 1, 31), (hour, 0, 23), (minute, 0, 59), (second, 0, 59)):
            good = pc.and_(good, pc.and_(pc.greater_equal(value, low), pc.less_equal(value, high)))
        month = pc.if_else(pc.and_(pc.greater_equal(month, 1), pc.less_equal(month, 12)), month, 1)
        day = pc.min_element_wise(day, days_in_month(year, month), skip_nulls=False)
    if "yearday" in known.fields:
        month, day = pa.scalar(1, INT64), _number(parts, "yearday", 1)
        good = pc.and_(good, pc.less_equal(day, 366))
    days = pc.add(days_of(year, month), pc.subtract(day, 1))
    seconds = pc.add(pc.add(pc.multiply(days, 86_400), pc.multiply(hour, 3600)), pc.add(pc.multiply(minute, 60), second))
    offset = _zone_seconds(parts) if lenient else 0  # Flink takes the local time of a text with an offset
    micros = pc.add(pc.multiply(pc.subtract(seconds, offset), 1_000_000), _fraction(parts, lenient))
    return pc.if_else(good, broadcast(micros, len(texts)), pa.scalar(None, INT64))


def _named_month(names: Any) -> Any:
    lower = pc.utf8_lower(names)
    short = pc.index_in(lower, value_set=pa.array(_MONTHS))
    return pc.add(pc.cast(pc.coalesce(short, pc.index_in(lower, value_set=pa.array(_FULL))), INT64), 1)


def _fraction(parts: Any, lenient: bool) -> Any:
    if parts.type.get_field_index("fraction") < 0:
        return pa.scalar(0, INT64)
    if lenient:  # a number of milliseconds
        return pc.multiply(_number(parts, "fraction", 0), 1000)
    digits = pc.fill_null(pc.struct_field(parts, "fraction"), "0")
    return pc.cast(pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6), INT64)


def _zone_seconds(parts: Any) -> Any:
    if parts.type.get_field_index("zone") < 0:
        return pa.scalar(0, INT64)
    zone = pc.fill_null(pc.struct_field(parts, "zone"), "Z")
    found = pc.extract_regex(zone, r"(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})?")
    total = pc.add(pc.multiply(_number(found, "hours", 0), 3600), pc.multiply(_number(found, "minutes", 0), 60))
    sign = pc.fill_null(pc.struct_field(found, "sign"), "+")
    return pc.if_else(pc.equal(sign, "-"), pc.negate(total), total)


def to_times(parse: Callable[[pa.Array], pa.Array]) -> Callable[[Any], Any]:
    """A function of texts, arrays or scalars → timestamps."""

    def kernel(texts: Any) -> Any:
        if isinstance(texts, pa.Scalar):
            return kernel(broadcast(texts, 1).cast(STRING))[0]
        return pc.cast(parse(texts), TIMESTAMP)

    return kernel
