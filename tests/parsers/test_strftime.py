"""strftime's codes in the letters of `timestamp`."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from etl.scanner.pattern_error import PatternError
from parsers.timestamp.parser import Timestamp
from parsers.weblog.strftime import time_format


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("%d/%b/%Y:%H:%M:%S %z", "dd/MMM/yyyy:HH:mm:ss Z"),
        ("%FT%T.%3f%z", "yyyy-MM-dd'T'HH:mm:ss.SSSZ"),
        ("%F %T%.6f", "yyyy-MM-dd HH:mm:ss.SSSSSS"),
        ("%a %b %e %I:%M:%S %p %y", "EEE MMM d hh:mm:ss a yy"),
        ("%-d.%-m.%Y", "d.M.yyyy"),
        ("[%D] 'x'", "'['MM/dd/yy'] ''x'''"),
        ("%d'%m at %H%%", "dd''MM' at 'HH'%'"),
        ("%s", "epoch"),
        ("%+", "iso8601"),
    ],
)
def test_codes(text: str, letters: str) -> None:
    assert time_format(text) == letters


@pytest.mark.parametrize(("text", "at"), [("%Q", 0), ("%Y %", 3), ("%5Y", 0)])
def test_what_is_no_code(text: str, at: int) -> None:
    with pytest.raises(PatternError) as caught:
        time_format(text)

    assert caught.value.at == at


def test_what_it_gives_is_read() -> None:
    written = "[29.2.2024] at 1:02:03,250 PM %"
    step = Timestamp(formats=(time_format("[%-d.%-m.%Y] at %-I:%M:%S,%3f %p %%"),))

    parsed = step.compile()(pa.array([written]))

    assert parsed.columns["timestamp"].to_pylist() == [datetime(2024, 2, 29, 13, 2, 3, 250_000, tzinfo=UTC)]
