"""Kernels that find many literals in many texts at once, by a few bytes of each (a *gram* of 1, 2, 4 or 8).

At each byte of a text, the hash of the gram that starts there is looked up in a bitmap. If its bit is set, it is looked up in a
directory of literals sorted by the hash of their gram; the bytes of literals with the same hash are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, load_long
from etl.columns.kernels import kernel, part

AT_START, AT_END, TESTED, FOLDED = (np.uint8(1 << bit) for bit in range(4))
"""Traits of a literal: must be at the start or end of the text, needs a further test, ignores the case of ASCII letters."""

_ONE, _EIGHT, _ZERO = np.uint64(1), np.uint64(8), np.uint64(0)
_ALL, _LOW_CASE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x2020202020202020)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_COUNTED = np.uint64(44)
"""Grams are counted by the upper 20 bits of their hash."""


@part
def _folded(byte: Any) -> Any:
    return byte | np.uint8(0x20) if np.uint8(0x41) <= byte <= np.uint8(0x5A) else byte


@part
def _hash(at: Any, end: Any, width: Any) -> Any:
    """The hash of the gram at an address, ignoring the case of letters. Reads no byte from ``end`` on."""
    if at + _EIGHT <= end:
        word = load_long(at)
    else:
        word = _ZERO
        for place in range(width):
            word |= np.uint64(load_byte(at + np.uint64(place))) << np.uint64(8 * place)
    mask = _ALL >> np.uint64(64 - 8 * width)
    return ((word | _LOW_CASE) & mask) * _PRIME


@part
def _same(at: Any, first: Any, size: Any, folded: Any, data: Any) -> Any:
    for place in range(size):
        byte = load_byte(at + np.uint64(place))
        if (_folded(byte) if folded else byte) != load_byte(data + first + np.uint64(place)):
            return False
    return True


@part
def _stands(at: Any, begin: Any, end: Any, literal: Any, index: Any) -> Any:
    """Whether the text contains a literal whose gram is at this address."""
    places, firsts, sizes, traits, data = index[4], index[5], index[6], index[7], index[9]
    start, size, trait = at - np.uint64(places[literal]), np.uint64(sizes[literal]), traits[literal]
    if start < begin or start + size > end:
        return False
    if (trait & AT_START and start != begin) or (trait & AT_END and start + size != end):
        return False
    return _same(start, np.uint64(firsts[literal]), np.int64(size), trait & FOLDED, data)


@part
def _put(found: Any, count: Any, pattern: Any, text: Any) -> Any:
    if count < found.shape[1]:
        found[0, count] = pattern
        found[1, count] = text
    return count + 1


@part
def _look(
    at: Any, begin: Any, end: Any, hash_: Any, index: Any, seen: Any, best: Any, every: Any, found: Any, count: Any, text: Any
) -> Any:
    """Compare the literals whose gram has this hash."""
    directory, shift, checks, traits, patterns = index[2], index[3], index[8][0], index[7], index[8][1]
    slot, check = hash_ >> shift, np.uint32(hash_ >> np.uint64(16))
    for literal in range(directory[slot], directory[slot + _ONE]):
        if checks[literal] == check and seen[literal] != text and _stands(at, begin, end, literal, index):
            seen[literal] = text
            pattern = np.int32(patterns[literal])
            if every or (traits[literal] & TESTED and pattern < best[text]):
                count = _put(found, count, pattern, text)
            elif not traits[literal] & TESTED and pattern < best[text]:
                best[text] = pattern
    return count


@kernel
def scan(address: Any, length: Any, first: Any, width: Any, index: Any, seen: Any, best: Any, every: Any, found: Any) -> Any:
    """Find which patterns have a literal in which texts, from text ``first`` on: pairs in ``found``, int32[2, room].

    With ``every`` all pairs. Otherwise ``best`` (int32[n]) becomes each text's lowest pattern that needs no test, and only pairs
    of patterns that need a test and are lower are returned. A literal is reported once a text: ``seen`` (int32, initially -1)
    holds the last text of each. Returns the number of pairs and the first text not scanned because ``found`` was full.
    """
    bitmap, wide = index[0], index[1]
    count = 0
    for text in range(first, address.shape[0]):
        if length[text] < width:
            continue
        before = count
        begin, end = address[text], address[text] + np.uint64(length[text])
        at, last = begin, end - np.uint64(width)
        while at <= last:
            hash_ = _hash(at, end, width)
            bit = hash_ >> wide
            if bitmap[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7)) & np.uint8(1):
                count = _look(at, begin, end, hash_, index, seen, best, every, found, count, text)
            at += _ONE
        if count > found.shape[1]:
            return before, text
    return count, address.shape[0]


@kernel
def choose(data: Any, firsts: Any, sizes: Any, width: Any, counts: Any, places: Any, hashes: Any) -> None:
    """Choose the gram of each literal that the fewest literals contain: its offset, and its hash (uint64[n]).

    ``data`` is the address of all literals' bytes; ``counts`` (uint32[2 ** 20]) is working memory, zeroed.
    """
    for literal in range(firsts.shape[0]):
        begin = data + np.uint64(firsts[literal])
        end = begin + np.uint64(sizes[literal])
        for place in range(sizes[literal] - width + 1):
            counts[_hash(begin + np.uint64(place), end, width) >> _COUNTED] += 1
    for literal in range(firsts.shape[0]):
        begin = data + np.uint64(firsts[literal])
        end = begin + np.uint64(sizes[literal])
        fewest = np.int64(-1)
        for place in range(sizes[literal] - width + 1):
            hash_ = _hash(begin + np.uint64(place), end, width)
            count = np.int64(counts[hash_ >> _COUNTED])
            if fewest < 0 or count < fewest:
                fewest, places[literal], hashes[literal] = count, place, hash_
