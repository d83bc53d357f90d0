"""Formats of times, by name or by pattern → readers of a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import nearest
from parsers.timestamp.instants import DAY, FIRST, HOUR, LAST, format_date, to_micros
from parsers.timestamp.layouts import layout_reader, layouts_of, time_reader, unambiguous_layouts
from parsers.timestamp.patterns import TimePatternError, parse_pattern
from parsers.timestamp.regex_reader import read_regex

if TYPE_CHECKING:
    from etl.columns.times import TimeReader
    from parsers.timestamp.instants import Bools, Ints

    Read: TypeAlias = Callable[[pa.StringArray], tuple[Ints, Bools]]
    """Texts without nulls → microseconds since 1970 in UTC, and the rows (bool[n]) that were read."""

NAMED: dict[str, Sequence[str]] = {
    "iso8601": (
        "yyyy-MM-dd'T'HH:mm[:ss[.SSSSSSSSS]][XXX]",
        "yyyy-MM-dd HH:mm[:ss[.SSSSSSSSS]][ ][XXX]",
        "yyyy-MM-dd",
        "yyyyMMdd'T'HHmm[ss[.SSSSSSSSS]][XXX]",
        "yyyy-MM-dd HH:mm:ss[.SSSSSSSSS] z",
    ),
    "rfc3339": ("yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX", "yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]XXX"),
    "syslog": ("MMM d HH:mm:ss[.SSSSSS]", "MMM d yyyy HH:mm:ss[.SSSSSS]"),
    "httpdate": ("dd/MMM/yyyy:HH:mm:ss Z",),
    "rfc2822": ("[EEE, ]d MMM yyyy HH:mm[:ss] z",),
    "apache_error": ("EEE MMM d HH:mm:ss[.SSSSSS] yyyy",),
}
"""Names of common formats, with their patterns in the order in which they are tried."""

EPOCHS = {
    "epoch": 1_000_000,
    "epoch_seconds": 1_000_000,
    "epoch_millis": 1000,
    "epoch_micros": 1,
    "epoch_nanos": -1000,
}
"""Microseconds in a unit; negative: units in a microsecond."""


@dataclass(frozen=True)
class TimeZoneContext:
    """The zone and the year of texts that name none."""

    zone: str
    now: int
    """Microseconds since 1970."""
    year: int | None = None


MAX_PROGRAMS = 256
"""Programs of patterns, or of lists of them, that a process caches: a worker opens a step in every micro-batch."""


def check_format(text: str) -> None:
    """Raises TimePatternError for what is neither a name nor a pattern."""
    if text in NAMED or text in EPOCHS:
        return
    try:
        parse_pattern(text)
    except TimePatternError as error:
        hint = nearest(text, [*NAMED, *EPOCHS]) or error.hint
        raise TimePatternError(str(error), error.at, hint) from None


def readers(format_: str, context: TimeZoneContext) -> Iterator[Read]:
    """A format's readers, in the order in which they are to be tried."""
    if format_ in EPOCHS:
        yield lambda texts: read_epoch_texts(texts, EPOCHS[format_])
        return
    for pattern in NAMED.get(format_, (format_,)):
        yield _pattern_reader(pattern, context)


_DATE = "yyyy-MM-dd "
"""What makes the pattern of a time of day one of a time."""


def is_time_of_day(text: str) -> bool:
    """Whether a format is a pattern of a time of day without a date: ``HH:mm:ss``."""
    if text in NAMED or text in EPOCHS:
        return False
    try:
        parse_pattern(text)
    except TimePatternError:
        pass
    else:
        return False
    try:
        pattern = parse_pattern(_DATE + text)
    except TimePatternError:
        return False
    return pattern.has("hour") or pattern.has("hour12")


def time_of_day_reader(text: str, context: TimeZoneContext, date: str) -> Read:
    """Reads a pattern of a time of day on one date, or (``latest``) on the last on which it is at most an hour past now."""
    import numpy as np

    (read,) = readers(_DATE + text, context)

    def read_on(day: str, texts: pa.StringArray) -> tuple[Ints, Bools]:
        return read(pc.binary_join_element_wise(day, texts, " "))

    if date != "latest":
        return lambda texts: read_on(date, texts)
    last = context.now + HOUR
    days = [format_date(moment, context.zone) for moment in (last, last - DAY)]

    def read_latest(texts: pa.StringArray) -> tuple[Ints, Bools]:
        micros, good = read_on(days[0], texts)
        late = np.flatnonzero(good & (micros > last))
        if len(late):
            micros[late], good[late] = read_on(days[1], texts.take(pa.array(late)))
        return micros, good

    return read_latest


def unambiguous_reader(formats: Sequence[str], context: TimeZoneContext) -> Read | None:
    """One reader for all formats, of the texts that no earlier format could read otherwise; None when there is no such text."""
    reader = _unambiguous_program(tuple([pattern for text in formats for pattern in NAMED.get(text, (text,))]))
    return layout_reader(reader, context) if reader else None


@lru_cache(maxsize=MAX_PROGRAMS)
def _unambiguous_program(patterns: tuple[str, ...]) -> TimeReader | None:
    layouts = unambiguous_layouts(_EPOCH if pattern in EPOCHS else parse_pattern(pattern) for pattern in patterns)
    return time_reader(layouts) if layouts else None


@lru_cache(maxsize=MAX_PROGRAMS)
def _program(pattern: str) -> tuple[str, TimeReader | None]:
    """A pattern's regular expression, and what reads its layouts."""
    parsed = parse_pattern(pattern)
    layouts = layouts_of(parsed)
    return parsed.regex(), time_reader(layouts) if layouts else None


def _pattern_reader(pattern: str, context: TimeZoneContext) -> Read:
    """Texts of the pattern's layouts are read by a kernel, the others by its regular expression."""
    import numpy as np

    regex, reader = _program(pattern)
    by_layout = layout_reader(reader, context) if reader else None

    def by_regex(texts: pa.StringArray) -> tuple[Ints, Bools]:
        parts, fits, zones = read_regex(texts, regex)
        micros, exist = to_micros(parts, context.zone, context.now, context.year)
        for zone, rows in zones.items():
            its = {name: values[rows] for name, values in parts.items()}
            micros[rows], exist[rows] = to_micros(its, zone, context.now, context.year)
        return micros, fits & exist

    def read(texts: pa.StringArray) -> tuple[Ints, Bools]:
        if by_layout is None:
            return by_regex(texts)
        micros, good = by_layout(texts)
        rest = np.flatnonzero(~good)
        if len(rest):
            micros[rest], good[rest] = by_regex(texts.take(pa.array(rest)))
        return micros, good

    return read


# ── Epochs ────────────────────────────────────────────────────────────────────────────────────────

_EPOCH = r"^\s*(?P<sign>[+-]?)(?P<whole>\d{1,19})(?:\.(?P<fraction>\d*))?\s*$"


def read_epoch_texts(texts: pa.StringArray, unit: int) -> tuple[Ints, Bools]:
    """Numbers written out, cut to microseconds."""
    import numpy as np

    found = pc.extract_regex(texts, _EPOCH)
    sign, whole, fraction = found.flatten()
    numbers, good = _whole(whole)
    micros, fits = _scale(numbers, unit)
    if unit > 1:
        digits = len(str(unit)) - 1
        padded = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, digits, "0"), 0, digits)
        micros = micros + _whole(padded)[0]
    negative = pc.fill_null(pc.equal(sign, "-"), False).to_numpy(zero_copy_only=False)
    micros = np.where(negative, -micros, micros)
    return micros, good & fits & (micros >= FIRST) & (micros <= LAST)


def _whole(digits: pa.StringArray) -> tuple[Ints, Bools]:
    """Digits → int64, false where there are none or they do not fit."""
    small = pc.and_(pc.is_valid(digits), pc.less_equal(pc.fill_null(digits, "9" * 20), "9223372036854775807"))
    small = pc.or_kleene(small, pc.less(pc.fill_null(pc.binary_length(digits), 20), 19))
    small = pc.and_(small, pc.is_valid(digits))
    numbers = pc.if_else(small, digits, "0").cast(pa.int64())
    return numbers.to_numpy(zero_copy_only=False), small.to_numpy(zero_copy_only=False)


def _scale(numbers: Ints, unit: int) -> tuple[Ints, Bools]:
    import numpy as np

    if unit < 0:
        return numbers // -unit, np.ones(len(numbers), bool)
    fits = (numbers >= FIRST // unit) & (numbers <= LAST // unit)
    return np.where(fits, numbers, 0) * unit, fits


def read_epoch_numbers(numbers: pa.Array, unit: int) -> tuple[Ints, Bools]:
    """A column of integers or floats without nulls."""
    import numpy as np

    if pa.types.is_integer(numbers.type):
        return _scale(numbers.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False), unit)
    scale = unit if unit > 0 else -1 / unit
    scaled = np.round(numbers.cast(pa.float64()).to_numpy(zero_copy_only=False) * scale)
    fits = (scaled >= FIRST) & (scaled <= LAST)
    return np.where(fits, scaled, 0).astype(np.int64), fits
