"""The size of micro-batches of a backlog grows with the speed of the pipeline."""

from __future__ import annotations

import pytest

from etl.api import Limit
from etl.receipts import Counts, Receipt
from etl.spark.pace import INITIAL_BYTES, MIN_BYTES, TARGET_SECONDS, batch_bytes, end_of_batch, learn_speed, speed


def test_a_fast_pipeline_gets_large_batches() -> None:
    known = speed(INITIAL_BYTES, 0.5)

    assert batch_bytes(known, 4 << 30) == INITIAL_BYTES * 2 * TARGET_SECONDS


def test_a_slow_pipeline_gets_small_batches_of_a_least_size() -> None:
    assert batch_bytes(speed(INITIAL_BYTES, 60), 4 << 30) == int(INITIAL_BYTES / 60 * TARGET_SECONDS)
    assert batch_bytes(speed(INITIAL_BYTES, 10_000), 4 << 30) == MIN_BYTES


def test_the_users_limit_applies() -> None:
    assert batch_bytes(None, 1000) == 1000
    assert batch_bytes(1e12, 1 << 30) == 1 << 30


def test_small_batches_are_not_used_to_measure_speed() -> None:
    assert speed(MIN_BYTES - 1, 0.1) is None
    assert batch_bytes(None, 4 << 30) == INITIAL_BYTES


def test_the_speed_of_a_batch_is_added_to_the_stored_numbers() -> None:
    small = Receipt("s", "x", 0, read=Counts(incoming=10), bytes_read=1000, began=1.0)
    large = Receipt("s", "x", 0, read=Counts(incoming=MIN_BYTES), bytes_read=2 * MIN_BYTES, began=1.0)

    assert learn_speed({"speed": 7.0}, [small], 2.0) == {"speed": 7.0, "event_bytes": 100}
    assert learn_speed({}, [large], 2.0) == {"speed": 2 * MIN_BYTES, "event_bytes": 2}
    assert learn_speed({"event_bytes": 5.0}, [], 2.0) is None


@pytest.mark.parametrize(
    ("limit", "end"),
    [
        (Limit(1000, until=1400), 1400),
        (Limit(1000, until=900), 900),
        (Limit(1000, until=1600), 1000),
        (Limit(1000), 1000),
        (Limit(1000, max_events=10, until=1400), 1000),
        (Limit(2000, until=2400), 2000),
    ],
    ids=["a small rest", "less than the limit", "a large rest", "no end", "events are counted", "the user's bound"],
)
def test_a_small_rest_is_added_to_the_batch(limit: Limit, end: int) -> None:
    def latest(asked: Limit) -> int:
        return min(asked.max_bytes, asked.until or 10_000)

    assert end_of_batch(latest, limit, max_bytes=2000) == end
