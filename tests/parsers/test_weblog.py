"""Web logs: names of formats, format strings, values that are missing, and what is not a line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.weblog.parser import Weblog

LINE = '10.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.0" 200 2326'


def test_a_field_is_null_where_another_format_matched() -> None:
    step = Weblog(formats=("combined", "nginx_error"))

    parsed = step.compile()(
        pa.array([LINE + ' "" "-"', "2021/06/17 19:25:59 [notice] 1#1: started", LINE], pa.string_view()).slice(0, 3)
    )

    assert parsed.failed.to_pylist() == [False, False, True]
    assert parsed.columns["http.request.referrer"].to_pylist() == ["", None, None]
    assert parsed.columns["http.request.line"].to_pylist() == [None, None, None]
    assert parsed.columns["message"].to_pylist() == [None, "started", None]


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"formats": ["combine"]}, "unknown-format", ("formats", 0)),
        ({"formats": ["common", "%h %Y"]}, "bad-pattern", ("formats", 1)),
        ({"formats": ["%h %"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{hours}T"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%{%Q}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{%T}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{}t"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["$host $"]}, "bad-pattern", ("formats", 0)),
        ({"formats": ["%h %{x}e %{x.y}e"], "timestamp": "source"}, None, ()),
        ({"time_formats": ["%Q"]}, "bad-time-format", ("time_formats", 0)),
        ({"time_formats": ["yyyy"]}, "bad-time-format", ("time_formats", 0)),
        ({"timezone": "Europe/Pariss"}, "unknown-timezone", ("timezone",)),
        ({"timestamp": "source"}, "field-conflict", ("formats",)),
        ({"timestamp": "message", "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str | None, path: tuple[str, ...]) -> None:
    step = Weblog(**options)

    findings = list(step.check(pa.schema([("message", pa.string())])))

    assert [(finding.code, finding.path) for finding in findings] == ([(code, path)] if code else [])
    step.parsed_fields()


PRESETS = Weblog(
    formats=("combined", "common", "vhost_combined", "apache_error", "nginx_main", "nginx_ingress", "nginx_error"),
    on_error="keep",
    unescape=True,
)
TEXTS = st.text(max_size=20) | st.lists(
    st.sampled_from([*LINE.split(" "), '""', '"', "[", "]", "-", "\\", "\x00", "\n", ", client: ", "[client ", ": ", "1#1"]),
    max_size=14,
).map(" ".join)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_any_text_is_read_or_fails(texts: list[str]) -> None:
    batch = pa.record_batch({"message": pa.array(texts, pa.string_view()), "_offset": pa.array(range(len(texts)), pa.int64())})

    events, rejects = PRESETS.open(batch.schema)(batch)

    assert events.column("_offset").to_pylist() == list(range(len(texts)))
    assert not rejects


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20) | st.lists(st.sampled_from([*'%$hutrsbqTD{}<>! "[]\\', "%{", "}t", "}i", "$a"])).map("".join))
def test_any_format_is_read_or_refused(text: str) -> None:
    step = Weblog(formats=(text or "x",))

    if not list(step.check(pa.schema([("message", pa.string())]))):
        step.compile()(pa.array([LINE, "", None]))


def test_huge_and_hostile_texts() -> None:
    texts = [f'{LINE} "{"x" * 2_000_000}" "-"', f'{LINE} "{"x" * 2_000_000}', '"' * 100_000, "[" * 100_000, "\x00"]

    parsed = Weblog().compile()(pa.array(texts))

    assert parsed.failed.to_pylist() == [False, True, True, True, True]
    assert len(parsed.columns["http.request.referrer"][0].as_py()) == 2_000_000


def test_an_unknown_per_cent_sign_in_a_haproxy_format_is_found() -> None:
    (finding,) = Weblog(formats=("%ci:%cp % x",)).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.at) == ("bad-pattern", 8)
