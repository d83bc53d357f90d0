"""The regex parser: named groups of expressions."""

from __future__ import annotations

import pyarrow as pa

from etl.columns.texts import materialize
from parsers.regex import Regex


def parse(pattern: str, *texts: str) -> list[dict[str, str | None]]:
    parsed = Regex(patterns=[pattern]).compile()(pa.array(texts))
    return pa.RecordBatch.from_pydict(dict(parsed.columns)).to_pylist()


def test_grok_names_are_unknown_here() -> None:
    (found,) = Regex(patterns=["%{WORD:x}"]).check(pa.schema([("message", pa.string())]))

    assert found.code == "unknown-pattern"


def test_a_timeout_in_a_column_of_views_is_a_dead_letter() -> None:
    parser = Regex(patterns=[r"^(?<x>(a+)+)\k<x>b$", "never"], timeout="1ms")  # type: ignore[arg-type]
    events = pa.record_batch({"message": pa.array(["a" * 3000, "b"]).cast(pa.string_view()), "_offset": pa.array([0, 1])})

    outcome = parser.open(events.schema)(events)

    assert {(reject.code, materialize(reject.events).column("message")[0].as_py()[0]) for reject in outcome.rejects} == {
        ("regex-timeout", "a"),
        ("regex-failed", "b"),
    }


def test_a_back_reference_to_a_field_that_is_captured_twice() -> None:
    parser = Regex(patterns=[r"(?<a>x)-(?<a>y)-\k<a>"])

    assert [finding.code for finding in parser.check(pa.schema({"message": pa.string()}))] == ["slow-pattern"]
    assert parse(r"(?<a>x)-(?<a>y)-\k<a>", "x-y-x") == [{"a": ["x", "y"]}]


def test_the_reason_of_texts_that_no_pattern_matches() -> None:
    batch = pa.record_batch({"message": ["n=1", "x"]})

    _, (reject,) = Regex(patterns=["n=(?<n>.)"], reason="is not a line of ours").open(batch.schema)(batch)

    assert pa.array([reject.reasons] if isinstance(reject.reasons, str) else reject.reasons).to_pylist() == [
        "is not a line of ours"
    ]
