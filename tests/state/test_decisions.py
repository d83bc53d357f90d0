"""Which events of a key pass, against a dictionary that looks at one event after the other."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.state.key_hash import HASH, HASH2, PARTS, key_hashes, part_of
from etl.state.keyed.decisions import COUNT, TIME, counts_of, first_of_each, first_within
from etl.state.keyed.event_rows import arrival_order
from etl.state.keyed.kernels import find_rows

BATCHES = st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.integers(-30, 30)), max_size=12), max_size=5)


def _hashes(keys: list[str | None]) -> Any:
    return key_hashes(pa.table({"k": pa.array(keys, pa.string())}), ["k"])


def _runs(hashes: Any, name: str, values: Any) -> list[pa.Table]:
    """A run for each part, with or without rows."""
    rows = pa.table({HASH: hashes[0], HASH2: hashes[1], name: values}).sort_by(HASH)
    parts = part_of((None, rows.column(HASH2).to_numpy()))
    return [rows.filter(pa.array(parts == part)).combine_chunks() for part in range(PARTS)]


@pytest.mark.slow
@settings(deadline=None)
@given(BATCHES, st.integers(1, 20))
def test_the_first_event_of_a_key_within_a_time_passes(batches: list, within: int) -> None:
    known: list[pa.Table] = []
    passed: dict[str | None, list[int]] = defaultdict(list)

    for batch in batches:
        hashes, times = _hashes([key for key, _ in batch]), np.array([time for _, time in batch], np.int64)
        passes = first_within(hashes, times, known, within)
        known.extend(_runs(hashes[:, passes], TIME, times[passes]))

        for row in np.argsort(times, kind="stable").tolist():
            key, time = batch[row]
            expected = all(abs(time - other) >= within for other in passed[key])
            assert passes[row] == expected
            if expected:
                passed[key].append(time)


@pytest.mark.slow
@settings(deadline=None)
@given(BATCHES, st.integers(1, 4))
def test_as_many_events_of_a_key_pass_as_the_limit_says(batches: list, limit: int) -> None:
    known: list[pa.Table] = []
    passed: dict[str | None, int] = defaultdict(int)

    for batch in batches:
        hashes, times = _hashes([key for key, _ in batch]), np.array([time for _, time in batch], np.int64)
        passes = first_of_each(hashes, times, known, limit)
        rows, counts = counts_of(hashes[:, passes])
        known.extend(_runs(hashes[:, passes][:, rows], COUNT, counts))

        for row in np.argsort(times, kind="stable").tolist():
            assert passes[row] == (passed[batch[row][0]] < limit)
            passed[batch[row][0]] += 1


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 3), st.integers(0, 1), st.integers(0, 9)), max_size=60))
def test_state_rows_with_the_same_first_hash_are_of_different_keys(rows: list) -> None:
    hashes = np.array([row[:2] for row in rows], np.uint64).reshape(-1, 2).T
    times = np.array([row[2] for row in rows], np.int64)

    passes = first_within(hashes, times, _runs(hashes, TIME, times), 1)
    first = first_within(hashes, times, [], 100)

    assert not passes.any()
    assert first.sum() == len({row[:2] for row in rows})
    assert not first_within(hashes, times, _runs(hashes[:, first], TIME, times[first]), 100).any()


def test_keys_are_found_among_hashes_that_are_not_evenly_spread() -> None:
    low, half, most = np.arange(6000, dtype=np.uint64), np.uint64(2**63), np.uint64(2**64 - 1)
    stored = np.concatenate([low[:5000], half + low[:3000], np.repeat(most, 50)])
    asked = np.concatenate([low[::7], half + low[:4000:3], [most]])
    times = np.zeros(len(asked), np.int64)

    passes = first_within(np.stack([asked, asked]), times, _runs(np.stack([stored, stored]), TIME, np.zeros(len(stored), int)), 1)

    assert (passes == ~np.isin(asked, stored)).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)), st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 100), st.integers(0, 2**63))
def test_rows_are_found_as_numpy_finds_them(rows: list, others: list, dense: int, first: int) -> None:
    stored = np.sort(np.array([*rows, *range(first, first + 3 * dense, 3)], np.uint64))
    asked = np.sort(np.array([*rows[::2], *others, *range(first, first + 4 * dense, 5)], np.uint64))
    low, high = np.empty((2, len(asked)), np.int64)

    total = find_rows(asked, stored, low, high)

    assert total == (high - low).sum()
    assert (low == np.searchsorted(stored, asked)).all()
    assert (high == np.searchsorted(stored, asked, "right")).all()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.booleans())
def test_events_are_in_the_order_of_time_and_then_of_their_offsets(rows: list, follows: bool) -> None:
    times, offsets = np.array(rows, np.int64).reshape(-1, 2).T
    if follows:
        offsets = np.random.default_rng(len(rows)).permutation(len(rows))
        times = offsets // 3

    order = arrival_order(times, offsets)

    assert order.tolist() == sorted(range(len(times)), key=lambda row: (times[row], offsets[row], row))
