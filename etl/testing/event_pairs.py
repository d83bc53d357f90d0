"""Pairing expected events with the events found, so that differences are reported event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple

from etl.testing.values import is_equal

Row = Mapping[str, Any]

MAX_COMPARED = 2_000
"""Maximum number of differing events that are compared with all others; more are paired by their order."""


class Pair(NamedTuple):
    """The numbers of an expected event and of the event found for it; None if there is none."""

    expected: int | None
    found: int | None


def find_unequal_pairs(expected: Sequence[Row], found: Sequence[Row], ordered: bool) -> list[Pair]:
    """Pairs of unequal events in the order of the expected ones; unexpected events come last."""
    return list(_pair_ordered(expected, found)) if ordered else list(_pair_unordered(expected, found))


def _pair_ordered(expected: Sequence[Row], found: Sequence[Row]) -> Iterator[Pair]:
    if len(expected) == len(found) or max(len(expected), len(found)) > MAX_COMPARED:
        numbers = zip_longest(range(len(expected)), range(len(found)))
        yield from (Pair(a, b) for a, b in numbers if a is None or b is None or not is_equal(expected[a], found[b]))
        return
    kinds: list[Row] = []
    matcher = SequenceMatcher(None, _kinds(expected, kinds), _kinds(found, kinds), autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag != "equal":
            yield from (Pair(*numbers) for numbers in zip_longest(range(a, a_end), range(b, b_end)))


def _kinds(rows: Sequence[Row], kinds: list[Row]) -> list[int]:
    """Equal rows → equal numbers; new kinds are added to ``kinds``."""
    numbers = []
    for row in rows:
        number = next((number for number, kind in enumerate(kinds) if is_equal(kind, row)), len(kinds))
        kinds += [row] if number == len(kinds) else []
        numbers.append(number)
    return numbers


def _pair_unordered(expected: Sequence[Row], found: Sequence[Row]) -> Iterator[Pair]:
    left = dict(enumerate(found))
    missing = []
    for number, row in enumerate(expected):
        other = next((other for other, candidate in left.items() if is_equal(row, candidate)), None)
        if other is None:
            missing.append(number)
        else:
            del left[other]
    for number in missing:
        likest = max(left, key=lambda other, row=expected[number]: likeness(row, left[other]), default=None)  # type: ignore[misc]
        left.pop(likest, None) if likest is not None else None
        yield Pair(number, likest)
    yield from (Pair(None, number) for number in left)


def likeness(expected: Row, found: Row) -> int:
    """Number of expected fields with the value found."""
    return sum(is_equal(value, found.get(name)) for name, value in expected.items())
