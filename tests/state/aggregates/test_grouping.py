"""EventsByKey of equal keys."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from aggregate_events import SCHEMA, accumulators, at_once, events

from etl.api import ComponentError
from etl.state.aggregates import Grouping, accumulator, finish, group, lift


def test_null_and_nan_are_groups_and_both_zeros_are_one() -> None:
    batch = pa.record_batch({"k": pa.array([0.0, math.nan, None, -0.0, -math.nan, None], pa.float64())})
    schema = pa.schema([("k", pa.float64())])

    found = at_once(batch, ["k"], accumulators(["count(*)"], schema))

    assert found == {(0.0,): {"count(*)": 2}, ("NaN",): {"count(*)": 2}, (None,): {"count(*)": 2}}


def test_without_keys_all_events_are_one_group_and_no_events_none() -> None:
    batch, counting = events(5, 2, seed=3), accumulators(["count(*)", "sum(i)"])

    assert at_once(batch, [], counting)[()]["count(*)"] == 5
    assert at_once(batch[:0], [], counting) == {}


def test_rows_of_a_grouping_are_in_the_order_of_groups() -> None:
    grouping = Grouping.of(np.array([1, 0, 2, 1]), 3)

    assert grouping.order.tolist() == [1, 0, 3, 2]
    assert grouping.ends.tolist() == [0, 1, 3, 4]
    assert grouping.ids.tolist() == [0, 1, 1, 2]


def test_lists_and_structs_are_keys() -> None:
    tags = [["a", "b"], ["ab"], None, ["a", "b"], [], [None], ["ab"], None]
    hosts = [{"name": "x", "ports": [1.0]}, {"name": "x", "ports": [-0.0]}, None, {"name": "x", "ports": [1.0]}] * 2
    hosts[5] = {"name": "x", "ports": [0.0]}
    batch = events(8, 1, seed=4)
    fields = [pa.array(tags), pa.array(hosts, pa.struct([("name", pa.string()), ("ports", pa.list_(pa.float64()))]))]
    batch = batch.append_column("tags", fields[0]).append_column("host", fields[1])
    counting = accumulators(["count(*)"])

    by_tags = group(pa.table({"tags": fields[0], **lift(batch, counting)}), ["tags"], counting)
    by_host = group(pa.table({"host": fields[1], **lift(batch, counting)}), ["host"], counting)

    found = zip(by_tags.column("tags").to_pylist(), finish(by_tags, counting)["count(*)"].to_pylist(), strict=True)
    expected = [(["a", "b"], 2), (["ab"], 2), (None, 2), ([], 1), ([None], 1)]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert sorted(finish(by_host, counting)["count(*)"].to_pylist()) == [2, 2, 4]


def test_an_event_whose_argument_cannot_be_computed_stops_the_run() -> None:
    batch = events(10, 2, seed=3).set_column(SCHEMA.names.index("s"), "s", pa.array(["7", "x"] * 5))
    text = "sum(cast(s as int))"

    with pytest.raises(ComponentError, match=r"aggregate 'sum\(cast\(s as int\)\)' failed for an event: .*'x'"):
        at_once(batch, ["g"], accumulators([text]))

    filtered = f"{text} filter (where s <> 'x')"
    assert at_once(batch, [], accumulators([filtered])) == {(): {filtered: 35}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("min(whatever)", "the type of its values is unknown before the run"),
        ("max(tags)", "values that can be compared, and this is array<string>"),
        ("sum(s)", "takes numbers"),
        ("count(soundex(s))", "soundex() has no Arrow form"),
    ],
)
def test_what_arrow_cannot_compute_has_a_reason(text: str, reason: str) -> None:
    schema = pa.schema([*SCHEMA, ("whatever", pa.null()), ("tags", pa.list_(pa.string()))])

    found = accumulator(text, schema, "time")

    assert isinstance(found, str)
    assert reason in found
