"""Functions of RocketMQ Streams on columns: each row gives what it gives alone, whatever stands beside it, and no text fails."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from etl.expressions import analyse, compile_expression
from etl.expressions.library.catalogue import functions

TEXTS = [
    "abc",
    None,
    "",
    "7",
    "-3.7",
    "2022-04-08 13:45:30",
    '{"a":[1,{"k":"v"}]}',
    "a=1,b=2",
    "日志 é",
    "1e400",
    "\x00'",
    "x" * 300,
    "NaN",
]
CALLS = {name: function.example for name, function in functions("rsql").items()}


def column_call(example: str) -> str | None:
    """The example's call with a field for its first text or number; None if it has none."""
    found = re.search(r"\((?:'(?:[^'])*'|[0-9.]+)", example)
    return None if found is None else f"{example[: found.start()]}(v{example[found.end() :]}"


@pytest.mark.slow
def test_a_column_gives_what_its_rows_give() -> None:
    schema = pa.schema([("v", pa.string())])
    calls = {name: call for name, example in CALLS.items() if (call := column_call(example))}
    of_columns = {name: call for name, call in calls.items() if not analyse(call, schema).errors}
    wrong = {}
    for call in of_columns.values():
        evaluate = compile_expression(call, schema)
        whole = evaluate(pa.record_batch([pa.array(TEXTS, pa.string())], schema=schema))
        alone = [evaluate(pa.record_batch([pa.array([text], pa.string())], schema=schema)) for text in TEXTS]
        expected = [one.values[0].as_py() for one in alone]
        if whole.failed is not None or repr(whole.values.to_pylist()) != repr(expected):
            wrong[call] = whole.values.to_pylist(), expected

    assert not wrong
    assert len(of_columns) >= 175  # others have a constant for their first argument


def test_dates_are_texts_milliseconds_timestamps_or_days() -> None:
    batch = pa.record_batch(
        {
            "text": ["2022-04-08 13:45:30"],
            "millis": [1649425530000],
            "time": pa.array([1649425530500000], pa.timestamp("us", "UTC")),
            "day": pa.array([19090], pa.date32()),
        }
    )

    found = [compile_expression(f"rsql_addhour({name}, 1)", batch.schema)(batch).values[0].as_py() for name in batch.schema.names]

    assert found == ["2022-04-08 14:45:30"] * 3 + ["2022-04-08 01:00:00"]
