"""Parsers on batches whose texts are strings or views."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from etl.api import OFFSET, Outcome, Parsed, Parser, Schema, nearest
from etl.columns.texts import materialize, materialize_array

TEXTS = ["key=value", "no pair", "a much longer key=a much longer value", None]


class Pair(Parser):
    """Two fields with a sign between them."""

    type: str = "pair"
    takes_views = True

    def parsed_fields(self) -> Schema:
        return pa.schema([("key", pa.string()), ("value", pa.string())])

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        def parse(texts: pa.Array) -> Parsed:
            pairs = [(text or "").partition("=") for text in texts.to_pylist()]
            failed = pa.array([not sign for _, sign, _ in pairs], pa.bool_())
            keys, values = ([pair[side] if pair[1] else None for pair in pairs] for side in (0, 2))
            return Parsed({"key": pa.array(keys, texts.type), "value": pa.array(values, texts.type)}, failed)

        return parse


def outcome(type_: pa.DataType, texts: list[str | None] = TEXTS, **options: object) -> Outcome:
    other = pa.array([f"another text beside it {row}" for row in range(len(texts))], type_)
    batch = pa.record_batch({"message": pa.array(texts, type_), "other": other, OFFSET: pa.array(range(len(texts)))})
    return Pair(**options).open(batch.schema)(batch)


@pytest.mark.parametrize("on_error", ["dead_letter", "drop", "keep"])
@pytest.mark.parametrize("keep_field", [True, False])
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], TEXTS[1:2], []])
def test_views_are_parsed_like_strings(on_error: str, keep_field: bool, texts: list[str | None]) -> None:
    plain = outcome(pa.string(), texts, on_error=on_error, keep_field=keep_field)
    views = outcome(pa.string_view(), texts, on_error=on_error, keep_field=keep_field)

    assert materialize(views.events).equals(plain.events)
    assert [materialize(rejects.events) for rejects in views.rejects] == [rejects.events for rejects in plain.rejects]


def test_failed_events_are_rejected_with_all_their_columns() -> None:
    kept, (rejects,) = outcome(pa.string_view())

    assert kept.column("key").to_pylist() == ["key", "a much longer key"]
    assert materialize_array(rejects.events.column("message")).to_pylist() == ["no pair", None]
    assert rejects.events.column("other").to_pylist() == ["another text beside it 1", "another text beside it 3"]


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("mesage", ["host", "message"]) == "did you mean 'message'?"
    assert nearest("zzz", ["host", "message"]) is None
