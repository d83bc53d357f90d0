"""Counts of distinct values, and exact percentiles."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from aggregate_events import NUMBERS, VALUES, BySpark, accumulators, at_once, differences, events, without_nan


@pytest.mark.spark
def test_results_of_distinct_values_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(4000, 700, seed=4)
    texts = [f"count(distinct {field})" for field in VALUES if field not in ("f", "d")]
    texts += ["count(distinct s) filter (where c)", "percentile(i, 0.5) filter (where c)"]
    texts += [f"percentile({field}, {share})" for field in NUMBERS for share in (0, 0.05, 0.5, 0.95, 1)]

    assert differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts), largest=1e16) == []


def test_nan_is_one_value_and_both_zeros_are_one() -> None:
    batch = pa.record_batch({"d": pa.array([0.0, math.nan, None, -0.0, -math.nan, 1.0], pa.float64())})

    assert at_once(batch, [], accumulators(["count(distinct d)"])) == {(): {"count(distinct d)": 3}}


def test_a_percentile_between_two_values_is_their_weighted_mean() -> None:
    batch = pa.record_batch({"i": pa.array([10, 20, 20, 40], pa.int32())})
    texts = ["percentile(i, 0)", "percentile(i, 0.1)", "percentile(i, 0.5)", "percentile(i, 0.9)", "percentile(i, 1)"]

    assert list(at_once(batch, [], accumulators(texts))[()].values()) == pytest.approx([10, 13, 20, 34, 40])


@pytest.mark.spark
def test_modes_and_sets_are_those_of_spark(by_spark: BySpark) -> None:
    batch = without_nan(events(3000, 500, seed=8))
    texts = [f"mode({field})" for field in VALUES] + ["mode(s) filter (where c)"]
    texts += [f"collect_set({field}, {limit})" for field in VALUES for limit in (1, 3, 100)]
    texts += [f"top({field}, 2)" for field in VALUES] + ["top(s, 100) filter (where c)", "top(upper(s), 3)"]

    assert differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts)) == []
