"""Sequences of byte ranges match exactly the characters of a range."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.scanner.char_class import POSIX, CharClass
from etl.scanner.utf8 import FIRST, LAST, Branches, Range, branches, byte_sequences, has_all_wide, has_wide, wide_ranges

EDGES = [
    0x80,
    0xBF,
    0xC0,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xD7FF,
    0xD800,
    0xDFFF,
    0xE000,
    0xFFFF,
    0x10000,
    0x3FFFF,
    0x40000,
    0x10FFFF,
]
codes = st.one_of(
    st.sampled_from(EDGES), st.integers(FIRST, LAST), st.sampled_from(EDGES[1:-1]).flatmap(lambda c: st.integers(c - 1, c + 1))
)


def is_surrogate(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF


def members(sequences: tuple[tuple[Range, ...], ...]) -> int:
    return sum(prod(high - low + 1 for low, high in sequence) for sequence in sequences)


def holds(sequences: tuple[tuple[Range, ...], ...], code: int) -> bool:
    raw = chr(code).encode()
    return any(
        len(raw) == len(sequence) and all(low <= byte <= high for byte, (low, high) in zip(raw, sequence, strict=True))
        for sequence in sequences
    )


@pytest.mark.slow
@settings(max_examples=200)
@given(st.tuples(codes, codes).map(sorted), st.lists(codes, max_size=20))
def test_a_range_is_split_exactly(bounds: list[int], others: list[int]) -> None:
    """As many byte strings as characters, and the sequences in ascending order: so each character occurs exactly once."""
    first, last = bounds

    sequences = byte_sequences(first, last)

    outside = max(0, min(last, 0xDFFF) - max(first, 0xD800) + 1)
    assert members(sequences) == last - first + 1 - outside
    corners = [(bytes(low for low, _ in one), bytes(high for _, high in one)) for one in sequences]
    assert all((len(a), a) < (len(b), b) for (_, a), (b, _) in pairwise(corners))
    for low, high in corners:
        assert first <= ord(low.decode()) <= ord(high.decode()) <= last
    for code in [*others, first, last, first - 1, last + 1]:
        if FIRST <= code <= LAST and not is_surrogate(code):
            assert holds(sequences, code) is (first <= code <= last)


@pytest.mark.parametrize(
    ("first", "last"), [(0x80, 0x87F), (0x7C1, 0x1043), (0xD7A0, 0xE05F), (0xFFBE, 0x10041), (0x10FF80, LAST)]
)
def test_small_ranges_character_by_character(first: int, last: int) -> None:
    made = {bytes(raw) for one in byte_sequences(first, last) for raw in product(*(range(low, high + 1) for low, high in one))}

    assert made == {chr(code).encode() for code in range(first, last + 1) if not is_surrogate(code)}


def test_all_characters_take_few_sequences() -> None:
    assert members(byte_sequences(FIRST, LAST)) == LAST + 1 - FIRST - 0x800
    assert len(byte_sequences(FIRST, LAST)) <= 9


def texts_of(made: Branches) -> set[bytes]:
    """Every byte string that the branches match."""
    if not made:
        return {b""}
    return {bytes([byte]) + tail for mask, rest in made for byte in range(256) if mask >> byte & 1 for tail in texts_of(rest)}


@pytest.mark.parametrize(
    "of",
    [
        CharClass(0, ("é",)),
        CharClass(0, ("à-ÿ", "\u07c0-\u0840", "퟿-\ue010", "😀-😂")),
        POSIX["upper"],
        CharClass(0, ("\x80-\ufff0",), True),
    ],
)
def test_branches_read_exactly_the_characters_of_a_class(of: CharClass) -> None:
    expected = {code for low, high in wide_ranges(of) for code in range(low, high + 1) if not is_surrogate(code)}

    made = branches(of)

    if len(expected) < 5000:
        assert texts_of(made) == {chr(code).encode() for code in expected}
    assert reads(made) == len(expected)
    firsts = [mask for mask, _ in made]
    assert sum(mask.bit_count() for mask in firsts) == (sum(firsts)).bit_count()  # no byte leads two ways


def reads(made: Branches) -> int:
    return sum(mask.bit_count() * reads(tails) for mask, tails in made) if made else 1


def test_no_character_no_branch() -> None:
    assert branches(CharClass(1)) == ()
    assert not has_wide(CharClass(1))
    assert has_all_wide(CharClass(0, (), True))


def test_surrogates_are_no_characters() -> None:
    assert byte_sequences(0xD800, 0xDFFF) == ()
    assert byte_sequences(0xD900, 0xE000) == (((0xEE, 0xEE), (0x80, 0x80), (0x80, 0x80)),)


@pytest.mark.parametrize(
    ("of", "ranges"),
    [
        (CharClass(1), []),
        (CharClass(0, (), True), [(FIRST, LAST)]),
        (CharClass(0, ("é", "à-ê", "ë")), [(0xE0, 0xEB)]),
        (CharClass(0, ("\x80",), True), [(0x81, LAST)]),
        (CharClass(0, ("é", "\U0010ffff"), True), [(0x80, 0xE8), (0xEA, LAST - 1)]),
        (CharClass(0, ("\x80-\U0010ffff",), True), []),
    ],
)
def test_wide_ranges(of: CharClass, ranges: list[Range]) -> None:
    assert wide_ranges(of) == tuple(ranges)


@cache
def codes_by_category() -> dict[str, set[int]]:
    """All characters beyond ASCII."""
    found: dict[str, set[int]] = {}
    for code, category in enumerate(map(unicodedata.category, map(chr, range(FIRST, LAST + 1))), FIRST):
        found.setdefault(category, set()).add(code)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alpha", "upper", "punct", "space"])
def test_classes_of_unicode(name: str) -> None:
    expected = tuple(part[3:-1] for part in POSIX[name].wide if part.startswith("\\p"))
    single = {ord(part) for part in POSIX[name].wide if len(part) == 1}
    ranges = wide_ranges(POSIX[name])

    held = {code for low, high in ranges for code in range(low, high + 1)}

    named = (codes for category, codes in codes_by_category().items() if category.startswith(expected))
    assert held == {code for code in single if FIRST <= code <= LAST}.union(*named)
    assert sum(high - low + 1 for low, high in ranges) == len(held)


@pytest.mark.parametrize("name", ["alpha", "upper", "punct", "space", "cntrl"])
def test_branches_hold_what_the_ranges_do(name: str) -> None:
    def strings(several: Branches) -> Iterator[bytes]:
        for mask, rest in several:
            tails = list(strings(rest)) if rest else [b""]
            yield from (bytes([byte]) + tail for byte in range(256) if mask >> byte & 1 for tail in tails)

    found = list(strings(branches(POSIX[name])))

    expected = {chr(code).encode() for low, high in wide_ranges(POSIX[name]) for code in range(low, high + 1)}
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len(branches(POSIX[name])) <= 51
