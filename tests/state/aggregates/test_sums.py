"""Counts, sums, averages, minima and maxima."""

from __future__ import annotations

import math
from typing import Any

import pytest
from aggregate_events import VALUES, BySpark, accumulators, at_once, events

NUMBERS = ("y", "h", "i", "l", "f", "d", "p", "q", "w")
COUNTS = ["count(*)", "count(*) filter (where c)", "count_if(c)", "count_if(i > 0) filter (where c)"]


@pytest.mark.spark
def test_results_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(4000, 700, seed=1)
    texts = [*COUNTS, *(f"{f}({x})" for f in ("count", "min", "max") for x in VALUES)]
    texts += [f"{f}({x}) filter (where c)" for f in ("sum", "avg", "min") for x in NUMBERS]
    texts += [f"{f}({x})" for f in ("sum", "avg") for x in NUMBERS]

    ours, theirs = at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts)

    assert ours.keys() == theirs.keys()
    different = [
        (key, text, ours[key][text], theirs[key][text])
        for key in ours
        for text in texts
        if not same(ours[key][text], theirs[key][text], 2.0**60 if "avg(l)" in text else 0)
    ]
    assert different == []


def same(one: Any, other: Any, largest: float) -> bool:
    """Equal; floating-point numbers up to the order of additions of numbers up to ``largest``, where Spark adds doubles."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-14 * largest)
    return bool(one == other)
