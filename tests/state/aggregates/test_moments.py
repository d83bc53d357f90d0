"""Variance, standard deviation and correlation."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from aggregate_events import BySpark, accumulators, at_once, differences, events, partial, results

from etl.state.aggregates import group

FIELDS = ("y", "h", "i", "l", "f", "p", "q")


@pytest.mark.spark
def test_moments_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(3000, 500, seed=6)
    spread = [f"{function}({field})" for function in ("variance", "stddev") for field in FIELDS]
    spread += ["stddev(i) filter (where c)"]
    related = ["correlation(i, h)", "correlation(y, p)", "correlation(l, q)", "correlation(f, i)", "correlation(y, y)"]
    related += ["correlation(i, h) filter (where c)"]

    found, theirs = at_once(batch, ["g"], accumulators([*spread, *related])), by_spark(batch, ["g"], [*spread, *related])

    assert differences(found, theirs, largest=100) == []


@pytest.mark.parametrize("cuts", [1, 7, pytest.param(1000, marks=pytest.mark.slow)])
def test_small_differences_of_large_numbers_do_not_cancel(cuts: int) -> None:
    numbers = 1e9 + np.tile([0.0, 1.0, 2.0], 1000)
    by_name = accumulators(["variance(d)", "correlation(d, f)"])
    parts = [
        partial(pa.record_batch({"d": part, "f": pa.array(part - 1e9, pa.float32())}), [], by_name)
        for part in np.array_split(numbers, cuts)
    ]

    found = results(group(pa.concat_tables(parts), [], by_name), [], by_name)[()]

    assert found["variance(d)"] == pytest.approx(2000 / 2999, rel=1e-9)  # a sum of squares would be off by 100
    assert found["correlation(d, f)"] == pytest.approx(1, rel=1e-12)


def test_one_value_and_equal_values() -> None:
    columns = {"g": pa.array([1, 2, 2, 3], pa.int32()), "d": [0.1, 0.1, 0.1, None], "f": pa.array([1, 2, 3, 4], pa.float32())}

    found = at_once(pa.record_batch(columns), ["g"], accumulators(["variance(d)", "stddev(d)", "correlation(d, f)"]))

    assert [list(found[(key,)].values()) for key in (1, 2, 3)] == [[None, None, None], [0, 0, None], [None, None, None]]


def test_infinity_has_no_variance() -> None:
    found = at_once(pa.record_batch({"d": [1.0, math.inf]}), [], accumulators(["variance(d)"]))

    assert found == {(): {"variance(d)": "NaN"}}
