"""FirstOrLast, last and earliest values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aggregate_events import SCHEMA, VALUES, BySpark, accumulators, at_once, differences, events

from etl.api import OFFSET


@pytest.mark.spark
def test_choices_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(4000, 700, seed=3)
    texts = [f"{function}({field})" for function in ("first", "last") for field in VALUES]
    texts += [f"{function}({field}) filter (where c)" for function in ("first", "last") for field in ("i", "s", "p")]
    texts += [f"collect({field}, {limit})" for field in VALUES for limit in (1, 3, 100)]
    texts += ["collect(s, 2) filter (where c)", "collect(length(s), 5)"]

    assert differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts)) == []


def test_nested_values_are_chosen_and_collected() -> None:
    nested = pa.array([{"a": [1]}, None, {"a": None}, {"a": [2, 3]}], pa.struct([("a", pa.list_(pa.int64()))]))
    batch = events(4, 1, seed=1).append_column("nested", nested)
    batch = batch.set_column(SCHEMA.names.index("time"), "time", pa.array([3, 0, 1, 2]).cast(SCHEMA.field("time").type))

    found = at_once(batch, [], accumulators(["first(nested)", "last(nested)", "collect(nested, 2)"], batch.schema), batch.schema)

    assert found[()] == {
        "first(nested)": {"a": None},
        "last(nested)": {"a": [1]},
        "collect(nested, 2)": [{"a": None}, {"a": [2, 3]}],
    }


def test_of_events_with_one_time_the_smaller_offset_is_the_earlier() -> None:
    time = pa.array([5, 5, 5]).cast(SCHEMA.field("time").type)
    batch = pa.record_batch({"time": time, OFFSET: pa.array([30, 10, 20]), "i": pa.array([1, 2, 3], pa.int32())})

    found = at_once(batch, [], accumulators(["first(i)", "last(i)", "collect(i, 2)"]))

    assert found == {(): {"first(i)": 2, "last(i)": 1, "collect(i, 2)": [2, 3]}}


@pytest.mark.spark
def test_choices_by_another_value_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(3000, 500, seed=7)
    texts = [f"{function}({x}, {y})" for function in ("min_by", "max_by") for x in ("i", "s") for y in VALUES]
    texts += ["min_by(s, i + 0D) filter (where c)", "max_by(time, length(s))"]

    assert differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts)) == []


def test_what_is_chosen_is_computed_only_where_there_is_a_value_to_choose_by() -> None:
    time = pa.array([1, 2]).cast(SCHEMA.field("time").type)
    batch = pa.record_batch({"time": time, OFFSET: pa.array([1, 2]), "s": ["x", "5"], "i": pa.array([None, 1], pa.int32())})

    assert at_once(batch, [], accumulators(["max_by(int(s), i)"])) == {(): {"max_by(int(s), i)": 5}}
