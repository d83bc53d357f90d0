"""The forms in which logs write times, and the formats that read them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.api import Parser
from etl.catalogue import installed
from etl.inference.time_formats import choose_format, is_ambiguous
from etl.inference.times import forms, time_at

TIMES = {
    "2026-11-20T06:25:03.123+01:00": "2026-11-20T05:25:03.123000",
    "2026-11-20 06:25:03,123": "2026-11-20T06:25:03.123000",
    "2026-11-20 06:25:03.123 UTC": "2026-11-20T06:25:03.123000",
    "2026-11-20 06:25:03.123 +00:00": "2026-11-20T06:25:03.123000",
    "2026/11/20 06:25:03": "2026-11-20T06:25:03",
    "26/11/20 06:25:03": "2026-11-20T06:25:03",
    "2026-11-20-06.25.03.675872": "2026-11-20T06:25:03.675872",
    "20261120-6:5:3:606": "2026-11-20T06:05:03.606000",
    "261120 062503": "2026-11-20T06:25:03",
    "20261120T062503Z": "2026-11-20T06:25:03",
    "20/Nov/2026:06:25:03 +0000": "2026-11-20T06:25:03",
    "20-Nov-2026 06:25:03.123": "2026-11-20T06:25:03.123000",
    "20 Nov 2026 06:25:03.123": "2026-11-20T06:25:03.123000",
    "Fri Nov 20 06:25:03 2026": "2026-11-20T06:25:03",
    "Nov 20, 2026 6:25:03 PM": "2026-11-20T18:25:03",
    "20.11.2026 06:25:03": "2026-11-20T06:25:03",
    "11/20/2026 6:25:03 AM": "2026-11-20T06:25:03",
    "1795155906": "2026-11-20T06:25:06",
    "1795155906.250": "2026-11-20T06:25:06.250000",
    "1795155906250": "2026-11-20T06:25:06.250000",
}


def instants(format_: str, texts: list[str]) -> list[str | None]:
    parser = installed().families["step"]["timestamp"].model_validate({"formats": [format_]})
    assert isinstance(parser, Parser)
    found = parser.compile()(pa.array(texts)).columns["timestamp"].to_pylist()
    return [time and time.replace(tzinfo=None).isoformat() for time in found]


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_found_whole_and_read_by_its_format(text: str) -> None:
    found = time_at(f"{text} INFO started", 0)

    assert found is not None
    form, end = found
    chosen = choose_format(form, [text])
    assert (end, chosen is not None) == (len(text), True)
    assert instants(str(chosen), [text]) == [TIMES[text]]


@pytest.mark.parametrize("text", ["10.30.1.2 x", "120 x", "Mayor x", "2026-11-20x", "99/99/99 06:25:03 x", "12345678901234567 x"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert time_at(text, 0) is None


def test_every_format_is_one_of_the_parser() -> None:
    step = installed().families["step"]["timestamp"]
    incoming = pa.schema([("timestamp", pa.string())])

    for text in {text for form in forms() for text in form.formats}:
        parser = step.model_validate({"formats": [text]})
        assert isinstance(parser, Parser)
        assert [finding for finding in parser.check(incoming) if finding.severity == "error"] == [], text


def test_the_order_of_times_decides_between_day_and_month() -> None:
    found = time_at("03/04/2026 06:25:03", 0)
    assert found is not None
    form = found[0]

    days = ["30/04/2026 06:25:03", "01/05/2026 06:25:03"]
    rising = ["01/12/2026 06:00:00", "02/01/2026 06:00:00", "02/03/2026 06:00:00"]
    alike = ["03/03/2026 06:00:00", "03/03/2026 07:00:00"]

    assert str(choose_format(form, days)).startswith("d/M")
    assert str(choose_format(form, rising)).startswith("M/d")
    assert not is_ambiguous(form, days)
    assert is_ambiguous(form, alike)
