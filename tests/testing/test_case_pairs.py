"""Which events are told to differ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.testing.event_pairs import Pair, find_unequal_pairs

events = st.lists(st.fixed_dictionaries({"a": st.integers(0, 3)}, optional={"b": st.integers(0, 2)}), max_size=8)


@settings(deadline=None)
@given(events, st.randoms())
def test_the_same_events_do_not_differ(rows: list[dict[str, int]], random: object) -> None:
    mixed = sorted(rows, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert find_unequal_pairs(rows, rows, ordered=True) == []
    assert find_unequal_pairs(rows, mixed, ordered=False) == []


@pytest.mark.slow
@settings(deadline=None)
@given(events, events, st.booleans())
def test_every_event_is_equal_or_reported(expected: list[dict[str, int]], found: list[dict[str, int]], ordered: bool) -> None:
    pairs = find_unequal_pairs(expected, found, ordered)

    expected_rows = [pair.expected for pair in pairs if pair.expected is not None]
    came = [pair.found for pair in pairs if pair.found is not None]
    assert len(set(expected_rows)) == len(expected_rows)
    assert len(set(came)) == len(came)
    assert len(expected) - len(expected_rows) == len(found) - len(came)
    left = [row for number, row in enumerate(expected) if number not in expected_rows]
    there = [row for number, row in enumerate(found) if number not in came]
    assert left == there if ordered else all(row in there for row in left)


def test_one_event_too_many_is_one_difference() -> None:
    expected = [{"a": n} for n in range(5)]
    found = [{"a": n} for n in (0, 1, 9, 2, 3, 4)]

    assert find_unequal_pairs(expected, found, ordered=True) == [Pair(None, 2)]


def test_without_order_the_likest_are_compared() -> None:
    expected = [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    found = [{"a": 2, "b": 3}, {"a": 1, "b": 1}]

    assert find_unequal_pairs(expected, found, ordered=False) == [Pair(1, 0)]
