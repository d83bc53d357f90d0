"""Time patterns in Spark's letters (``yyyy-MM-dd HH:mm:ss,SSS``), taken apart into elements.

Source of the letters: Spark SQL reference, "Datetime Patterns for Formatting and Parsing".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from etl.api import nearest

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BY_HOURS = {
    0: "utc gmt ut z wet",
    1: "west bst cet met wat",
    2: "cest mest eet cat sast",
    3: "eest msk trt eat",
    5: "pkt",
    5.75: "npt",
    7: "wib",
    8: "hkt sgt awst",
    9: "jst kst",
    9.5: "acst",
    10: "aest",
    10.5: "acdt",
    11: "aedt",
    12: "nzst",
    13: "nzdt",
    -2.5: "ndt",
    -3: "brt",
    -3.5: "nst",
    -4: "edt",
    -5: "est cdt",
    -6: "cst mdt",
    -7: "mst pdt",
    -8: "pst akdt",
    -9: "akst",
    -10: "hst",
}
ZONES = {name: hours for hours, names in _BY_HOURS.items() for name in names.split()}
"""Abbreviations of zones and their hours from UTC: those of RFC 2822 as it says (``CST`` is North America's, not China's),
and those of the IANA database that mean one thing (``BST`` is Britain's; ``IST`` and ``AST`` mean several and are none)."""

MAX_LAYOUTS = 64
_OFFSET = r"z|[+-]\d\d(?::?\d\d)?"
_OFFSET_WIDTHS = (1, 6, 5, 3)
_ZONE_ID = r"[a-z]+(?:/[a-z0-9_+\-]+){1,2}"
"""A name of the IANA database with a place in it: ``America/New_York``."""
_ANY_ZONE = "|".join([_OFFSET, *sorted(ZONES, key=len, reverse=True), _ZONE_ID])


class TimePatternError(ValueError):
    """A pattern that cannot be read, with the position in it and a hint."""

    def __init__(self, message: str, at: int = 0, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


@dataclass(frozen=True)
class Element:
    """One part of a pattern: what it means, how it looks, and how many bytes it may take in a fixed layout."""

    kind: str
    regex: str
    widths: tuple[int, ...]
    text: str = ""
    optional: tuple[int, ...] = ()
    """The optional sections it lies in, outermost first."""


@dataclass(frozen=True)
class TimePattern:
    """A pattern as elements, as a regular expression and as the fixed layouts that most texts have."""

    elements: tuple[Element, ...]

    def has(self, kind: str) -> bool:
        """Whether it says anything about the kind: year, month, …"""
        return any(element.kind == kind for element in self.elements)

    def regex(self) -> str:
        """An RE2 expression with a group for each element that means something."""
        return r"(?i)^\s*" + "".join(_regex_parts(self.elements)) + r"\s*$"

    def layouts(self) -> list[list[tuple[Element, int, int]]]:
        """Fixed layouts: element, first byte, byte after the last. Empty when there are too many or none."""
        sections = sorted({section for element in self.elements for section in element.optional})
        layouts: list[list[tuple[Element, int, int]]] = []
        for present in product((True, False), repeat=len(sections)):
            shown = {section for section, there in zip(sections, present, strict=True) if there}
            elements = [element for element in self.elements if shown.issuperset(element.optional)]
            for widths in product(*(element.widths for element in elements)):
                layout = _locate_elements(elements, widths)
                if layout not in layouts:
                    layouts.append(layout)
                if len(layouts) > MAX_LAYOUTS:
                    return []
        return layouts


def parse_pattern(text: str) -> TimePattern:
    """Pattern → elements. Raises TimePatternError."""
    elements: list[Element] = []
    sections: list[int] = []
    for number, (at, token) in enumerate(_tokens(text)):
        if token == "[":
            sections.append(number)
        elif token == "]":
            if not sections:
                raise TimePatternError("stray ']'; an optional section is written [ ]", at)
            sections.pop()
        else:
            element = _element(token, at)
            if element.kind in _MEANINGS and any(element.kind == other.kind for other in elements):
                raise TimePatternError(f"{token!r} says the {element.kind} a second time", at)
            elements.append(replace(element, optional=tuple(sections)))
    if sections:
        raise TimePatternError("'[' without its ']'", text.index("["))
    return _check(TimePattern(tuple(_with_points(elements))))


def _check(pattern: TimePattern) -> TimePattern:
    if pattern.has("hour12") and not pattern.has("ampm"):
        raise TimePatternError("'h' counts to 12 and needs 'a' (AM, PM)", hint="did you mean 'HH', which counts to 23?")
    if not pattern.has("day") or not (pattern.has("month") or pattern.has("month_name")):
        raise TimePatternError(
            "a pattern needs at least month and day", hint="letters are those of Spark: yyyy-MM-dd HH:mm:ss,SSS"
        )
    return pattern


def _with_points(elements: Sequence[Element]) -> Iterator[Element]:
    """A point or comma before a fraction stands for both."""
    for element, following in zip(elements, [*elements[1:], None], strict=True):
        if element.text in (".", ",") and following is not None and following.kind == "fraction":
            yield replace(element, kind="point", regex="[.,]")
        else:
            yield element


_TOKEN = re.compile(
    r"""
    '' | '(?P<quoted>(?:[^']|'')+)'    # a quote; quoted text
    | (?P<letters>([A-Za-z])\3*)       # one letter, repeated
    | (?P<spaces>\s+)
    | [^']                             # anything else stands for itself, brackets are distinguished later
    """,
    re.VERBOSE,
)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise TimePatternError("a quote without its end; a quote itself is written ''", at)
        if text[at] == "%" and text[at + 1 : at + 2].isalpha():
            raise TimePatternError(
                f"{text[at : at + 2]!r} is a strptime code", at, "patterns use Spark's letters, such as yyyy-MM-dd HH:mm:ss,SSS"
            )
        yield at, found[0]
        at = found.end()


def _element(token: str, at: int) -> Element:
    if token[0].isascii() and token[0].isalpha():
        return _letters(token, at)
    if token.isspace():
        return Element("space", r"\s+", (1,), " ")
    literal = "'" if token == "''" else token[1:-1].replace("''", "'") if token[0] == "'" else token
    return Element("literal", re.escape(literal), (len(literal.encode()),), literal)


def _letters(token: str, at: int) -> Element:
    make = _LETTERS.get(token[0])
    if make is None:
        letters = " ".join(_LETTERS)
        hint = _HINTS.get(token[0]) or f"letters are {letters}; quote others: 'T'"
        raise TimePatternError(f"{token!r} is not a letter of a time pattern", at, hint)
    element = make(len(token))
    if element is None:
        raise TimePatternError(f"{token!r} has too many letters", at, nearest(token, [token[0] * 2, token[0] * 4]))
    return element


def _number(kind: str, max_digits: int = 2) -> Callable[[int], Element | None]:
    def make(letters: int) -> Element | None:
        if letters > max_digits:
            return None
        widths = tuple(range(max_digits, 0, -1)) if letters == 1 else (letters,)
        return Element(kind, rf"\d{{{min(widths)},{max(widths)}}}", widths)

    return make


def _year(letters: int) -> Element | None:
    if letters == 2:
        return Element("year2", r"\d\d", (2,))
    return Element("year", r"\d{4}", (4,)) if letters in (1, 4) else None


def _names(kind: str, names: Sequence[str], letters: int) -> Element:
    regex = "|".join(names if letters == 4 else [name[:3] for name in names])
    return Element(kind, regex, () if letters == 4 else (3,))


def _month(letters: int) -> Element | None:
    if letters in (3, 4):
        return _names("month_name", MONTHS, letters)
    return _number("month")(letters)


def _weekday(letters: int) -> Element | None:
    return _names("weekday", WEEKDAYS, 4 if letters == 4 else 3) if letters <= 4 else None


def _fraction(letters: int) -> Element | None:
    if letters > 9:
        return None
    widths = tuple(sorted({width for width in (letters, 6, 3) if width <= letters}, reverse=True))
    return Element("fraction", rf"\d{{1,{letters}}}", widths)


def _zone_name(letters: int) -> Element | None:
    return Element("offset", _ANY_ZONE, ()) if letters <= 3 else None


def _offset(letters: int) -> Element | None:
    return Element("offset", _OFFSET, _OFFSET_WIDTHS) if letters <= 5 else None


def _offset_or_name(letters: int) -> Element | None:
    """Three letters are Joda's, and so Logstash's, letters for a name."""
    return Element("offset", _ANY_ZONE, _OFFSET_WIDTHS) if letters == 3 else _offset(letters)


def _zone_id(letters: int) -> Element | None:
    return Element("offset", _ZONE_ID, ()) if letters == 2 else None


_LETTERS: dict[str, Callable[[int], Element | None]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "d": _number("day"),
    "E": _weekday,
    "H": _number("hour"),
    "h": _number("hour12"),
    "a": lambda letters: Element("ampm", "am|pm", (2,)) if letters == 1 else None,
    "m": _number("minute"),
    "s": _number("second"),
    "S": _fraction,
    "X": _offset,
    "x": _offset,
    "Z": _offset_or_name,
    "z": _zone_name,
    "V": _zone_id,
}
_HINTS = {
    "Y": "'Y' is the year of weeks; did you mean 'yyyy'?",
    "D": "'D' is the day of the year; did you mean 'dd'?",
    "T": "quote literal letters: 'T'",
}
_MEANINGS = {"year", "year2", "month", "month_name", "day", "hour", "hour12", "ampm", "minute", "second", "fraction", "offset"}


def _regex_parts(elements: Sequence[Element]) -> Iterator[str]:
    """Elements as groups, optional sections opened and closed where they change."""
    open_sections: tuple[int, ...] = ()
    for element in elements:
        common = sum(1 for a, b in zip(open_sections, element.optional, strict=False) if a == b)
        yield ")?" * (len(open_sections) - common) + "(?:" * (len(element.optional) - common)
        yield f"(?P<{element.kind}>{element.regex})" if element.kind in _MEANINGS else f"(?:{element.regex})"
        open_sections = element.optional
    yield ")?" * len(open_sections)


def _locate_elements(elements: Sequence[Element], widths: Sequence[int]) -> list[tuple[Element, int, int]]:
    ends = [sum(widths[: index + 1]) for index in range(len(widths))]
    return [(element, end - width, end) for element, width, end in zip(elements, widths, ends, strict=True)]
