"""Numbers at the beginning of texts, correctly rounded."""

from __future__ import annotations

import math
import re
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.numbers import real_numbers, whole_numbers

WHOLE = re.compile(r"[ \t\n\f\r]*\+?(-?[0-9]+)")
REAL = re.compile(r"[ \t\n\f\r]*\+?(-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)")

like_numbers = st.text("0123456789", max_size=22) | st.text("0159+-.eE \t\n\x0bx,é", max_size=30)
written = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:.3f}"),
    st.integers(-(2**64), 2**64).map(str),
    st.tuples(st.integers(0, 10**20), st.integers(-400, 400)).map(lambda parts: f"{parts[0]}e{parts[1]}"),
)
texts = st.lists(st.none() | st.text(max_size=5) | like_numbers | written | written.map(lambda text: f" +{text}ms"), min_size=1)
kinds = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


def whole(text: str | None) -> int | None:
    found = WHOLE.match(text or "")
    value = int(found[1]) if found else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def real(text: str | None) -> bytes | None:
    found = REAL.match(text or "")
    return bits(float(found[1])) if found else None


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack("d", value)


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(texts, kinds, st.integers(0, 3))
def test_whole_numbers(texts: list[str | None], kind: pa.DataType, start: int) -> None:
    column = pa.array(texts, kind).slice(start)

    assert whole_numbers(column).to_pylist() == [whole(text) for text in texts[start:]]


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(texts, kinds, st.integers(0, 3))
def test_real_numbers(texts: list[str | None], kind: pa.DataType, start: int) -> None:
    column = pa.array(texts, kind).slice(start)

    assert [bits(value) for value in real_numbers(column).to_pylist()] == [real(text) for text in texts[start:]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("18446744073709551616", None),
        ("0" * 40 + "7", 7),
        ("+-5", -5),
        ("\v5", None),
        ("0x1F", 0),
        ("12.9", 12),
        ("", None),
        ("-", None),
        (None, None),
    ],
)
def test_bounds_of_whole_numbers(text: str | None, expected: int | None) -> None:
    assert whole_numbers(pa.array([text], pa.string())).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9007199254740993", 9007199254740992.0),
        ("0." + "0" * 400 + "1e400", 0.1),
        ("1e999", math.inf),
        ("-1e999999999999999999999", -math.inf),
        ("1e-999", 0.0),
        ("2.5.7", 2.5),
        ("12.", 12.0),
        (".5e", 0.5),
        ("1e+", 1.0),
        ("nan", None),
        ("inf", None),
        (".", None),
        ("-.e5", None),
        ("1" * 1000, math.inf),
    ],
)
def test_bounds_of_real_numbers(text: str, expected: float | None) -> None:
    assert real_numbers(pa.array([text, None])).to_pylist() == [expected, None]


def test_no_texts() -> None:
    assert whole_numbers(pa.array([], pa.string())).to_pylist() == []
    assert real_numbers(pa.nulls(2)).to_pylist() == [None, None]
