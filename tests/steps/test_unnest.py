"""An event of each element of an array."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import OFFSET, Finding, Outcome, parse_type, visible
from etl.columns.texts import materialize
from etl.steps.unnest import Unnest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = [[{"id": 1, "who": {"name": "ann"}}, {"id": 2, "who": None}], [], None, [None, {"id": 3, "who": {"name": None}}]]
RECORD = "array<struct<id: int, who: struct<name: string>>>"
WORDS: list[list[str | None] | None] = [["a", None, "c"], [], ["d"], None]


def events(values: list[Any], type_: str, name: str = "records") -> pa.RecordBatch:
    """Events 0, 10, 20 … with an array each, a host and a text that travels as a view."""
    count = len(values)
    return pa.record_batch(
        {
            "host": [f"h{n}" for n in range(count)],
            name: pa.array(values, parse_type(type_)),
            "line": pa.array([f"a line that is longer than a view {n}" for n in range(count)]).cast(pa.string_view()),
            OFFSET: pa.array([n * 10 for n in range(count)], pa.int64()),
        }
    )


def unnested(batch: pa.RecordBatch, **options: Any) -> Outcome:
    incoming = pa.schema([(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in batch.schema])
    step = pickle.loads(pickle.dumps(Unnest(**{"field": "records", **options})))
    assert not list(step.check(incoming))
    outcome: Outcome = step.open(incoming)(batch)
    assert materialize(outcome.events).schema == step.fields(incoming)
    return outcome


def column(outcome: Outcome, name: str) -> list[Any]:
    found: list[Any] = materialize(outcome.events).column(name).to_pylist()
    return found


def test_members_of_objects_become_fields_and_the_others_are_copied() -> None:
    outcome = unnested(events(RECORDS, RECORD))

    assert visible(outcome.events.schema).names == ["host", "line", "records.id", "records.who.name"]
    assert column(outcome, "records.id") == [1, 2, None, 3]
    assert column(outcome, "records.who.name") == ["ann", None, None, None]
    assert column(outcome, "host") == ["h0", "h0", "h3", "h3"]
    assert column(outcome, "line")[2] == "a line that is longer than a view 3"
    assert column(outcome, OFFSET) == [0, 0, 30, 30]
    assert outcome.rejects == ()


def test_values_take_the_place_of_the_array() -> None:
    outcome = unnested(events(WORDS, "array<string>"))

    assert column(outcome, "records") == ["a", None, "c", "d"]
    assert column(outcome, OFFSET) == [0, 0, 0, 20]


def test_an_empty_array_keeps_its_event_when_asked_to() -> None:
    outcome = unnested(events(WORDS, "array<string>"), empty="keep", position="at")

    assert column(outcome, "records") == ["a", None, "c", None, "d", None]
    assert column(outcome, "at") == [0, 1, 2, None, 0, None]
    assert column(outcome, OFFSET) == [0, 0, 0, 10, 20, 30]


def test_the_element_goes_where_target_says() -> None:
    outcome = unnested(events(RECORDS, RECORD), target="record", position="n")

    assert visible(outcome.events.schema).names == ["host", "line", "record.id", "record.who.name", "n"]
    assert column(outcome, "n") == [0, 1, 0, 1]


def test_arrays_of_arrays_are_unnested_one_level() -> None:
    outcome = unnested(events([[[1, 2], []], [None, [3]]], "array<array<int>>"))

    assert column(outcome, "records") == [[1, 2], [], None, [3]]


def test_a_part_of_a_batch_has_its_own_elements() -> None:
    whole = events(WORDS, "array<string>")

    assert column(unnested(whole.slice(2, 2)), "records") == ["d"]
    assert column(unnested(whole.slice(1, 1)), "records") == []
    assert column(unnested(whole.slice(0, 0)), "records") == []


def test_a_field_of_which_nothing_is_known_has_no_elements() -> None:
    batch = events([None, None], "void")

    assert unnested(batch).events.num_rows == 0
    assert column(unnested(batch, empty="keep"), "records") == [None, None]


def check_codes(incoming: pa.Schema, **options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(one.code, one.path) for one in Unnest(**{"field": "records", **options}).check(incoming)]


def test_findings() -> None:
    incoming = events(RECORDS, RECORD).schema
    text = pa.schema([("records", pa.string()), ("a", pa.int64()), ("b.c", pa.int64())])
    array = pa.schema([("records", pa.list_(pa.string())), ("a", pa.int64()), ("b.c", pa.int64())])

    assert check_codes(incoming, field="recods") == [("unknown-field", ("field",))]
    assert check_codes(text) == [("wrong-type", ("field",))]
    assert check_codes(text, field="a") == [("wrong-type", ("field",))]
    assert check_codes(array, target="b") == [("field-conflict", ("target",))]
    assert check_codes(array, target="a.x") == [("field-conflict", ("target",))]
    assert check_codes(array, position="b") == [("field-conflict", ("position",))]
    assert check_codes(array, position="records") == [("duplicate-field", ("position",))]
    assert check_codes(array, target=OFFSET)[0] == ("reserved-field", ("target",))
    assert check_codes(array, target="message", position="n") == []
    (finding,) = Unnest(field="records").check(text)
    assert isinstance(finding, Finding)
    assert finding.message == "field 'records' is string, and unnest takes an array"
    assert finding.hint == "declare it as array<string> where it is read"


@pytest.mark.spark
@settings(max_examples=5, deadline=None)
@given(arrays=st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=4), min_size=1, max_size=30))
def test_it_makes_what_posexplode_makes(spark: SparkSession, arrays: list[list[int | None] | None]) -> None:
    frame = spark.createDataFrame([(n * 10, array) for n, array in enumerate(arrays)], "o bigint, records array<int>")
    for empty, function in (("drop", "posexplode"), ("keep", "posexplode_outer")):
        expected = [tuple(row) for row in frame.selectExpr("o", f"{function}(records) AS (at, x)").orderBy("o", "at").collect()]

        outcome = unnested(events(arrays, "array<int>"), empty=empty, position="at")

        assert [*zip(*(column(outcome, name) for name in (OFFSET, "at", "records")), strict=True)] == expected


def test_events_that_would_take_too_much_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.steps.event_copies.MAX_COPIED_BYTES", 100_000)
    batch = events([["a"] * 3, ["b"] * 5000, ["c"] * 2, ["d"] * 1500, ["e"] * 1800], "array<string>")

    outcome = unnested(batch)

    assert column(outcome, "records") == ["a"] * 3 + ["c"] * 2 + ["d"] * 1500
    (rejects,) = outcome.rejects
    assert (rejects.code, rejects.events.column(OFFSET).to_pylist()) == ("too-many-elements", [10, 40])
