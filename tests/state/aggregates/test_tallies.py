"""Counts of distinct values, exact percentiles, and histograms."""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pytest
from aggregate_events import NUMBERS, VALUES, BySpark, accumulators, at_once, differences, events, without_nan

from etl.api import ComponentError
from etl.state.aggregates import tallies


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


def histograms(values: list[float | None], *buckets: str) -> list[list[tuple[float | None, float | None, int]]]:
    texts = [f"histogram(d, {one})" for one in buckets]
    found = at_once(pa.record_batch({"d": pa.array(values, pa.float64())}), [], accumulators(texts))
    return [[(one["from"], one["to"], one["count"]) for one in buckets] for buckets in found[()].values()]


def test_buckets_hold_their_lower_bound_and_nan_is_in_none() -> None:
    values = [-1, 0, 0.5, 0.5, 0.7, 1, 7, math.inf, -math.inf, math.nan, None]

    assert histograms(values, "[0, 0.5, 1]", "[5]") == [
        [(None, 0, 2), (0, 0.5, 1), (0.5, 1, 3), (1, None, 3)],
        [(None, 5, 7), (5, None, 2)],
    ]


def test_buckets_of_a_width_are_those_with_values() -> None:
    assert histograms([-1, -10, 0, 9.9, 10, 35, math.inf, math.nan, None, 1e300], "10") == [
        [(-10, 0, 2), (0, 10, 2), (10, 20, 1), (30, 40, 1)]
    ]


def test_buckets_without_values() -> None:
    assert histograms([None], "10", "[1]") == [[], [(None, 1, 0), (1, None, 0)]]


def test_too_many_buckets_are_refused() -> None:
    with pytest.raises(
        ComponentError, match="'histogram\\(d, 1\\)' has more than 10,000 buckets in a group; give a larger width"
    ):
        histograms([float(number) for number in range(10_001)], "1")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("count(distinct i)", "approx_count_distinct(x)"),
        ("percentile(i, 0.9)", "approx_percentile(x, 0.9)"),
        ("top(i, 3)", "approx_top(x, 10)"),
        ("mode(i)", "approx_top(x, 10)"),
    ],
)
def test_too_many_distinct_values_of_a_group_are_refused(text: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MAX_DISTINCT", 3)
    few = pa.record_batch({"g": pa.array([1, 1, 1, 2], pa.int32()), "i": pa.array([1, 2, 3, 4], pa.int32())})
    at_once(few, ["g"], accumulators([text]))

    with pytest.raises(ComponentError, match=re.escape(f"{text!r} has more than 3 distinct values in a group: use {other}")):
        at_once(few, [], accumulators([text]))
