"""Aggregates of the user in windows: any cut of the events gives one result, and changed code does not fit the state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import TIMESTAMP, ComponentError
from etl.spark.state.continued_steps import misfits
from etl.state.aggregates import Accumulator, accumulator, column_names, finish, group, lift
from etl.steps.window import Window
from etl.udf.attaching import attach
from etl.udf.declaration import CodeFile, UserFunction, with_functions
from etl.udf.signature import FunctionDeclaration, read_function

CODE = """
import math
import pyarrow as pa
from typing import NamedTuple

class State(NamedTuple):
    logs: float
    count: int

class Geometric:
    def create(self) -> State:
        return State(0.0, 0)
    def add(self, state: State, x: float) -> State:
        return State(state.logs + math.log(x), state.count + 1)
    def merge(self, a: State, b: State) -> State:
        return State(a.logs + b.logs, a.count + b.count)
    def finish(self, state: State) -> float | None:
        return round(math.exp(state.logs / state.count), 6) if state.count else None

class Texts:
    def create(self) -> list[str]:
        return []
    def add(self, state: list[str], values: pa.StringArray) -> list[str]:
        return sorted(state + values.drop_null().to_pylist())
    def merge(self, a: list[str], b: list[str]) -> list[str]:
        return sorted(a + b)
    def finish(self, state: list[str]) -> str:
        return ",".join(map(str, state))

class Nulls:
    def create(self) -> tuple[int, int]:
        return 0, 0
    def add(self, state: tuple[int, int], x: int | None) -> tuple[int, int]:
        return state[0] + (x is None), state[1] + 1
    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]
    def finish(self, state: tuple[int, int]) -> str:
        return f"{state[0]} of {state[1]}"

def half(x: float) -> float:
    return x / 2
"""

SCHEMA = pa.schema([("at", TIMESTAMP), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int32()), ("s", pa.string())])


def _functions(code: str = CODE) -> dict[str, UserFunction]:
    found = {}
    for name in ("Geometric", "Texts", "Nulls", "half"):
        one = read_function(FunctionDeclaration(name, CodeFile("f.py", code), name, timedelta(seconds=5)))
        assert isinstance(one, UserFunction), one
        found[name.lower()] = one
    return found


def _accumulators(*texts: str) -> dict[str, Accumulator]:
    made = {}
    for text in texts:
        one = accumulator(with_functions(text, _functions().values()), SCHEMA, "at")
        assert not isinstance(one, str), one
        made[text] = one
    return made


ROW = st.tuples(
    st.sampled_from("ab"),
    st.none() | st.sampled_from([1.0, 2.0, 8.0]),
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from(["x", "yy"]),
)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(len(rows), TIMESTAMP),
            *(pa.array(one, field.type) for one, field in zip(columns, list(SCHEMA)[1:], strict=True)),
        ],
        schema=SCHEMA,
    )


TEXTS = ("geometric(x)", "texts(s) filter (where n > 0)", "nulls(n)", "geometric(half(x))")


def _result(parts: list[list[tuple[Any, ...]]]) -> dict[str, list[Any]]:
    """The results by group, of events that come in parts, each merged on its own."""
    made = _accumulators(*TEXTS)
    tables = []
    for rows in parts:
        batch = _batch(rows)
        tables.append(group(pa.table({"k": batch.column("k"), **lift(batch, made)}), ["k"], made))
    merged = group(pa.concat_tables(tables), ["k"], made)
    assert merged.column_names == ["k", *column_names(made)]
    found = finish(merged, made)
    return {key: [found[text][at].as_py() for text in TEXTS] for at, key in enumerate(merged.column("k").to_pylist())}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ROW, max_size=5), min_size=1, max_size=4))
def test_any_cut_gives_the_result_of_all_events(parts: list[list[tuple[Any, ...]]]) -> None:
    assert _result(parts) == _result([[row for rows in parts for row in rows]])


def test_results() -> None:
    rows = [("a", 2.0, 1, "x"), ("a", 8.0, None, "yy"), ("a", None, 2, "z"), ("b", None, None, None)]

    assert _result([rows[:1], rows[1:]]) == {"a": [4.0, "x,z", "1 of 3", 2.0], "b": [None, "", "1 of 1", None]}


def test_an_error_ends_the_run_with_its_place() -> None:
    with pytest.raises(ComponentError, match=r"aggregate 'geometric\(x\)': Geometric\(\) failed: ValueError: .* \(f.py:14\)"):
        _result([[("a", -1.0, 1, "x")]])


WINDOW = {
    "type": "window",
    "time": "at",
    "size": "1m",
    "group_by": ["k"],
    "aggregates": {"g": "geometric(x)", "h": "sum(half(x))"},
}


def _window(code: str) -> dict[str, Any]:
    step = attach(Window.model_validate(WINDOW), _functions(code))
    assert not [finding for finding in step.check(SCHEMA) if finding.severity == "error"]
    return {"step": "window", **step.remembered(SCHEMA)}


def test_changed_code_does_not_fit_the_state() -> None:
    before = _window(CODE)

    assert misfits([before], [_window(CODE.replace("\nclass", "\n\n# comment\nclass"))], ()) == {}
    [texts] = misfits([before], [_window(CODE.replace("x / 2", "x / 3"))], ()).values()
    assert sorted(text.partition(" was ")[0] for text in texts) == ["aggregate g", "aggregate h"]
    assert "with the code Geometric " in " ".join(texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("geometric(s)", "geometric(x) takes double, and this is string"),
        ("geometric(x, n)", "geometric is written Geometric(x)"),
        ("per_second(geometric(x))", "Geometric() is for windows, and not for per_second"),
        ("half(x)", "there is no aggregate 'half'"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    step = attach(Window.model_validate(WINDOW | {"aggregates": {"g": text}}), _functions())

    [finding] = step.check(SCHEMA)

    assert message.lower() in finding.message.lower()


def test_what_spark_computes_for_an_aggregate_keeps_the_functions() -> None:
    aggregates = {"g": "geometric(half(x)) filter (where soundex(s) = 'A000')", "h": "sum(length(soundex(s)) + n)"}
    step = attach(Window.model_validate(WINDOW | {"aggregates": aggregates, "having": "half(g) > 1"}), _functions())

    *front, window = step.parts(SCHEMA)

    incoming = SCHEMA
    for part in front:
        assert list(part.check(incoming)) == []
        incoming = part.fields(incoming)
    assert len(front) == 2
    assert list(window.check(incoming)) == []
    assert "with the code Geometric " in window.remembered(incoming)["aggregate g"]  # type: ignore[attr-defined]
