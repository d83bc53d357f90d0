"""The kernels that find many literals in many texts at once.

Literals that may stand anywhere are found by four bytes of each (``grams``; those of three, two and one by these): one
look-up in a small bitmap a byte of text, and a comparison where it hits. Those that stand at a text's beginning or end, or
are all of it, are found by their size and the bytes at both of their ends: one look-up for each size that occurs. Letters
are folded (ASCII; the builder adds the forms of others).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import load_byte, load_long, load_word

ONE, FOUR, EIGHT = np.uint64(1), np.uint64(4), np.uint64(8)
FOLD = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint8)
"""Bytes with the letters A to Z made small."""

LOW_CASE, LOW_CASES = np.uint32(0x20202020), np.uint64(0x2020202020202020)
MIX, MIXED = np.uint32(0x9E3779B1), np.uint64(0x9E3779B97F4A7C15)
THREE_BYTES, TWO_BYTES = np.uint32(0xFFFFFF), np.uint32(0xFFFF)
ANYWHERE, AT_START, AT_END, WHOLE = range(4)
"""Where a literal must stand."""


@part
def _bit(bitmap: Any, at: Any) -> Any:
    return (bitmap[at >> np.uint32(3)] >> np.uint8(at & np.uint32(7))) & np.uint8(1) != np.uint8(0)


@part
def _same(at: Any, needle: Any, needles: Any, data: Any) -> Any:
    """Whether the bytes at an address are those of a literal."""
    first, size, cased = needles[0][needle], needles[1][needle], needles[2][needle]
    for place in range(size):
        byte = load_byte(at + np.uint64(place))
        if (byte if cased else FOLD[byte]) != data[first + place]:
            return False
    return True


@part
def _put(found: Any, count: Any, needle: Any, text: Any) -> Any:
    if count < found.shape[1]:
        found[0, count] = needle
        found[1, count] = text
    return count + 1


@part
def _bucket(
    slot: Any, at: Any, begin: Any, end: Any, index: Any, needles: Any, data: Any, found: Any, count: Any, text: Any
) -> Any:
    """Compare the literals of a bucket, each where its gram is at ``at``."""
    firsts, entries, places = index[1], index[2], index[3]
    for entry in range(firsts[slot], firsts[slot + np.uint32(1)]):
        needle = entries[entry]
        start = at - np.uint64(places[entry])
        fits = start >= begin and start + np.uint64(needles[1][needle]) <= end
        if fits and _same(start, needle, needles, data):
            count = _put(found, count, needle, text)
    return count


@part
def _word(at: Any, size: Any) -> Any:
    """The bytes at an address, one to three, as a number."""
    word = np.uint32(0)
    for place in range(size):
        word = np.uint32(word | np.uint32(load_byte(at + np.uint64(place))) << np.uint32(8 * place))
    return word


@part
def _anywhere(
    begin: Any, end: Any, grams: Any, shifts: Any, triples: Any, pairs: Any, needles: Any, data: Any, found: Any, count: Any,
    text: Any,
) -> Any:  # fmt: skip
    four, three, two = grams[0], triples[0], pairs[0]
    shift, short_shift = shifts
    any_three, any_two = triples[2].shape[0] > 0, pairs[2].shape[0] > 0
    at = begin
    while at < end:
        whole = end - at >= FOUR
        word = (load_word(at) if whole else _word(at, np.int64(end - at))) | LOW_CASE
        if whole:
            slot = np.uint32(word * MIX) >> shift
            if _bit(four, slot):
                count = _bucket(slot, at, begin, end, grams, needles, data, found, count, text)
        if any_three:
            slot = np.uint32((word & THREE_BYTES) * MIX) >> short_shift
            if _bit(three, slot):
                count = _bucket(slot, at, begin, end, triples, needles, data, found, count, text)
        if any_two:
            slot = np.uint32(word & TWO_BYTES)
            if _bit(two, slot):
                count = _bucket(slot, at, begin, end, pairs, needles, data, found, count, text)
        at += ONE
    return count


@part
def _key(at: Any, size: Any) -> Any:
    """A number, not 0, for a size and the bytes at both ends, whatever the case of letters is."""
    first, last = np.uint64(0), np.uint64(0)
    if size >= 8:
        first, last = load_long(at), load_long(at + np.uint64(size) - EIGHT)
    else:
        for place in range(size):
            first = first << EIGHT | np.uint64(load_byte(at + np.uint64(place)))
    key = ((first | LOW_CASES) ^ np.uint64(size)) * MIXED
    key = (key ^ (key >> np.uint64(32)) ^ (last | LOW_CASES)) * MIXED
    return (key ^ (key >> np.uint64(32))) | ONE


@part
def _slot(key: Any, keys: Any) -> Any:
    """Where a key is, or -1."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = key >> np.uint64(20) & mask
    while keys[slot] != key:
        if keys[slot] == np.uint64(0):
            return np.int64(-1)
        slot = (slot + ONE) & mask
    return np.int64(slot)


@part
def _compared(slot: Any, at: Any, size: Any, ends: Any, needles: Any, data: Any, found: Any, count: Any, text: Any) -> Any:
    """Compare the literals of a key that have this size with what is at an address."""
    firsts, entries = ends[2], ends[3]
    for entry in range(firsts[slot], firsts[slot + 1]):
        needle = entries[entry]
        if needles[1][needle] == size and _same(at, needle, needles, data):
            count = _put(found, count, needle, text)
    return count


@part
def _at_edges(
    begin: Any, end: Any, heads: Any, tails: Any, wholes: Any, needles: Any, data: Any, found: Any, count: Any, text: Any
) -> Any:
    """Look once for each size that literals of an edge have."""
    length = np.int64(end - begin)
    sizes, keys = heads[0], heads[1]
    for n in range(sizes.shape[0]):
        size = sizes[n]
        if size > length:
            break
        slot = _slot(_key(begin, size), keys)
        if slot >= 0:
            count = _compared(slot, begin, size, heads, needles, data, found, count, text)
    sizes, keys = tails[0], tails[1]
    for n in range(sizes.shape[0]):
        size = sizes[n]
        if size > length:
            break
        at = end - np.uint64(size)
        slot = _slot(_key(at, size), keys)
        if slot >= 0:
            count = _compared(slot, at, size, tails, needles, data, found, count, text)
    sizes, keys = wholes[0], wholes[1]
    if sizes.shape[0] > 0 and length <= sizes[-1]:
        slot = _slot(_key(begin, length), keys)
        if slot >= 0:
            count = _compared(slot, begin, length, wholes, needles, data, found, count, text)
    return count


@kernel
def find(
    address: Any, length: Any, first: Any, grams: Any, shifts: Any, triples: Any, pairs: Any, heads: Any, tails: Any,
    wholes: Any, needles: Any, data: Any, found: Any,
) -> Any:  # fmt: skip
    """Which literals are in which texts, from text ``first`` on: pairs in ``found`` int32[2, room].

    Returns how many pairs, and the first text that has not been looked at: ``found`` was full. A pair may come twice.
    """
    count = 0
    for text in range(first, address.shape[0]):
        if length[text] < 0:
            continue
        before = count
        begin, end = address[text], address[text] + np.uint64(length[text])
        count = _anywhere(begin, end, grams, shifts, triples, pairs, needles, data, found, count, text)
        count = _at_edges(begin, end, heads, tails, wholes, needles, data, found, count, text)
        if count > found.shape[1]:
            return before, text
    return count, address.shape[0]


@kernel
def gram_counts(address: Any, length: Any, counts: Any) -> None:
    """How often grams occur, by their hash: ``counts`` int64[65536] is added to."""
    for text in range(address.shape[0]):
        if length[text] >= 4:
            at, last = address[text], address[text] + np.uint64(length[text] - 4)
            while at <= last:
                counts[np.uint32((load_word(at) | LOW_CASE) * MIX) >> np.uint32(16)] += 1
                at += ONE


@kernel
def edge_keys(first: Any, size: Any, data: Any, keys: Any) -> None:
    """The key of each literal; ``data`` is the address of their bytes."""
    for needle in range(first.shape[0]):
        keys[needle] = _key(data + np.uint64(first[needle]), size[needle])
