"""Times of fixed layouts, compared with the regular expressions that define the formats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.time_kernel import INSTANT, UNREAD, WALL_CLOCK
from etl.columns.times import Part, TimeReader, Year
from parsers.timestamp.formats import EPOCHS, NAMED, TimeZoneContext, read_epoch_texts, unambiguous_reader
from parsers.timestamp.instants import to_micros
from parsers.timestamp.layouts import layouts_of, unambiguous_layouts
from parsers.timestamp.parser import Timestamp
from parsers.timestamp.patterns import parse_pattern
from parsers.timestamp.regex_reader import read_regex

pytestmark = pytest.mark.slow

NOW = int(datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timestamp()) * 1_000_000
FORMATS = (
    *("iso8601", "rfc3339", "syslog", "httpdate", "rfc2822", "apache_error", "epoch", "epoch_millis"),
    *("yyyy-MM-dd HH:mm:ss,SSS", "d/M/yy h:mm a", "M d yyyy", "yyMMdd HHmmss", "MM/dd/yyyy", "dd/MM/yyyy"),
    *("MMM d H:m:s.SSSSSSSSS", "EEE, d MMM yyyy[ HH:mm:ss]XXX", "yyyy'é'MM'ü and more'dd", "MMMM d yyyy"),
)
PATTERNS = sorted({pattern for format_ in FORMATS for pattern in NAMED.get(format_, (format_,))} - set(EPOCHS))


def by_regex(texts: Sequence[str | None], formats: Sequence[str], place: TimeZoneContext) -> list[int | None]:
    """The time of each text by the first format that matches it."""
    column = pa.array(texts, pa.string())
    times: list[int | None] = [None] * len(texts)
    for pattern in (pattern for format_ in reversed(formats) for pattern in reversed(NAMED.get(format_, (format_,)))):
        if pattern in EPOCHS:
            micros, good = read_epoch_texts(column, EPOCHS[pattern])
        else:
            parts, good, _ = read_regex(column, regex_of(pattern))
            micros, exist = to_micros(parts, place.zone, place.now, place.year)
            good = good & exist
        times = [int(micros[n]) if good[n] else time for n, time in enumerate(times)]
    return times


@cache
def regex_of(pattern: str) -> str:
    return parse_pattern(pattern).regex()


@cache
def layouts(pattern: str) -> list[Any]:
    return layouts_of(parse_pattern(pattern))


NAMES = {"month_name": ("Jan", "feb", "MAR", "May", "Dec"), "weekday": ("Mon", "sun", "Foo"), "ampm": ("AM", "pm", "xm")}
NUMBERS = {"month": 13, "day": 32, "hour": 25, "hour12": 14, "minute": 61, "second": 61, "year2": 99}
OFFSETS = {1: ["Z", "z"], 3: ["+01", "-19"], 5: ["+0530", "-0061"], 6: ["+05:30", "-11:00", "+01.00"]}


def write_text(random: Random, pattern: str) -> str:
    """A text that matches a pattern, almost matches it, or has a date that does not exist."""
    parts = []
    for element, width in random.choice(layouts(pattern) or [[]]):
        if element.kind in NAMES:
            parts.append(random.choice(NAMES[element.kind]))
        elif element.kind == "offset":
            parts.append(random.choice(OFFSETS[width]))
        elif element.text:
            parts.append(element.text if element.kind != "space" else " " * width)
        else:
            maximum = min(NUMBERS.get(element.kind, 10**width), 10**width - 1)
            parts.append(str(random.choice((0, 1, maximum, random.randint(0, maximum)))).zfill(width))
    return _changed(random, "".join(parts))


def _changed(random: Random, text: str) -> str:
    change = random.choice([None, None, None, "insert", "replace", "delete"])
    if change is None or not text:
        return text
    at = random.randrange(len(text))
    new = "" if change == "delete" else random.choice(" 0195:-+.,Zaé\t")
    return text[:at] + new + text[at + (change != "insert") :]


def write_any(random: Random) -> str | None:
    """A text of some pattern, a number, other characters, or null."""
    kind = random.randrange(8)
    if kind == 0:
        return random.choice([None, "", str(random.randint(-(10**12), 10**14))])
    if kind == 1:
        return "".join(random.choices(" 0195:-+.,TZaé\t\0\U0001f600", k=random.randint(0, 12)))
    return write_text(random, random.choice(PATTERNS))


SEEDS = st.integers(0, 2**32)
"""Hypothesis chooses the seed of many texts: drawing each character of each text took nine tenths of the time."""


@settings(deadline=None, max_examples=300)
@given(
    seed=SEEDS,
    formats=st.lists(st.sampled_from(FORMATS), min_size=1, max_size=3, unique=True),
    zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    year=st.sampled_from([None, 2024]),
    kind=st.sampled_from([pa.string(), pa.string_view()]),
)
def test_the_kernel_reads_what_the_expressions_read(
    seed: int, formats: list[str], zone: str, year: int | None, kind: pa.DataType
) -> None:
    random = Random(seed)
    own = sorted({pattern for format_ in formats for pattern in NAMED.get(format_, (format_,))} - set(EPOCHS))
    texts = [write_any(random) for _ in range(10)] + [write_text(random, random.choice(own)) for _ in range(5) if own]
    parse = Timestamp(formats=formats, timezone=zone, year=year).compile_at(NOW)

    column = parse(pa.array(texts, kind)).columns["timestamp"]

    expected = by_regex(texts, formats, TimeZoneContext(zone, NOW, year))
    assert list(zip(texts, column.cast(pa.int64()).to_pylist(), strict=True)) == list(zip(texts, expected, strict=True))


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if layouts(pattern)])
@settings(deadline=None, max_examples=3)
@given(seed=SEEDS)
def test_each_pattern_against_its_expression(pattern: str, seed: int) -> None:
    random = Random(seed)
    texts = [write_text(random, pattern) for _ in range(200)]

    column = Timestamp(formats=[pattern]).compile_at(NOW)(pa.array(texts)).columns["timestamp"]

    expected = by_regex(texts, [pattern], TimeZoneContext("UTC", NOW))
    assert list(zip(texts, column.cast(pa.int64()).to_pylist(), strict=True)) == list(zip(texts, expected, strict=True))


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("httpdate", "17/May/2015:10:05:03 +0000"),
        ("syslog", "Dec 10 06:55:46"),
        ("syslog", "Dec  1 06:55:46"),
        ("syslog", "Dec 10 2019 06:55:46"),
        ("iso8601", "2024-02-29T23:59:59.123Z"),
        ("iso8601", "2024-02-29 23:59:59,123"),
        ("iso8601", "2024-02-29 23:59:59"),
        ("iso8601", "2024-02-29"),
        ("apache_error", "Sun Dec 04 04:47:44 2005"),
        ("yyyy-MM-dd HH:mm:ss,SSS", "2024-05-01 01:02:03,004"),
    ],
)
def test_the_most_common_formats_need_no_expression(format_: str, text: str) -> None:
    reader = unambiguous_reader([format_], TimeZoneContext("UTC", NOW))
    assert reader is not None

    _, good = reader(pa.array([text, None, text]))

    assert good.tolist() == [True, False, True]


def test_layouts_that_an_earlier_pattern_reads_are_left_to_it() -> None:
    both = [parse_pattern("MM/dd/yyyy"), parse_pattern("dd/MM/yyyy")]

    assert len(unambiguous_layouts(both)) == 1
    assert len(unambiguous_layouts([both[0], parse_pattern("dd.MM.yyyy")])) == 2
    assert unambiguous_layouts([r"\d+\s*$", parse_pattern("yyyyMMdd")]) == []


@pytest.mark.parametrize(("text", "expected"), [("1122024", (2024, 2, 11)), ("3022024", (2024, 2, 3)), ("112024", (2024, 1, 1))])
def test_the_first_layout_with_a_date_that_exists_decides(text: str, expected: tuple[int, int, int]) -> None:
    column = Timestamp(formats=["dMyyyy"]).compile_at(NOW)(pa.array([text])).columns["timestamp"]

    assert column.to_pylist() == [datetime(*expected, tzinfo=UTC)]


def read(layouts: Sequence[Sequence[Part]], *texts: str | None) -> list[tuple[int, int]]:
    times = TimeReader(layouts, {"month_name": ("jan", "feb")}).read(pa.array(texts, pa.string()), Year(2024, 1, 2**62))
    return [(int(kind), int(micros) if kind else 0) for kind, micros in zip(times.kinds, times.micros, strict=True)]


def test_kinds_of_times() -> None:
    clock = [Part("month_name", 3), Part("literal", 1, "-"), Part("day", 2)]
    zoned = [*clock, Part("offset", 3)]
    day = 1_704_067_200_000_000

    found = read([clock, zoned], "Jan-01", "Jan-01+01", "Mar-01", "Feb-30", "", "a text of no layout's length", None)

    assert found == [(WALL_CLOCK, day), (INSTANT, day - 3_600_000_000), *[(UNREAD, 0)] * 5]


def test_long_literals_that_are_not_ascii() -> None:
    text = "on the day of the Ü, é: "
    layout = [Part("literal", len(text.encode()), text), Part("month", 2), Part("literal", 1, "."), Part("day", 2)]

    assert [kind for kind, _ in read([layout], text + "02.29", text.replace("é", "è") + "02.29")] == [WALL_CLOCK, UNREAD]
