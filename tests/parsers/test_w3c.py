"""W3C extended logs: lists of fields, directives in the stream, blanks written as plus."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.w3c.parser import W3c

IIS = (
    "2023-01-02 03:04:05 10.0.0.1 GET /a+b x=1+2 443 CORP\\bob 192.168.1.7 Mozilla/5.0+(Windows+NT+10.0) "
    "https://example.com/?q=a+b 200 0 64 15"
)


def test_kept_lines_are_not_directives() -> None:
    batch = pa.record_batch({"message": ["#Fields: date", "bad", "::1"], "_offset": [0, 1, 2]})

    events, rejects = W3c(fields=["c-ip sc-status"], on_error="keep").open(batch.schema)(batch)

    assert (events.column("message").to_pylist(), list(rejects)) == (["bad", "::1"], [])


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"fields": ["iis", "iiss"]}, "unknown-format", ("fields", 1)),
        ({"fields": ["#Fields:"]}, "no-field", ("fields", 0)),
        ({"fields": ["c-ip c-ip"]}, "field-conflict", ("fields", 0)),
        ({"fields": ["c-ip date time"], "timestamp": "source"}, "field-conflict", ("fields",)),
        ({"timestamp": "message", "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    step = W3c(**options)

    (finding,) = step.check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)
    step.parsed_fields()


TEXTS = st.text(max_size=20) | st.lists(st.sampled_from([*IIS.split(" "), "-", '"', "#", "\x00", "\n", "+"]), max_size=16).map(
    " ".join
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_any_text_is_read_or_fails(texts: list[str]) -> None:
    batch = pa.record_batch({"message": pa.array(texts, pa.string_view()), "_offset": pa.array(range(len(texts)), pa.int64())})

    events, rejects = W3c(fields=["date time c-ip cs(User-Agent) sc-status", "iis"]).open(batch.schema)(batch)

    rows = [*events.column("_offset").to_pylist(), *(row for r in rejects for row in r.events.column("_offset").to_pylist())]
    assert sorted(rows) == [row for row, text in enumerate(texts) if not text.startswith("#")]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20) | st.lists(st.sampled_from(["date", "time", "c-ip", "cs(", "x)", "cs(a)", "\x00"])).map(" ".join))
def test_any_list_is_read_or_refused(text: str) -> None:
    step = W3c(fields=[text or "x"])

    if not list(step.check(pa.schema([("message", pa.string())]))):
        step.compile()(pa.array([IIS, "", None]))


def test_huge_and_hostile_texts() -> None:
    texts = ["::1 " + "x" * 3_000_000, "x " * 100_000, '"' * 100_000, "::1 \x00", "::1 " + "+" * 100_000]

    parsed = W3c(fields=["c-ip cs(User-Agent)"]).compile()(pa.array(texts))

    assert parsed.failed.to_pylist() == [False, True, True, False, False]
    assert [text and len(text) for text in parsed.columns["user_agent.original"].to_pylist()] == [
        3_000_000,
        None,
        None,
        1,
        100_000,
    ]
