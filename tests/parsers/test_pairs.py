"""Pairs → columns, wherever their keys and values lie."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.texts import Texts
from parsers.common.failures import Failures
from parsers.pairs.pair_columns import PairColumns, Pairs, Repeats, encode_texts


def pairs_of(rows: list[list[tuple[str, str | None]]]) -> Pairs:
    """Rows of keys and values (None: the key stands alone) as a kernel would have found them."""
    keys = pa.array([key for row in rows for key, _ in row], pa.string())
    values = pa.array([value for row in rows for _, value in row], pa.string())
    return Pairs(np.cumsum([0, *map(len, rows)]), Texts.of(keys), Texts.of(values))


def columns(
    rows: list[list[tuple[str, str | None]]], fields: dict[str, pa.DataType], repeats: Repeats = "array"
) -> dict[str, Any]:
    read = PairColumns(fields, "rest", repeats, lambda key: None if key == "secret" else key.lower()).compile()
    failures = Failures(None, "")
    parsed = failures.to_parsed(read(pairs_of(rows), failures))
    assert parsed.failed is None or not parsed.failed.true_count
    return {name: column.to_pylist() for name, column in parsed.columns.items()}


def test_fields_and_rest() -> None:
    rows = [[("A", "1"), ("b", "x"), ("secret", "y"), ("c", None)], [], [("b", ""), ("", "z")]]

    assert columns(rows, {"a": pa.int32(), "c": pa.bool_(), "l": pa.list_(pa.string())}) == {
        "a": [1, None, None],
        "c": [True, None, None],
        "l": [None, None, None],
        "rest": ['{"b":"x"}', None, '{"b":"","":"z"}'],
    }


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_equal_texts_share_a_number(type_: pa.DataType) -> None:
    texts = ["", "a", "12345678", "12345678a", "a", "12345678b", "x" * 40, "", "12345678a", "x" * 40, "\0", "\0\0"]

    numbers, found = encode_texts(Texts.of(pa.array(texts, type_)))

    assert [found[number].decode() for number in numbers] == texts
    assert len(found) == len(set(texts))


def test_texts_at_the_very_end_of_a_buffer() -> None:
    many = 5000  # so that some lie where a page of memory ends
    rows = [[(f"k{row % 7}", f"value {row}"), ("q", '"\x01' * (row % 20))] for row in range(many)]

    found = columns(rows, {"q": pa.string()})

    assert found["q"] == [row[1][1] for row in rows]
    assert [json.loads(text) for text in found["rest"]] == [dict([row[0]]) for row in rows]


KEYS = st.sampled_from(["a", "A", "b", "secret", "e", "é", "a long key that is more than 16 bytes", ""])
VALUES = (
    st.none() | st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["x", 'a "quoted" value \\ \n\t\x1f\x7f'])
)
ROWS = st.lists(st.lists(st.tuples(KEYS, VALUES), max_size=6), max_size=6)


def expected(row: list[tuple[str, str | None]], repeats: Repeats) -> dict[str, Any]:
    """What a dictionary would make of the pairs of a row."""
    found: dict[str, list[str]] = {}
    for key, value in row:
        if key != "secret":
            found.setdefault(key.lower(), []).extend([] if value is None else [value])
    chosen = {"first": lambda v: v[:1], "last": lambda v: v[-1:], "array": list, "distinct": lambda v: list(dict.fromkeys(v))}
    texts = {key: chosen[repeats](values) for key, values in found.items()}
    return {key: True if not values else values[0] if len(values) == 1 else values for key, values in texts.items()}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from(["first", "last", "array", "distinct"]))
def test_the_rest_is_what_a_dictionary_makes_of_the_pairs(rows: list[list[tuple[str, str | None]]], repeats: Repeats) -> None:
    found = columns(rows, {}, repeats)

    assert [json.loads(text or "{}") for text in found["rest"]] == [expected(row, repeats) for row in rows]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(ROWS, st.sampled_from(["first", "last", "array"]))
def test_fields_take_what_the_rest_would_hold(rows: list[list[tuple[str, str | None]]], repeats: Repeats) -> None:
    found = columns(rows, {"a": pa.string(), "b": pa.list_(pa.string())}, repeats)

    for row, single, several in zip(rows, found["a"], found["b"], strict=True):
        one, every = expected(row, "first" if repeats == "first" else "last"), expected(row, "array")
        assert single == {True: "true"}.get(one.get("a"), one.get("a"))
        held = every.get("b", [])
        assert several == (None if "b" not in every else ["true"] if held is True else held if isinstance(held, list) else [held])
