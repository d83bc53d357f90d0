"""Aggregates of the user in windows: any cut of the events gives one result, and changed code does not fit the state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from state.lane import Lane

from etl.api import CHANGE, DELETE, INSERT, OFFSET, TIMESTAMP
from etl.spark.state.continued_steps import NO_DISCARD, misfits
from etl.state.aggregates import Accumulator, accumulator, column_names, finish, group, lift
from etl.state.aggregates.accumulator import FailedRowsError
from etl.steps.window import Window
from etl.udf.attaching import attach
from etl.udf.declaration import CodeFile, UserFunction, with_functions
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

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

class Weighted:
    # as WeightedAvg of Flink, with a weight of 1 where none is given
    def create(self) -> tuple[float, int]:
        return 0.0, 0
    def add(self, state: tuple[float, int], x: float, weight: int = 1) -> tuple[float, int]:
        return state[0] + x * weight, state[1] + weight
    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]
    def finish(self, state: tuple[float, int]) -> float | None:
        return state[0] / state[1] if state[1] else None

class Products:
    def create(self) -> float:
        return 0.0
    def add(self, state: float, x: pa.DoubleArray, n: pa.Int32Array) -> float:
        if 77 in n.to_pylist():
            raise ValueError("77 is no number")
        return state + sum(a * b for a, b in zip(x.to_pylist(), n.to_pylist()) if a is not None and b is not None)
    def merge(self, a: float, b: float) -> float:
        return a + b
    def finish(self, state: float) -> float:
        return state

def half(x: float) -> float:
    return x / 2
"""

SCHEMA = pa.schema([("at", TIMESTAMP), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int32()), ("s", pa.string())])


def _functions(code: str = CODE) -> dict[str, UserFunction]:
    found = {}
    for name in ("Geometric", "Texts", "Nulls", "Weighted", "Products", "half"):
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


TEXTS = (
    "geometric(x)", "texts(s) filter (where n > 0)", "nulls(n)", "geometric(half(x))",
    "weighted(x, n)", "weighted(x)", "products(x, n)",
)  # fmt: skip


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


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ROW, max_size=5), min_size=1, max_size=4))
def test_any_cut_gives_the_result_of_all_events(parts: list[list[tuple[Any, ...]]]) -> None:
    assert _result(parts) == _result([[row for rows in parts for row in rows]])


def test_results() -> None:
    rows = [("a", 2.0, 1, "x"), ("a", 8.0, None, "yy"), ("a", None, 2, "z"), ("b", None, None, None)]

    assert _result([rows[:1], rows[1:]]) == {
        "a": [4.0, "x,z", "1 of 3", 2.0, 2.0, 5.0, 2.0],
        "b": [None, "", "1 of 1", None, None, None, 0.0],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weighted()", "weighted is written Weighted(x, weight), and its arguments are ()"),
        ("weighted(x, n, n)", "weighted is written Weighted(x, weight), and its arguments are (x, n, n)"),
        ("weighted(*)", "weighted is written Weighted(x, weight), and its arguments are (*)"),
        ("weighted(x, s)", "Weighted(x, weight) takes bigint as weight, and this is string"),
        ("products(x)", "products is written Products(x, n), and its arguments are (x)"),
        ("weighted(x, null)", "null is null, whatever the event"),
        ("weighted(x, m)", "there is no field 'm' here"),
        ("weighted(x, n) filter (where s)", "a filter is a condition, and this is string"),
    ],
)
def test_calls_with_other_arguments_are_mistakes(text: str, message: str) -> None:
    assert accumulator(with_functions(text, _functions().values()), SCHEMA, "at") == message


def test_an_event_whose_values_cannot_be_added_fails_alone() -> None:
    batch = _batch([("a", 1.0, 2, ""), ("a", 1.0, 77, ""), ("a", 3.0, 1, "")])

    with pytest.raises(FailedRowsError) as caught:
        lift(batch, _accumulators("products(x, n)"))

    assert list(caught.value.reasons) == [1]


FAILING = """
import time
import pyarrow as pa

class List:
    def create(self) -> list[int]:
        return []
    def add(self, state: list[int], x: int) -> list[int]:
        state.append(x)
        if x < 0:
            raise ValueError(f"{x} in {len(state)}")
        if x == 99:
            return ["no number"]
        if x == 98:
            return None
        if x == 77:
            time.sleep(5)
        return state
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        if 13 in a + b:
            raise ValueError("13")
        return None if 14 in a + b else sorted(a + b)
    def finish(self, state: list[int]) -> str:
        if 66 in state:
            raise SystemExit("66")
        return None if 67 in state else 3.5 if 68 in state else ",".join(map(str, state))

class Array(List):
    def create(self) -> list[int]:
        return []
    def add(self, state: list[int], x: pa.Int64Array) -> list[int]:
        for one in x.to_pylist():
            state = super().add(state, one)
        return state
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return super().merge(a, b)
    def finish(self, state: list[int]) -> str:
        return super().finish(state)

def checked(x: int) -> int:
    if x < 0:
        raise ValueError(x)
    return x
"""


def _failing_lane(aggregate: str, folder: Path, **options: Any) -> Lane:
    functions = {}
    for name in ("List", "Array", "checked"):
        one = read_function(FunctionDeclaration(name, CodeFile("f.py", FAILING), name, timedelta(seconds=0.2)))
        assert isinstance(one, UserFunction), one
        functions[name.lower()] = one
    aggregates = {"all": aggregate, "events": "count(*)"}
    window = {"type": "window", "time": "at", "size": "1m", "late": "0s", "group_by": ["k"], "aggregates": aggregates, **options}
    step = attach(Window.model_validate({name: one for name, one in window.items() if one}), functions)
    assert not [finding for finding in step.check(SCHEMA) if finding.severity == "error"]
    return Lane(step, SCHEMA, folder)


def _run_failing(lane: Lane, *batches: dict[str, list[int]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The results and the dead letters of micro-batches of numbers by key, after which windows close."""
    results = []
    for numbers in batches:
        rows = [
            {"k": key, "n": n, "at": datetime.fromtimestamp(at, UTC)}
            for key, some in numbers.items()
            for at, n in enumerate(some)
        ]
        results += lane.run([row | {OFFSET: at} for at, row in enumerate(rows)])
    results += lane.run([{"at": datetime.fromtimestamp(1000, UTC)}])
    rejects = [
        (row["k"], row.get("n"), one.code, str(reason))
        for one in lane.rejects
        for row, reason in zip(one.events.to_pylist(), one.reasons, strict=True)
    ]
    return [(row["k"], row["all"], row["events"]) for row in results], rejects


@pytest.mark.parametrize("name", ["list", "array"])
def test_an_event_whose_add_fails_is_a_dead_letter_and_does_not_count(name: str, tmp_path: Path) -> None:
    lane = _failing_lane(f"{name}(n)", tmp_path)

    found, rejects = _run_failing(lane, {"a": [1, -5, 2, 99, 98, 3], "b": [-7]}, {"a": [4]})

    assert found == [("a", "1,2,3,4", 4)]
    assert [one[:3] for one in rejects] == [(*one, "aggregate-failed") for one in [("a", -5), ("a", 99), ("a", 98), ("b", -7)]]
    assert rejects[0][3].startswith(f"aggregate '{name}(n)' failed for an event: {name.title()}() failed: ValueError: -5 in ")
    assert rejects[0][3].endswith("(f.py:11)")
    assert "returned a wrong state" in rejects[1][3]
    assert "TypeError: add returned None, and no state" in rejects[2][3] or name == "array"


def test_an_event_whose_add_hangs_is_a_dead_letter(tmp_path: Path) -> None:
    found, rejects = _run_failing(_failing_lane("list(n)", tmp_path), {"a": [1, 77, 2], "b": [3]})

    assert sorted(found) == [("a", "1,2", 2), ("b", "3", 1)]
    assert [(one[1], "it took longer than 0.2 s" in one[3]) for one in rejects] == [(77, True)]


def test_a_result_whose_merge_or_finish_fails_is_a_dead_letter(tmp_path: Path) -> None:
    lane = _failing_lane("list(n)", tmp_path)
    keys = {"ok": 1, "merge": 13, "none": 14, "finish": 66, "null": 67, "wrong": 68}

    found, rejects = _run_failing(lane, {key: [n] for key, n in keys.items()}, {key: [2] for key in keys})

    assert sorted(found) == [("null", None, 2), ("ok", "1,2", 2)]
    reasons = {one[0]: one[3] for one in rejects}
    assert reasons.keys() == {"merge", "none", "finish", "wrong"}
    assert reasons["none"] == "List() failed: TypeError: merge returned None, and no state"
    assert reasons["merge"] == "List() failed: ValueError: 13 (f.py:21)"
    assert reasons["finish"] == "List() failed: SystemExit: 66 (f.py:25)"
    assert "returned a wrong result" in reasons["wrong"]
    assert {one[2] for one in rejects} == {"result-failed"}
    window = lane.rejects[0].events.to_pylist()[0]
    assert (window["window_start"], window["window_end"]) == tuple(datetime.fromtimestamp(at, UTC) for at in (0, 60))


def test_totals_without_a_window_have_dead_letters_too(tmp_path: Path) -> None:
    lane = _failing_lane("list(n)", tmp_path, size=None, time=None, late=None, emit="on_change")
    at = lane.step.event_time()[0]
    lane.incoming = SCHEMA.append(pa.field(at, TIMESTAMP))

    found = [
        [(row["all"], row[CHANGE]) for row in lane.run([{"k": "a", "n": n, at: datetime.fromtimestamp(5, UTC), OFFSET: 0}])]
        for n in (1, -1, 66, 2)
    ]

    assert found == [[("1", INSERT)], [], [("1", DELETE)], []]
    assert [one.code for one in lane.rejects] == ["aggregate-failed", "result-failed", "result-failed"]


@pytest.mark.parametrize("options", [{}, {"gap": "1m", "size": None}])
def test_functions_in_arguments_and_conditions_fail_for_their_event_only(options: dict[str, Any], tmp_path: Path) -> None:
    lane = _failing_lane("sum(checked(n))", tmp_path, having="checked(cast(events as int) - 2) >= 0", **options)

    found, rejects = _run_failing(lane, {"a": [1, -5, 2], "b": [1]})

    assert found == [("a", 3, 2)]
    assert [(one[0], one[2]) for one in rejects] == [("a", "aggregate-failed"), ("b", "result-failed")]
    assert rejects[1][3].startswith("having cannot be computed: checked() failed: ValueError: -1")


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

    assert misfits([before], [_window(CODE.replace("\nclass", "\n\n# comment\nclass"))], NO_DISCARD) == {}
    [texts] = misfits([before], [_window(CODE.replace("x / 2", "x / 3"))], NO_DISCARD).values()
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
