"""Counts, sums, averages, minima and maxima."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from aggregate_events import NUMBERS, SCHEMA, VALUES, BySpark, accumulators, at_once, differences, events

COUNTS = ["count(*)", "count(*) filter (where c)", "count_if(c)", "count_if(i > 0) filter (where c)"]


@pytest.mark.spark
def test_results_are_those_of_spark(by_spark: BySpark) -> None:
    batch = events(4000, 700, seed=1)
    texts = [*COUNTS, *(f"{f}({x})" for f in ("count", "min", "max") for x in VALUES)]
    texts += [f"{f}({x}) filter (where c)" for f in ("sum", "avg", "min") for x in NUMBERS]
    texts += [f"{f}({x})" for f in ("sum", "avg") for x in NUMBERS]

    found = differences(at_once(batch, ["g"], accumulators(texts)), by_spark(batch, ["g"], texts))

    assert [one for one in found if "avg(l)" not in one[1]] == []


@pytest.mark.spark
def test_average_of_bigint_is_that_of_spark_up_to_the_rounding_of_its_sum(by_spark: BySpark) -> None:
    batch, texts = events(2000, 300, seed=2), ["avg(l)", "avg(l) filter (where c)"]

    found = at_once(batch, ["g"], accumulators(texts))

    assert differences(found, by_spark(batch, ["g"], texts), largest=2.0**61) == []


def test_sums_and_averages_are_exact_beyond_what_a_double_holds() -> None:
    numbers = [2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5]
    batch = events(5, 1, seed=1)
    batch = batch.set_column(SCHEMA.names.index("l"), "l", pa.array(numbers, pa.int64()))

    found = at_once(batch, [], accumulators(["sum(l)", "avg(l)"]))

    assert found == {(): {"sum(l)": 3, "avg(l)": 0.6}}


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        ([2**63 - 1, 1], None),
        ([-(2**63), -1], None),
        ([2**63 - 1, 1, -1], 2**63 - 1),
        ([-(2**63)], -(2**63)),
        ([None, None], None),
    ],
)
def test_a_sum_is_null_where_it_overflows(numbers: list[int | None], total: int | None) -> None:
    batch = pa.record_batch({"l": pa.array(numbers, pa.int64())})

    assert at_once(batch, [], accumulators(["sum(l)"])) == {(): {"sum(l)": total}}


@pytest.mark.parametrize(
    ("numbers", "total"), [(["9" * 38, "1"], None), (["9" * 38, "1", "-1"], "9" * 38), (["-" + "9" * 38, "-1"], None)]
)
def test_a_sum_of_decimals_is_null_where_it_overflows(numbers: list[str], total: str | None) -> None:
    batch = pa.record_batch({"q": pa.array([Decimal(one) for one in numbers], pa.decimal128(38, 0))})

    found = at_once(batch, [], accumulators(["sum(q)", "avg(q)"]))

    assert found == {(): {"sum(q)": None if total is None else Decimal(total), "avg(q)": None}}


def test_averages_of_decimals_are_rounded_half_up() -> None:
    numbers = ["0.01", "0.00", "0.00", "0.00", "0.00", "0.00", "0.00", "0.00"]  # 0.00125
    batch = pa.record_batch({"p": pa.array([Decimal(one) for one in numbers], pa.decimal128(2, 2))})
    halves = pa.record_batch({"p": pa.array([Decimal(f"{sign}0.01") for sign in "--"] + [Decimal(0)] * 62, pa.decimal128(2, 2))})
    schema = pa.schema([("p", pa.decimal128(2, 2))])

    assert at_once(batch, [], accumulators(["avg(p)"], schema), schema) == {(): {"avg(p)": Decimal("0.001250")}}
    # -0.02 / 64 = -0.0003125
    assert at_once(halves, [], accumulators(["avg(p)"], schema), schema) == {(): {"avg(p)": Decimal("-0.000313")}}
