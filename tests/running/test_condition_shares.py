"""How near rows are to a condition."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from etl.api import EtlError
from etl.running.condition_shares import BELOW_ONE, MAX_COMPARISONS, condition_shares

ROWS = pa.record_batch(
    {
        "n": pa.array([4, 10, 0, None], pa.int64()),
        "x": pa.array([0.5, -1.0, math.nan, 2.0]),
        "ip": pa.array(["a", "b", None, "a"]),
    }
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n >= 10", [0.4, 1, 0, 0]),
        ("n > 10", [0.4, BELOW_ONE, 0, 0]),
        ("10 <= n", [0.4, 1, 0, 0]),
        ("n < 5", [1, 0.5, 1, 0]),
        ("n >= 0", [1, 1, 1, 0]),
        ("(n >= 10) and ip = 'a'", [0.4, 0, 0, 0]),
        ("n >= 10 and ip = 'b'", [0, 1, 0, 0]),
        ("n >= 10 or x >= 1", [0.5, 1, 1, 1]),  # NaN is more than any number
        ("n / 2 >= x * 8", [0.5, 1, 0, 0]),
        ("n = 10", [0, 1, 0, 0]),
        ("n between 5 and 20", [0, 1, 0, 0]),
        ("not n >= 5", [1, 0, 1, 0]),
        ("case when n > 3 then ip end = 'a'", [1, 0, 0, 0]),
        ("1 / n >= 1", [0.25, 0.1, 0, 0]),  # a row that cannot be computed
        (" and ".join(["n >= 10"] * (MAX_COMPARISONS + 1)), [0, 1, 0, 0]),
    ],
)
def test_a_share_is_that_of_the_numbers_that_are_compared(condition: str, expected: list[float]) -> None:
    assert condition_shares(condition, ROWS.schema)(ROWS).tolist() == pytest.approx(expected, abs=1e-17, nan_ok=False)


@pytest.mark.parametrize(
    ("condition", "message"),
    [("m >= 1", "'m'"), ("n + 1", "a condition is needed"), ("n >=", "n >="), ("soundex(ip) = 'a'", "only Spark computes")],
)
def test_a_condition_that_cannot_be_computed_is_refused(condition: Any, message: str) -> None:
    with pytest.raises(EtlError, match=message):
        condition_shares(condition, ROWS.schema)
