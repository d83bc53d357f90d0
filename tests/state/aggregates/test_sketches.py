"""Approximate counts and percentiles: exact while small, then within their errors, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from aggregate_events import VALUES, BySpark, accumulators, at_once, differences, events, partial, results, without_nan
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.state.aggregates import group, sketches
from etl.state.aggregates.sketches import RANKS

HASHES = 512


@pytest.mark.spark
def test_small_groups_are_exact_as_those_of_spark(by_spark: BySpark) -> None:
    batch = without_nan(events(4000, 700, seed=5))
    texts = [f"approx_count_distinct({field})" for field in VALUES] + ["approx_count_distinct(s) filter (where c)"]
    fields = ("y", "h", "i", "f", "d", "p", "day", "ts", "tn")  # values that a double holds: of others Spark returns neighbours
    texts += [f"approx_percentile({field}, {share})" for field in fields for share in (0, 0.05, 0.5, 0.95, 1)]

    assert differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts)) == []


def test_percentiles_are_values_that_occur_and_nan_is_the_greatest() -> None:
    columns = {
        "l": pa.array([2**60 + 7, 2**60 + 6, None], pa.int64()),
        "w": pa.array([Decimal("9" * 30 + "E-30"), None, None], pa.decimal128(30, 30)),
        "d": pa.array([math.nan, -math.inf, 1.0], pa.float64()),
    }

    found = at_once(pa.record_batch(columns), [], accumulators([f"approx_percentile({name}, 1)" for name in columns]))

    assert list(found[()].values()) == [2**60 + 7, Decimal("9" * 30 + "E-30"), "NaN"]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 200_000), st.sampled_from(["distinct", "few", "sorted"]), st.integers(1, 30))
def test_large_groups_are_within_the_errors(seed: int, rows: int, kind: str, cuts: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-(10**12), 10**12, rows) if kind != "few" else rng.integers(0, 700, rows)
    numbers = np.sort(numbers) if kind == "sorted" else numbers
    shares = (0.01, 0.5, 0.95)
    by_name = accumulators(
        ["approx_count_distinct(l)", "approx_count_distinct(l, 0.02)", *(f"approx_percentile(l, {share})" for share in shares)]
    )

    merged = None
    for part in np.array_split(numbers, cuts):  # one by one, as micro-batches arrive
        one = partial(pa.record_batch({"l": pa.array(part)}), [], by_name)
        merged = one if merged is None else group(pa.concat_tables([merged, one]), [], by_name)

    distinct, closer, *percentiles = results(merged, [], by_name)[()].values()
    true_count = len(np.unique(numbers))
    assert abs(distinct - true_count) <= (0 if true_count < HASHES else 0.22 * true_count)  # 5 standard errors
    assert abs(closer - true_count) <= (0 if true_count < 2502 else 0.1 * true_count)
    ordered = np.sort(numbers)
    for share, value in zip(shares, percentiles, strict=True):
        low, high = np.searchsorted(ordered, value, "left") + 1, np.searchsorted(ordered, value, "right")
        rank = max(1, np.ceil(share * rows))
        assert low <= high, "a value that does not occur"
        assert max(low - rank, rank - high, 0) <= (0 if rows <= RANKS else 0.01 * rows)


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    by_name = accumulators(["approx_count_distinct(l)", "approx_percentile(l, 0.5)"])
    rng = np.random.default_rng(7)

    merged = partial(pa.record_batch({"l": pa.array(rng.integers(0, 10**9, 100_000))}), [], by_name)
    for _ in range(20):
        one = partial(pa.record_batch({"l": pa.array(rng.integers(0, 10**9, 100_000))}), [], by_name)
        merged = group(pa.concat_tables([merged, one]), [], by_name)

    hashes, values, levels = (len(column.chunk(0)[0]) for column in merged.columns)
    assert hashes == HASHES
    assert values == levels
    assert values <= 3.2 * RANKS


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.data(), st.lists(st.integers(0, 40), min_size=1, max_size=400))
def test_counts_of_the_most_frequent_values_are_within_the_error(data: st.DataObject, numbers: list[int]) -> None:
    numbers = [min(number, data.draw(st.integers(5, 40))) for number in numbers]
    by_name = accumulators(["approx_top(l, 100)"])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=8)))

    with mock.patch.object(sketches, "COUNTERS", 8):
        parts = [
            partial(pa.record_batch({"l": pa.array(numbers[a:b], pa.int64())}), [], by_name)
            for a, b in zip([0, *cuts], [*cuts, len(numbers)], strict=True)
        ]
        while len(parts) > 1:
            parts = data.draw(st.permutations(parts))
            count = data.draw(st.integers(2, len(parts)))
            parts = [group(pa.concat_tables(parts[:count]), [], by_name), *parts[count:]]
        found = results(parts[0], [], by_name)[()]["approx_top(l, 100)"]

    true, counted = Counter(numbers), Counter({one["value"]: one["count"] for one in found})
    assert len(counted) <= (8 if len(true) > 8 else len(true))
    assert all(0 <= count - counted[value] <= len(numbers) / 9 for value, count in true.items())
    assert all(counted[value] == count for value, count in true.items()) or len(true) > 8


def test_the_most_frequent_values_of_many_are_found() -> None:
    rng = np.random.default_rng(3)
    numbers = rng.permutation(np.concatenate([np.repeat([1, 2, 3], [900, 600, 300]), rng.integers(100, 10**9, 50_000)]))
    by_name = accumulators(["approx_top(l, 3)"])

    merged = partial(pa.record_batch({"l": pa.array([], pa.int64())}), [], by_name)
    for part in np.array_split(numbers, 20):
        one = partial(pa.record_batch({"l": pa.array(part)}), [], by_name)
        merged = group(pa.concat_tables([merged, one]), [], by_name)

    found = results(merged, [], by_name)[()]["approx_top(l, 3)"]
    assert [one["value"] for one in found] == [1, 2, 3]
    assert all(0 <= true - one["count"] < 0.0005 * len(numbers) for one, true in zip(found, (900, 600, 300), strict=True))
    assert len(merged.column(0).chunk(0)[0]) <= sketches.COUNTERS
