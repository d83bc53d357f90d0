"""The pairs of a join are the same however its rows are searched, and a key with many events on one side costs no square."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from etl.state.joins import sided_events
from etl.state.joins.sided_events import SidedEvents, find_pairs


def _events(random: np.random.Generator, count: int, keys: int) -> SidedEvents:
    hashes = np.sort(random.integers(0, keys, count))
    hash2, times, sides = hashes % 3 + random.integers(0, 2, count), random.integers(0, 100, count), random.integers(0, 4, count)
    return SidedEvents(pa.table({"n": np.arange(count)}), hashes, hash2, times, sides.astype(np.int8))


def _expected(queries: SidedEvents, run: SidedEvents, before: int, after: int) -> set[tuple[int, int]]:
    found = set()
    for one in range(len(queries.hash)):
        for other in range(len(run.hash)):
            same = queries.hash[one] == run.hash[other] and queries.hash2[one] == run.hash2[other]
            distance = run.time[other] - queries.time[one] if queries.side[one] == 0 else queries.time[one] - run.time[other]
            if same and queries.side[one] + run.side[other] == 1 and -before <= distance <= after:
                found.add((one, other))
    return found


@pytest.mark.parametrize("crowded", [-1, 1 << 40], ids=["by side and time", "by hash"])
@pytest.mark.parametrize(("before", "after"), [(10, 20), (0, 0), (1000, 1000), (30, -5), (-5, 30), (-5, -5)])
def test_pairs_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch, crowded: int, before: int, after: int) -> None:
    monkeypatch.setattr(sided_events, "_CROWDED", crowded)
    random = np.random.default_rng(1000 + before * 100 + after)
    for keys in (1, 5, 200):
        queries, run = _events(random, 60, keys), _events(random, 150, keys)
        found = [
            pair
            for one, other in find_pairs(queries, run, before, after)
            for pair in zip(one.tolist(), other.tolist(), strict=True)
        ]
        assert len(found) == len(set(found))
        assert set(found) == _expected(queries, run, before, after)


def test_a_key_with_many_events_on_one_side_is_no_square() -> None:
    count = 200_000
    many = np.zeros(count, np.int64)
    right = SidedEvents(pa.table({"n": many}), many, many, np.arange(count), np.ones(count, np.int8))
    sides = np.ones(count, np.int8)
    sides[:4] = 0
    run = SidedEvents(pa.table({"n": many}), many, many, np.arange(count), sides)
    list(find_pairs(_events(np.random.default_rng(1), 50, 1), _events(np.random.default_rng(1), 50, 1), 1, 1))  # compiles

    began = time.process_time()
    pairs = sum(len(found) for found, _ in find_pairs(right, run, count, count))

    assert pairs == 4 * count
    assert time.process_time() - began < 5  # all rows with each event: 40 billion comparisons
