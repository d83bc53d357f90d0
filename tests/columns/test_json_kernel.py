"""The JSON kernel: every text type and memory layout, and its memory bound."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.json.lines import JsonWriter, Lines

TEXTS = (pa.string(), pa.large_string(), pa.string_view())


def write(columns: list[pa.Array], quote: str = '"', raw: bool = False) -> Lines:
    """Lists of the columns' values, one a line."""
    between = [f"{quote},{quote}"] * (len(columns) - 1)
    literals = [text.encode() for text in (f"[{quote}", *between, f"{quote}]\n")]
    lines = JsonWriter(literals, [column.type for column in columns], [raw] * len(columns)).write(columns, len(columns[0]))
    assert lines is not None
    return lines


def read(lines: Lines) -> list[Any]:
    text = bytes(lines.text)
    ends = lines.lengths.cumsum()
    assert len(text) == (ends[-1] if len(ends) else 0)
    return [json.loads(text[end - length : end]) for end, length in zip(ends, lines.lengths, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("type_", TEXTS, ids=str)
@settings(deadline=None, max_examples=150)
@given(texts=st.lists(st.none() | st.text() | st.text('"\\\n\x01é ', max_size=40), min_size=2), data=st.data())
def test_texts_read_back(type_: pa.DataType, texts: list[str | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts) - 1))
    column = pa.array(texts, type_).slice(start)

    assert read(write([column, column])) == [[text, text] for text in texts[start:]]


@pytest.mark.parametrize("character", [chr(code) for code in range(0x20)] + ['"', "\\"])
def test_escapes(character: str) -> None:
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}

    for length in range(40):
        text = "x" * length + character + "y" * 20
        written = bytes(write([pa.array([text], pa.string_view())]).text).decode()

        assert written == '["' + text.replace(character, short.get(character, f"\\u{ord(character):04x}")) + '"]\n'


def test_other_characters_are_not_escaped() -> None:
    text = "\x7f/\u2028\u00a0é😀" * 5

    assert bytes(write([pa.array([text])]).text) == f'["{text}"]\n'.encode()


def test_views_of_several_buffers() -> None:
    parts = [pa.array([letter * 50, None, letter, letter * 13], pa.string_view()) for letter in "abc"]
    column = pa.concat_arrays(parts)
    assert len(column.buffers()) > 3

    assert read(write([column, column])) == [[text, text] for text in column.to_pylist()]


def test_a_view_that_ends_where_its_buffer_ends() -> None:
    text = b"0123456789abcdefghij"
    memory = pa.py_buffer(text)
    view = len(text).to_bytes(4, "little") + text[:4] + bytes(8)
    column = pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(view), memory])

    assert read(write([column])) == [[text.decode()]]


@pytest.mark.slow
@pytest.mark.parametrize("type_", TEXTS, ids=str)
def test_ten_megabytes_of_quotes(type_: pa.DataType) -> None:
    texts = ["", '"' * 10_000_000, "x", "\x01" * 1_000_000]

    assert read(write([pa.array(texts, type_)])) == [[text] for text in texts]


def test_memory_for_plain_text_is_little_more_than_its_lines() -> None:
    column = pa.array(["x" * 1000] * 100)
    before = pa.total_allocated_bytes()

    lines = write([column])

    assert len(lines.text) <= pa.total_allocated_bytes() - before < 1.2 * len(lines.text)


def test_json_text_is_written_unchanged() -> None:
    column = pa.array(['{"a":"\\n"}', None, "[1,2]", "1.5"])

    assert bytes(write([column], quote="", raw=True).text) == b'[{"a":"\\n"}]\n[null]\n[[1,2]]\n[1.5]\n'


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 10**6), min_size=1))
def test_whole_numbers(numbers: list[int | None]) -> None:
    assert read(write([pa.array(numbers, pa.int64())], quote="")) == [[number] for number in numbers]


@pytest.mark.parametrize("digits", range(1, 21))
def test_unsigned_numbers_of_each_length(digits: int) -> None:
    numbers = [10 ** (digits - 1), min(10**digits, 2**64) - 1, 12345678901234567890 % 10**digits]

    assert read(write([pa.array(numbers, pa.uint64())], quote="")) == [[number] for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "timespec"), [("s", "seconds"), ("ms", "milliseconds"), ("us", "microseconds")])
@settings(deadline=None, max_examples=200)
@given(times=st.lists(st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), min_size=1))
def test_times(unit: str, timespec: str, times: list[datetime | None]) -> None:
    column = pa.array(times, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
    zoned = column.cast(pa.timestamp(unit, "UTC"))

    rows = read(write([column, zoned]))

    texts = [value and value.isoformat(timespec=timespec) for value in column.to_pylist()]
    assert rows == [[text, text and text + "Z"] for text in texts]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_nanoseconds(times: list[int | None]) -> None:
    column = pa.array(times, pa.timestamp("ns"))

    texts = [text and text.replace(" ", "T") for text in column.cast(pa.string()).to_pylist()]
    assert read(write([column])) == [[text] for text in texts]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(st.none() | st.integers(-719_528, 2_932_896), min_size=1))
def test_days(days: list[int | None]) -> None:
    column = pa.array(days, pa.date32())

    assert read(write([column])) == [[text] for text in column.cast(pa.string()).to_pylist()]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, 253_402_300_800], pa.timestamp("s")),
        pa.array([-62_167_219_201], pa.timestamp("s")),
        pa.array([0, -719_529], pa.date32()),
    ],
    ids=str,
)
def test_years_that_are_not_four_digits_are_not_written(column: pa.Array) -> None:
    assert JsonWriter([b'["', b'"]\n'], [column.type], [False]).write([column], len(column)) is None


def test_booleans_and_nulls_of_slices() -> None:
    column = pa.array([True, False, None] * 20).slice(7, 40)

    assert read(write([column], quote="")) == [[value] for value in column.to_pylist()]


def test_a_type_the_kernel_does_not_read_is_refused() -> None:
    with pytest.raises(TypeError, match="double"):
        JsonWriter([b"[", b"]\n"], [pa.float64()], [False])


def test_dates_are_quoted() -> None:
    assert bytes(write([pa.array([date(2026, 1, 2)])]).text) == b'["2026-01-02"]\n'
