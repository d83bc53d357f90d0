"""The forms in which logs write times: the pattern of each, and the formats of the parser `timestamp` that read it.

A form is written in the letters of that parser, and its pattern is derived from them, so the two cannot differ.
Forms that look alike (``03/04/2026``) are one form with several formats; the values decide, see `format_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

ZONE_NAMES = "UTC|GMT|CEST|CET|EST|EDT|CST|CDT|MST|MDT|PST|PDT|MSK|JST|BST|WET|WEST|EET|EEST|AEST|AEDT|HKT|SGT|KST|NZST|NZDT"
_MONTHS = (
    "[Jj]an|[Ff]eb|[Mm]ar|[Aa]pr|[Mm]ay|[Jj]un|[Jj]ul|[Aa]ug|[Ss]ep|[Oo]ct|[Nn]ov|[Dd]ec"
    "|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
)
_PATTERN_OF_LETTERS = {
    "yyyy": r"(?:19|20)\d\d",
    "yy": r"\d\d",
    "MMM": f"(?:{_MONTHS})",
    "MM": r"(?:0[1-9]|1[0-2])",
    "M": r"(?:1[0-2]|0?[1-9])",
    "dd": r"(?:0[1-9]|[12]\d|3[01])",
    "d": r"(?:[12]\d|3[01]|0?[1-9])",
    "EEE": r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)",
    "HH": r"(?:[01]\d|2[0-3])",
    "H": r"(?:1\d|2[0-3]|0?\d)",
    "h": r"(?:1[0-2]|0?[1-9])",
    "mm": r"[0-5]\d",
    "m": r"[0-5]?\d",
    "ss": r"[0-5]\d",
    "s": r"[0-5]?\d",
    "SSS": r"\d{1,9}",
    "a": r"[AaPp][Mm]",
    "XXX": r"(?:Z|[+-]\d\d(?::?\d\d)?)",
    "Z": r"[+-]\d\d:?\d\d",
    "z": f"(?:{ZONE_NAMES})",
}
"""Letters of a format → a regular expression of what they stand for; a space stands for one or more."""

_LETTERS = re.compile(r"'([^']*)'|([A-Za-z])\2*|[\[\] .]|[^A-Za-z]")


@dataclass(frozen=True)
class TimeForm:
    """A way to write times. The time of an event is the one with the highest ``score`` in its line."""

    pattern: str
    """A regular expression in the syntax that Python, RE2 and the scanner share."""
    formats: tuple[str, ...]
    """Those of the parser `timestamp` that may read it; none for a time that has no date."""
    score: int

    patterns: tuple[str, ...] = ()
    """The regular expression of each format, where it has several."""

    def with_format(self, format_: str) -> TimeForm:
        """The form in one of its formats."""
        at = self.formats.index(format_)
        return TimeForm(self.patterns[at] if self.patterns else self.pattern, (format_,), self.score)

    def grok_pattern(self) -> str:
        """The pattern, with the names of the grok library for its parts."""
        text = self.pattern
        for pattern, name in _GROK_NAMES:
            text = text.replace(pattern, name)
        return text


_CLOCK = ":".join(_PATTERN_OF_LETTERS[letters] for letters in ("HH", "mm", "ss"))
_GROK_NAMES = (
    (f"{_CLOCK}(?:[.,]\\d{{1,9}})?", "%{TIME}"),
    (_CLOCK, "%{TIME}"),
    (_PATTERN_OF_LETTERS["MMM"], "%{MONTH}"),
    (_PATTERN_OF_LETTERS["EEE"], "%{DAY}"),
    (_PATTERN_OF_LETTERS["dd"], "%{MONTHDAY}"),
    (_PATTERN_OF_LETTERS["d"], "%{MONTHDAY}"),
    (f"(?: ?{_PATTERN_OF_LETTERS['XXX']})?", "(?: ?%{ISO8601_TIMEZONE})?"),
)

_FULL = (
    ("yyyy-MM-dd'T'HH:mm[:ss[.SSS]][XXX]",),
    ("yyyy-MM-dd HH:mm:ss[.SSS] z",),
    ("yyyy-MM-dd HH:mm:ss[.SSS][ ][XXX]",),
    ("yyyy-MM-dd-HH.mm.ss[.SSS]",),
    ("yyyy-MM-dd_HH:mm:ss[.SSS]",),
    ("yyyy-MM-dd-HH:mm:ss[.SSS]",),
    ("yyyy-MM-dd HH:mm",),
    ("yyyy/MM/dd HH:mm:ss[.SSS] z",),
    ("yyyy/MM/dd HH:mm:ss[.SSS][ ][XXX]",),
    ("yyyy/MM/dd - HH:mm:ss",),
    ("yyyy.MM.dd HH:mm:ss[.SSS][ ][XXX]",),
    ("yyyy MMM d HH:mm:ss[.SSS]",),
    ("yyyyMMdd'T'HHmmss[.SSS][XXX]",),
    ("yyyyMMdd-H:m:s:SSS",),
    ("yyyyMMdd-HH:mm:ss[.SSS]",),
    ("yyyyMMdd HH:mm:ss[.SSS]",),
    ("yyyyMMdd HHmmss",),
    ("yyyyMMddHHmmss",),
    ("dd/MMM/yyyy:HH:mm:ss[.SSS][ Z]",),
    ("dd/MMM/yyyy HH:mm:ss[.SSS]",),
    ("dd-MMM-yyyy HH:mm:ss[.SSS][ ][z]",),
    ("dd-MMM-yy HH:mm:ss[.SSS]",),
    ("EEE, d MMM yyyy HH:mm:ss z",),
    ("EEE, d MMM yyyy HH:mm:ss[ Z]",),
    ("EEE MMM d HH:mm:ss[.SSS] yyyy",),
    ("EEE MMM d HH:mm:ss z yyyy",),
    ("EEE MMM d yyyy HH:mm:ss",),
    ("d MMM yyyy HH:mm:ss[.SSS][ ][XXX]",),
    ("MMM d, yyyy h:mm:ss a",),
    ("MMM d, yyyy HH:mm:ss[.SSS]",),
    ("MMM d yyyy HH:mm:ss[.SSS]",),
    ("M/d/yyyy h:mm:ss[.SSS] a", "d/M/yyyy h:mm:ss[.SSS] a"),
    ("d/M/yyyy H:mm:ss[.SSS]", "M/d/yyyy H:mm:ss[.SSS]"),
    ("d.M.yyyy H:mm:ss[.SSS]", "M.d.yyyy H:mm:ss[.SSS]"),
    ("d-M-yyyy H:mm:ss[.SSS]", "M-d-yyyy H:mm:ss[.SSS]"),
    ("yy/MM/dd HH:mm:ss[.SSS]", "MM/dd/yy HH:mm:ss[.SSS]", "dd/MM/yy HH:mm:ss[.SSS]"),
    ("yy-MM-dd HH:mm:ss[.SSS]", "dd-MM-yy HH:mm:ss[.SSS]", "MM-dd-yy HH:mm:ss[.SSS]"),
    ("dd.MM.yy HH:mm:ss[.SSS]", "yy.MM.dd HH:mm:ss[.SSS]"),
    ("yyMMdd HHmmss",),
    ("yyMMdd H:mm:ss",),
)
_WITHOUT_YEAR = (
    ("MMM d HH:mm:ss[.SSS]",),
    ("MM-dd HH:mm:ss[.SSS]", "dd-MM HH:mm:ss[.SSS]"),
    ("MM.dd HH:mm:ss[.SSS]", "dd.MM HH:mm:ss[.SSS]"),
    ("MM/dd HH:mm:ss[.SSS]", "dd/MM HH:mm:ss[.SSS]"),
    ("MMdd HH:mm:ss.SSS",),
)
_EPOCHS = {r"1\d{18}": "epoch_nanos", r"1\d{15}": "epoch_micros", r"1\d{12}": "epoch_millis", r"1\d{9}(?:\.\d{1,9})?": "epoch"}
_DATES = ("yyyy-MM-dd", "yyyy/MM/dd", "yyyy.MM.dd")
_CLOCKS = ("HH:mm:ss[.SSS]",)


@cache
def forms() -> tuple[TimeForm, ...]:
    """All forms, those with the highest score first."""
    return tuple(_forms())


def _forms() -> Iterator[TimeForm]:
    for formats in _FULL:
        yield _form(formats, 5 if "SSS" in formats[0] else 4)
    for formats in _WITHOUT_YEAR:
        yield _form(formats, 3)
    yield from (TimeForm(pattern, (name,), 4) for pattern, name in _EPOCHS.items())
    for text in _DATES:
        yield TimeForm(_pattern_of(text), (text,), 2)
    for text in _CLOCKS:
        yield TimeForm(_pattern_of(text), (), 1)


def _form(formats: Sequence[str], score: int) -> TimeForm:
    patterns = tuple(map(_pattern_of, formats))
    pattern = "|".join(dict.fromkeys(patterns))
    return TimeForm(
        f"(?:{pattern})" if "|" in pattern and len(set(patterns)) > 1 else pattern, tuple(map(_format, formats)), score, patterns
    )


def _format(text: str) -> str:
    """As the parser takes it: its fractions have as many letters as digits at the most."""
    return "iso8601" if text in _ISO else text.replace("SSS", "SSSSSSSSS")


_ISO = {"yyyy-MM-dd'T'HH:mm[:ss[.SSS]][XXX]", "yyyy-MM-dd HH:mm:ss[.SSS] z", "yyyy-MM-dd HH:mm:ss[.SSS][ ][XXX]"}


def _pattern_of(text: str) -> str:
    parts = []
    for found in _LETTERS.finditer(text):
        token = found[0]
        if found[1] is not None:
            parts.append(re.escape(found[1]))
        elif token in _PATTERN_OF_LETTERS:
            parts.append(_PATTERN_OF_LETTERS[token])
        else:
            parts.append({"[": "(?:", "]": ")?", " ": " +", "-": "-"}.get(token) or re.escape(token))
    pattern = "".join(parts).replace(r"(?:\.\d{1,9})", r"(?:[.,]\d{1,9})")
    return pattern.replace("(?: +)?(?:", "(?: ?")  # a blank only where a zone follows


@cache
def _all() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<f{number}>{form.pattern})" for number, form in enumerate(forms())))


_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun"
_BEGINNINGS = frozenset(_NAMES.split())


def time_at(text: str, at: int) -> tuple[TimeForm, int] | None:
    """The form of the time that begins here, and where it ends."""
    if not text[at : at + 1].isdigit() and text[at : at + 3].lower() not in _BEGINNINGS:
        return None
    found = _all().match(text, at)
    if found is None or not found.lastgroup:
        return None
    end = found.end()
    if end < len(text) and (
        text[end].isalnum() or text[end] in "_" or (text[end] in "-./" and text[end + 1 : end + 2].isdigit())
    ):
        return None
    return forms()[int(found.lastgroup[1:])], end
