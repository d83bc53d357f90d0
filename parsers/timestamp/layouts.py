"""Patterns whose texts mostly have fixed layouts → compiled readers, which are exact for the texts that they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from parsers.timestamp.instants import FIRST, LAST, last_years, to_utc
from parsers.timestamp.patterns import MONTHS, WEEKDAYS, Element, TimePattern

if TYPE_CHECKING:
    from etl.columns.times import Part, TimeReader
    from parsers.timestamp.formats import TimeZoneContext
    from parsers.timestamp.instants import Bools, Ints

    Layout: TypeAlias = Sequence[tuple[Element, int]]
    """Elements with their widths in bytes."""

NAMES = {"month_name": MONTHS, "weekday": WEEKDAYS, "ampm": ("am", "pm")}
_NUMBERS = {"year", "year2", "month", "day", "hour", "hour12", "minute", "second", "fraction"}

MAX_EXAMPLES = 200
"""Example texts of one layout; a layout with more counts as ambiguous."""


def time_reader(layouts: Sequence[Layout]) -> TimeReader:
    """The layouts as a program."""
    from etl.columns.times import TimeReader

    return TimeReader([[_time_part(*element) for element in layout] for layout in layouts], NAMES)


def layout_reader(reader: TimeReader, context: TimeZoneContext) -> Callable[[pa.Array], tuple[Ints, Bools]]:
    """Texts of any kind → microseconds in UTC, and the rows (bool[n]) that have one of the layouts and a date that exists."""
    from etl.columns.time_kernel import UNREAD, WALL_CLOCK
    from etl.columns.times import Year

    year = Year(*last_years(context.zone, context.now, context.year))

    def read(texts: pa.Array) -> tuple[Ints, Bools]:
        micros, kinds = reader.read(texts, year)
        good = kinds != UNREAD
        if context.zone != "UTC":
            local = kinds == WALL_CLOCK
            micros[local] = to_utc(micros[local], context.zone)
        return micros, good & (micros >= FIRST) & (micros <= LAST)

    return read


def _time_part(element: Element, width: int) -> Part:
    from etl.columns.times import Part

    if element.kind == "space":
        return Part("literal", width, " " * width)
    return Part(element.kind, width, element.text)


def layouts_of(pattern: TimePattern) -> list[Layout]:
    """The layouts of a pattern, then those that pad a number of one digit with a blank (``Dec  1``)."""
    layouts: list[Layout] = [[(element, end - start) for element, start, end in layout] for layout in pattern.layouts()]
    if not all(map(_is_bounded, layouts)):
        return layouts
    return layouts + [padded for layout in layouts for padded in _pad(layout)]


def _pad(layout: Layout) -> Iterator[Layout]:
    for at, ((element, width), (following, digits)) in enumerate(pairwise(layout)):
        if element.kind == "space" and following.kind in _NUMBERS and digits == 1 and 2 in following.widths:
            yield [*layout[:at], (element, width + 1), *layout[at + 1 :]]


def _is_bounded(layout: Layout) -> bool:
    """Whether there is one way to read a text: no number of more than one width is followed by a digit."""
    pairs = pairwise(layout)
    return not any(len(one.widths) > 1 and one.kind in _NUMBERS and _begins_with_digit(other) for (one, _), (other, _) in pairs)


def _begins_with_digit(element: Element) -> bool:
    return element.kind in _NUMBERS or element.text[:1].isdigit()


def unambiguous_layouts(patterns: Iterable[TimePattern | str]) -> list[Layout]:
    """The layouts whose texts no earlier pattern reads; a pattern may be a regular expression, which gives no layout itself.

    The expressions treat all digits alike, and both cases of a letter. So what holds for one text of a layout holds for all
    with the same names in it.
    """
    earlier: list[re.Pattern[str]] = []
    found: list[Layout] = []
    for pattern in patterns:
        if isinstance(pattern, TimePattern):
            found += [layout for layout in layouts_of(pattern) if not _is_read(layout, earlier)]
        regex = pattern.regex() if isinstance(pattern, TimePattern) else pattern
        earlier.append(re.compile(regex, re.ASCII))
    return found


def _is_read(layout: Layout, regexes: Sequence[re.Pattern[str]]) -> bool:
    if not regexes:
        return False
    texts = list(islice(map("".join, product(*(_examples(*element) for element in layout))), MAX_EXAMPLES + 1))
    return len(texts) > MAX_EXAMPLES or any(regex.match(text) for regex in regexes for text in texts)


def _examples(element: Element, width: int) -> Sequence[str]:
    if element.kind in NAMES:
        return [name[:width] for name in NAMES[element.kind]]
    if element.kind == "offset":
        return (
            ["Z"] if width == 1 else [sign + "11:11"[: width - 1] if width == 6 else sign + "1111"[: width - 1] for sign in "+-"]
        )
    if element.kind == "point":
        return ".,"
    if element.kind == "space":
        return [" " * width]
    return [element.text or "1" * width]
