"""Expressions over dictionary columns: evaluated once for each combination of values, with the right result for every row."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import compile_expression
from etl.expressions.dictionary_columns import MIN_ROWS, DictionaryColumns, is_worth_encoding

EXPRESSIONS = [
    "array('network', 'web')",
    "case when upper(a) rlike 'B|C' then array('x', 'denied') when a like 'd%' then array(a) end",
    "case when a rlike 'x' and b = 'two' then 1 when b rlike 'o' or a is null then 2 "
    "else try_cast(regexp_extract(a, '(\\\\d)', 1) as int) end",
    "cast(regexp_extract(a, '(\\\\d+)', 1) as int) + case when a like 'b%' then 1 when a rlike 'c' then 2 end",
    "concat(lower(a), regexp_replace(a, 'b', '-'), case when flag then 'y' when regexp_extract(a, '(.)', 1) = 'd' then 'n' end)",
    "regexp_replace(regexp_replace(a, '[a-z]', ''), '5', '') = '' or n = 3 or n = 5 and a rlike 'q' or a like 'z'",
]
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("flag", pa.bool_()), ("n", pa.int32())])


def batch(data: st.DataObject) -> pa.RecordBatch:
    """Many rows of few values."""
    texts = data.draw(st.lists(st.none() | st.text("abcdxz1 5B", max_size=4), min_size=1, max_size=9))
    random, rows = Random(data.draw(st.integers(0, 99))), data.draw(st.sampled_from([MIN_ROWS - 1, MIN_ROWS, 3000]))
    columns = [texts, ["one", "two", None], [True, False, None], [3, 5, None]]
    return pa.RecordBatch.from_arrays(
        [pa.array(random.choices(values, k=rows), field.type) for values, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", EXPRESSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_results_are_those_of_every_row(text: str, data: st.DataObject) -> None:
    events = batch(data)
    evaluate = compile_expression(text, SCHEMA)

    plain, repeated = evaluate(events), evaluate(events, DictionaryColumns(events))

    failed = [False] * events.num_rows if plain.failed is None else plain.failed.to_pylist()
    assert ([False] * events.num_rows if repeated.failed is None else repeated.failed.to_pylist()) == failed
    assert good(repeated.values, failed) == good(plain.values, failed)
    assert repeated.values.type == plain.values.type
    assert failed.count(True) == 0 or repeated.reasons.to_pylist() == plain.reasons.to_pylist()


def good(values: pa.Array, failed: list[bool]) -> list[Any]:
    return [value for value, bad in zip(values.to_pylist(), failed, strict=True) if not bad]


def test_repeated_values_are_computed_once() -> None:
    events = pa.RecordBatch.from_pydict({"a": ["b", "c", None, "d"] * 1000})

    combined = DictionaryColumns(events).combined(["a"])

    assert combined is not None
    assert combined[0]["a"].to_pylist() == ["b", "c", "d", None]
    assert combined[2].to_pylist()[:4] == [0, 1, 3, 2]


@pytest.mark.parametrize("values", [[f"text {n}" for n in range(4000)], ["few", "rows"] * 10])
def test_columns_of_many_values_or_few_rows_are_not_encoded(values: list[str]) -> None:
    assert DictionaryColumns(pa.RecordBatch.from_pydict({"a": values})).combined(["a"]) is None


def test_only_expressions_that_cost_more_than_their_fields_are_encoded() -> None:
    assert is_worth_encoding("array('web')", [])
    assert is_worth_encoding(EXPRESSIONS[1], ["a"])
    assert not is_worth_encoding("'web'", [])
    assert not is_worth_encoding("lower(a)", ["a"])
