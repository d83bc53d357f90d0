"""Functions and frames of the step `over_all`: those that a run could not compute are found before it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.aggregates.all_rows import Frame, check_function, read_frame

SCHEMA = pa.schema([("x", pa.int64()), ("small", pa.int16())])


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("rows between 2 preceding and current row", Frame(True, -2.0, 0.0)),
        ("range between 1.5 preceding and unbounded following", Frame(False, -1.5, None)),
        ("RANGE BETWEEN 1s PRECEDING AND CURRENT ROW", Frame(False, -1e6, 0.0, is_time=True)),
    ],
)
def test_a_frame_has_its_bounds(text: str, frame: Frame) -> None:
    assert read_frame(text) == frame


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rows between 1s preceding and current row", "has no unit"),
        ("range between 1 preceding and 5s following", "one bound is a time, and the other a number"),
        (f"range between {'9' * 400} preceding and current row", "too large"),
        ("rows between 1.5 preceding and current row", "a number of rows is whole"),
        ("rows between 1 following and 1 preceding", "ends before it starts"),
    ],
)
def test_other_frames_are_refused(text: str, reason: str) -> None:
    assert reason in str(read_frame(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("row_number() filter (where x > 1)", "row_number takes no filter"),
        ("ntile(4) filter (where x > 1)", "ntile takes no filter"),
        ("per_second(row_number())", "per_second is for windows"),
        ("per_second(lag(x))", "per_second is for windows"),
        ("lag(x, 1, 1.5)", "the default is"),
        ("lag(small, 1, x)", "the default is bigint, and the value is smallint"),
    ],
)
def test_what_a_rank_cannot_do_is_refused(text: str, reason: str) -> None:
    assert reason in check_function(text, SCHEMA).findings[0].message


@pytest.mark.parametrize("text", ["lag(x, 1, 0)", "lag(small, 1, 0)", "lead(x, 2, small)", "lag(x, 1, null)"])
def test_a_default_that_fits_is_taken(text: str) -> None:
    assert check_function(text, SCHEMA).findings == ()
