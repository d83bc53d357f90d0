"""UTF-8 automata: a set of characters beyond ASCII as a tree of byte masks.

Source: The Unicode Standard, table 3-7 (well-formed UTF-8). A range of code points is split where the number of bytes
changes, then where a continuation byte cannot take all its 64 values. Bytes with equal continuations share a branch, so the
letters of all scripts (711 ranges) are about fifty branches.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from etl.scanner.char_class import CharClass

FIRST, LAST = 0x80, 0x10FFFF
"""The characters that are not ASCII."""

Range = tuple[int, int]
"""First and last, both included."""

Branches = tuple[tuple[int, "Branches"], ...]
"""Alternatives: a mask of bytes and the branches that follow, none if the character ends there."""

_SURROGATES = (0xD800, 0xDFFF)
_LAST_OF_WIDTH = (0x7FF, 0xFFFF, LAST)


@lru_cache(maxsize=1024)
def wide_ranges(of: CharClass) -> tuple[Range, ...]:
    """The characters of a class beyond ASCII, as sorted ranges of code points."""
    found = _merge(one for text in of.wide for one in _ranges_of(text))
    return tuple(_complement(found) if of.others else found)


def has_wide(of: CharClass) -> bool:
    """Whether a character beyond ASCII may be in the class. Does not look up properties."""
    return bool(of.wide) or of.others


def has_all_wide(of: CharClass) -> bool:
    """Whether all of them are. Does not look up properties; false for a class that lists all characters one by one."""
    return of.others and not of.wide


@lru_cache(maxsize=1024)
def branches(of: CharClass) -> Branches:
    """The characters of the class beyond ASCII, as branches."""
    return _branches(frozenset(sequence for low, high in wide_ranges(of) for sequence in byte_sequences(low, high)))


def byte_sequences(first: int, last: int) -> tuple[tuple[Range, ...], ...]:
    """A range of code points beyond ASCII → alternatives, each with a range for every byte."""
    return tuple(_sequences(first, last))


@lru_cache(maxsize=4096)
def _branches(sequences: frozenset[tuple[Range, ...]]) -> Branches:
    if sequences == {()}:
        return ()
    tails_of: dict[int, set[tuple[Range, ...]]] = {}
    for (low, high), *tail in sequences:
        for byte in range(low, high + 1):
            tails_of.setdefault(byte, set()).add(tuple(tail))
    bytes_: dict[frozenset[tuple[Range, ...]], int] = {}
    for byte, tails in tails_of.items():
        bytes_[frozenset(tails)] = bytes_.get(frozenset(tails), 0) | 1 << byte
    return tuple([(mask, _branches(tails)) for tails, mask in bytes_.items()])


def _sequences(first: int, last: int) -> Iterator[tuple[Range, ...]]:
    for low, high in _without_surrogates(first, last):
        for bound in _LAST_OF_WIDTH:
            if low <= bound:
                yield from _same_width(low, min(high, bound))
            low = max(low, bound + 1)
            if low > high:
                break


def _without_surrogates(first: int, last: int) -> list[Range]:
    low, high = _SURROGATES
    parts = [(first, min(last, low - 1)), (max(first, high + 1), last)]
    return [(a, b) for a, b in parts if a <= b]


def _same_width(low: int, high: int) -> Iterator[tuple[Range, ...]]:
    for tail_bits in range(6, 6 * len(chr(low).encode()), 6):
        tail = (1 << tail_bits) - 1
        if low & ~tail == high & ~tail:
            break
        if low & tail:
            yield from _same_width(low, low | tail)
            yield from _same_width((low | tail) + 1, high)
            return
        if high & tail != tail:
            yield from _same_width(low, (high & ~tail) - 1)
            yield from _same_width(high & ~tail, high)
            return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))


def _ranges_of(text: str) -> Iterable[Range]:
    """One member of `CharClass.wide`: ``é``, ``à-ÿ`` or ``\\p{L}``."""
    if text.startswith("\\p{"):
        return _property(text[3:-1])
    return [(ord(text[0]), ord(text[-1]))]


@lru_cache(maxsize=32)
def _property(name: str) -> list[Range]:
    """The characters whose general category begins with ``name``, by Python's Unicode tables."""
    return _merge(where for category, where in _categories() if category.startswith(name))


@lru_cache(maxsize=1)
def _categories() -> list[tuple[str, Range]]:
    """The ranges of characters of one general category; it is computed once a process, from all 1.1 million characters."""
    names = map(unicodedata.category, map(chr, range(FIRST, LAST + 1)))
    found: list[tuple[str, Range]] = []
    first = FIRST
    for name, same in groupby(names):
        after = first + len(list(same))
        found.append((name, (first, after - 1)))
        first = after
    return found


def _merge(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: list[Range]) -> list[Range]:
    gaps, at = [], FIRST
    for low, high in ranges:
        if low > at:
            gaps.append((at, low - 1))
        at = high + 1
    return gaps if at > LAST else [*gaps, (at, LAST)]
