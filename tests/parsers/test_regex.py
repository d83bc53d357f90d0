"""The regex parser: named groups of expressions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.columns.texts import owned
from parsers.regex import Regex


def parse(pattern: str, *texts: str) -> list[dict[str, str | None]]:
    parsed = Regex(patterns=[pattern]).compile()(pa.array(texts))
    return pa.RecordBatch.from_pydict(dict(parsed.columns)).to_pylist()


@pytest.mark.parametrize("written", ["(?<a.b>\\d+)", "(?P<a.b>\\d+)", "(?<[a][b]>\\d+)", "(?'a.b'\\d+)"])
def test_named_groups(written: str) -> None:
    assert parse(f"n={written};", "xn=42;") == [{"a.b": "42"}]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?<x>[[:alpha:]]+)", "1čž中2", "čž中"),
        ("(?<x>\\w+)", "čab", "ab"),
        ("(?<x>[^\\d\\s]+)", "12 é-", "é-"),
        ("(?<x>[a-z&&[^m-p]]+)", "mnabp", "ab"),
        ("(?i)k(?<x>EY)", "Key", "ey"),
        ("(?x) a (?<x> b+ ) # end", "abb", "bb"),
        ("^b(?<x>.*)$", "a\nbc\nd", "c\nd"),
        ("(?<x>\\x41\\u00e9\\x{4e2d})", "Aé中", "Aé中"),
        ("(?<x>[\\]\\-a]+)", "b]-a", "]-a"),
        ("(?<x>a{2,3}?)", "aaaa", "aa"),
        ("(?<x>\\h+)", "xyzBEEF", "BEEF"),
        ("a(?#no)b(?<x>\\Z)?", "ab\n", None),
        ("(?<x>a.c)", "a\nc", "a\nc"),
        ("(?<=k=)(?<x>\\d+)", "k=1", "1"),
        ("(?<![0-9])(?<x>[0-9]{2})(?![0-9])", "123 45", "45"),
        ("x{a(?<x>b)", "x{ab", "b"),
    ],
)
def test_dialect(pattern: str, text: str, found: str | None) -> None:
    assert parse(pattern, text) == [{"x": found}]


def test_grok_names_are_unknown_here() -> None:
    (found,) = Regex(patterns=["%{WORD:x}"]).check(pa.schema([("message", pa.string())]))

    assert found.code == "unknown-pattern"


def test_look_ahead_at_the_end_keeps_the_order_of_choices() -> None:
    assert parse("(?<x>.*?(?:b|a(?!c)))", "xaxb", "acb") == [{"x": "xa"}, {"x": "acb"}]


def test_captures_inside_look_around() -> None:
    assert parse("(?=(?<all>.*))(?<first>\\w)", "ab") == [{"all": "ab", "first": "a"}]
    assert parse("(?<a>x)(?!(?<b>y))(?<c>z)", "xz") == [{"a": "x", "b": None, "c": "z"}]


def test_a_timeout_in_a_column_of_views_is_a_dead_letter() -> None:
    parser = Regex(patterns=[r"^(?<x>(a+)+)\k<x>b$", "never"], timeout="1ms")  # type: ignore[arg-type]
    events = pa.record_batch({"message": pa.array(["a" * 3000, "b"]).cast(pa.string_view()), "_offset": pa.array([0, 1])})

    outcome = parser.open(events.schema)(events)

    assert {(reject.code, owned(reject.events).column("message")[0].as_py()[0]) for reject in outcome.rejects} == {
        ("regex-timeout", "a"),
        ("regex-failed", "b"),
    }


def test_a_back_reference_to_a_field_that_is_captured_twice() -> None:
    parser = Regex(patterns=[r"(?<a>x)-(?<a>y)-\k<a>"])

    assert [finding.code for finding in parser.check(pa.schema({"message": pa.string()}))] == ["slow-pattern"]
    assert parse(r"(?<a>x)-(?<a>y)-\k<a>", "x-y-x") == [{"a": ["x", "y"]}]


def test_the_reason_of_texts_that_no_pattern_matches() -> None:
    batch = pa.record_batch({"message": ["n=1", "x"]})

    _, (reject,) = Regex(patterns=["n=(?<n>.)"], reason="is no line of ours").open(batch.schema)(batch)

    assert pa.array([reject.reasons] if isinstance(reject.reasons, str) else reject.reasons).to_pylist() == ["is no line of ours"]
