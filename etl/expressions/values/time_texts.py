"""Texts of timestamps by a pattern of Java's ``DateTimeFormatter``, in UTC: each distinct time is written once.

Source: Spark SQL reference, "Datetime Patterns for Formatting and Parsing", and java.time.format.DateTimeFormatter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.rows import broadcast

_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<mark>[^A-Za-z'\[\]{}#])")
Write = Callable[[pa.Array], Any]

_DAY, _HOUR, _MINUTE, _SECOND, _MILLI, _MICRO = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1000, 1


def _digits(kernel: Callable[[Any], Any], width: int) -> Write:
    def write(times: pa.Array) -> Any:
        texts = pc.cast(kernel(times), pa.string())
        return pc.utf8_lpad(texts, width, "0") if width > 1 else texts

    return write


def _year(times: pa.Array) -> Any:
    """The year of its era: the year 0 is the first before it."""
    year = pc.year(times)
    return pc.if_else(pc.less_equal(year, 0), pc.subtract(1, year), year)


def _year_text(width: int, dialect: str) -> Write:
    """Spark counts years through 0, with a sign; ``SimpleDateFormat`` writes no plus."""

    def write(times: pa.Array) -> Any:
        plain = pc.year(times)
        year = pc.abs(plain) if dialect == "spark" else _year(times)
        if width == 2:
            return pc.utf8_lpad(pc.cast(pc.subtract(year, pc.multiply(pc.divide(year, 100), 100)), pa.string()), 2, "0")
        texts = pc.utf8_lpad(pc.cast(year, pa.string()), width, "0")
        plus = pc.and_(pc.greater(plain, 10**width - 1), dialect != "simple" and width >= 4)
        minus = pc.and_(pc.less(plain, 0), dialect == "spark")
        return pc.binary_join_element_wise(pc.if_else(minus, "-", pc.if_else(plus, "+", "")), texts, "")

    return write


def _week_year(times: pa.Array) -> tuple[Any, Any]:
    """Year and number of the week, which begins on Sunday; the first week is that of 1 January."""
    days = pc.cast(pc.floor_temporal(times, unit="day"), pa.int64())
    saturday = pc.cast(pc.add(days, pc.multiply(pc.subtract(7, _week_day(times)), _DAY)), times.type)
    return pc.year(saturday), pc.add(pc.divide(pc.subtract(pc.day_of_year(saturday), 1), 7), 1)


def _week_day(times: Any) -> Any:
    """The day of the week: 1 is Sunday."""
    return pc.day_of_week(times, count_from_zero=False, week_start=7)


def _week_of_month(times: Any) -> Any:
    """The number of the week that begins on Sunday; the first one has the first day of the month."""
    day = pc.day(times)
    before = pc.subtract(pc.add(_week_day(times), 35), day)  # 35: no negative number is divided
    return pc.add(pc.divide(pc.add(pc.subtract(day, 1), _rest_of_seven(before)), 7), 1)


def _rest_of_seven(numbers: Any) -> Any:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, 7), 7))


def _since(unit: Literal["second", "day"]) -> Callable[[Any], Any]:
    """Microseconds since the second or the day began."""
    return lambda times: pc.subtract(pc.cast(times, pa.int64()), pc.cast(pc.floor_temporal(times, unit=unit), pa.int64()))


def _fraction(width: int) -> Write:
    def write(times: pa.Array) -> Any:
        micros = pc.cast(times, pa.int64())
        rest = pc.subtract(micros, pc.cast(pc.cast(pc.floor_temporal(times, unit="second"), pa.int64()), pa.int64()))
        texts = pc.utf8_lpad(pc.cast(rest, pa.string()), 6, "0")
        return pc.utf8_rpad(pc.utf8_slice_codeunits(texts, 0, min(width, 6)), width, "0")

    return write


def _half_hour(offset: int) -> Callable[[Any], Any]:
    """The hour of a half day: ``h`` counts 1 to 12, ``K`` 0 to 11."""

    def kernel(times: pa.Array) -> Any:
        hour = pc.hour(times)
        hour = pc.subtract(hour, pc.multiply(pc.divide(hour, 12), 12))
        return pc.if_else(pc.equal(hour, 0), offset, hour)

    return kernel


def _names(kernel: Callable[[Any], Any], names: tuple[str, ...]) -> Write:
    return lambda times: pa.array(names, pa.string()).take(pc.cast(kernel(times), pa.int64()))


_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _short(names: tuple[str, ...], length: int = 3) -> tuple[str, ...]:
    return tuple(name[:length] for name in names)


def _day_name(width: int) -> Write:
    return _names(lambda times: pc.day_of_week(times), _DAYS if width == 4 else _short(_DAYS, 1 if width == 5 else 3))


def _era(width: int) -> Write:
    names = ("Before Christ", "Anno Domini") if width == 4 else ("B", "A") if width == 5 else ("BC", "AD")
    return _names(lambda times: pc.cast(pc.greater(pc.year(times), 0), pa.int64()), names)


def _month(width: int) -> Write:
    if width <= 2:
        return _digits(lambda times: pc.month(times), width)
    names = _MONTHS if width == 4 else _short(_MONTHS, 1 if width == 5 else 3)
    return _names(lambda times: pc.subtract(pc.month(times), 1), names)


def _quarter(width: int) -> Write:
    if width <= 2:
        return _digits(lambda times: pc.quarter(times), width)
    names = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter") if width == 4 else ("Q1", "Q2", "Q3", "Q4")
    return _names(lambda times: pc.subtract(pc.quarter(times), 1), names)


_NUMBERS: dict[str, tuple[int, int, Callable[[Any], Any]]] = {
    "d": (2, _DAY, lambda times: pc.day(times)),
    "D": (3, _DAY, lambda times: pc.day_of_year(times)),
    "H": (2, _HOUR, lambda times: pc.hour(times)),
    "k": (2, _HOUR, lambda times: pc.if_else(pc.equal(pc.hour(times), 0), 24, pc.hour(times))),
    "h": (2, _HOUR, _half_hour(12)),
    "K": (2, _HOUR, _half_hour(0)),
    "m": (2, _MINUTE, lambda times: pc.minute(times)),
    "s": (2, _SECOND, lambda times: pc.second(times)),
}
"""Letter → its greatest number in a row, the unit that it distinguishes, and its value."""

_WEEKS: dict[str, tuple[int, int, Callable[[Any], Any]]] = {
    "w": (2, _DAY, lambda times: _week_year(times)[1]),
    "W": (1, _DAY, _week_of_month),
}
_SIMPLE_NUMBERS: dict[str, tuple[int, int, Callable[[Any], Any]]] = {
    "u": (2, _DAY, lambda times: pc.day_of_week(times, count_from_zero=False)),
    "F": (1, _DAY, lambda times: pc.add(pc.divide(pc.subtract(pc.day(times), 1), 7), 1)),
}
"""Letters that ``SimpleDateFormat`` has, or to which it gives another meaning."""

_JAVA_NUMBERS: dict[str, tuple[int, int, Callable[[Any], Any]]] = {
    "e": (2, _DAY, _week_day),
    "c": (1, _DAY, _week_day),
    "F": (1, _DAY, lambda times: pc.add(_rest_of_seven(pc.subtract(pc.day(times), 1)), 1)),
    "n": (9, _MICRO, lambda times: pc.multiply(_since("second")(times), 1000)),
    "N": (9, _MICRO, lambda times: pc.multiply(_since("day")(times), 1000)),
    "A": (9, _MILLI, lambda times: pc.divide(_since("day")(times), 1000)),
}
"""Letters that only ``DateTimeFormatter`` has."""

_ZONES = {"X": "Z", "XX": "Z", "XXX": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00", "Z": "+0000", "ZZZ": "+0000", "z": "UTC",
          "zzz": "UTC", "VV": "UTC"}  # fmt: skip


class BadPatternError(ValueError):
    """A pattern that Java refuses, or that has no Arrow form."""


def _piece(letters: str, dialect: str) -> tuple[int, Write]:
    """The unit that some equal letters distinguish, and the function that writes them. Raises BadPatternError."""
    letter, width = letters[0], len(letters)
    numbers = _NUMBERS if dialect == "spark" else _NUMBERS | _WEEKS | (_JAVA_NUMBERS if dialect == "java" else _SIMPLE_NUMBERS)
    if letter in numbers and width <= numbers[letter][0]:
        return numbers[letter][1], _digits(numbers[letter][2], width)
    if letter in "yu" and width <= 6 and (letter == "y" or dialect != "spark"):
        return _DAY, _year_text(width, dialect)
    if letter in ("M" if dialect == "spark" else "ML") and width <= (4 if dialect == "spark" else 5):
        return _DAY, _month(width)
    if letter in "Qq" and width <= 4 and dialect != "spark":
        return _DAY, _quarter(width)
    if letter == "G" and width <= 5 and dialect != "spark":
        return _DAY, _era(width)
    if letter == "Y" and dialect != "spark" and width in (1, 2, 4):
        return _DAY, _digits(lambda times: _week_year(times)[0], width)
    if (letter == "E" and width <= (4 if dialect == "spark" else 5)) or (
        letter in "ec" and 3 <= width <= 5 and dialect == "java"
    ):
        return _DAY, _day_name(width)
    if letter == "a" and width == 1:
        return _HOUR, _names(lambda times: pc.divide(pc.hour(times), 12), ("AM", "PM"))
    if letter == "S" and width <= 9:
        return _MILLI if width <= 3 else _MICRO, _fraction(width)
    if letters in _ZONES and dialect != "spark":
        return _DAY, lambda times: _ZONES[letters]
    raise BadPatternError(f"the pattern has {letters!r}, which has no Arrow form")


@lru_cache(maxsize=64)
def writer(pattern: str, dialect: str = "spark") -> Callable[[Any], Any]:
    """The function that writes timestamps. Raises BadPatternError.

    ``dialect``: ``spark`` knows the letters that Spark allows, ``java`` also weeks and zones, ``simple`` is ``SimpleDateFormat``.
    """
    pieces: list[Write] = []
    unit, at = _DAY, 0
    while at < len(pattern):
        if dialect == "java" and pattern[at] in "[]":  # what is optional in a text is written
            at += 1
            continue
        found = _PIECE.match(pattern, at)
        if found is None:
            raise BadPatternError(f"the pattern {pattern!r} has {pattern[at]!r}, which has a meaning of its own")
        at = found.end()
        if found["letters"]:
            finest, write = _piece(found["letters"], dialect)
            unit = min(unit, finest)
            pieces.append(write)
            continue
        pieces.append(_constant(found["mark"] or (found["quoted"].replace("''", "'") or "'")))
    return _Writer(unit, tuple(pieces))


def _constant(text: str) -> Write:
    return lambda times: text


class _Writer:
    """Writes each distinct time once."""

    def __init__(self, unit: int, pieces: tuple[Write, ...]) -> None:
        self._unit = unit
        self._pieces = pieces

    def __call__(self, times: Any) -> Any:
        if isinstance(times, pa.Scalar):
            return self(broadcast(times, 1))[0]
        micros = pc.cast(times, pa.int64())
        if self._unit > 1:
            quotient = pc.divide(micros, self._unit)
            micros = pc.multiply(
                pc.if_else(pc.less(micros, pc.multiply(quotient, self._unit)), pc.subtract(quotient, 1), quotient), self._unit
            )
        encoded = pc.dictionary_encode(micros)
        distinct = pc.cast(encoded.dictionary, pa.timestamp("us", "UTC"))
        parts = [
            part if isinstance(part, str) else part.cast(pa.string()) for part in (write(distinct) for write in self._pieces)
        ]
        texts = broadcast(pc.binary_join_element_wise(*parts, "") if parts else "", len(distinct)) if _has_array(parts) else None
        if texts is None:
            texts = pa.repeat(pa.scalar("".join(parts)), len(distinct)) if len(distinct) else pa.array([], pa.string())
        return texts.take(encoded.indices)


def _has_array(parts: list[Any]) -> bool:
    return any(not isinstance(part, str) for part in parts)
