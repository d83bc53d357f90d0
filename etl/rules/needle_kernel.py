"""The kernels that find many literals in many texts at once.

Literals that may stand anywhere are found by four bytes of each (``grams``; those of two and three bytes by two): one
look-up in a small bitmap a byte of text, and a comparison where it hits. Those that stand at a text's beginning or end, or
are all of it, are found by their hash. Letters are folded (ASCII; the builder adds the forms of others).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import load_byte, load_word

ONE = np.uint64(1)
FOLD = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint8)
"""Bytes with the letters A to Z made small."""

LOW_CASE = np.uint32(0x20202020)
MIX = np.uint32(0x9E3779B1)
SEED = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
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
def _anywhere(
    begin: Any, end: Any, grams: Any, shift: Any, pairs: Any, needles: Any, data: Any, found: Any, count: Any, text: Any
) -> Any:
    at = begin
    if grams[2].shape[0] > 0 and end - begin >= np.uint64(4):
        last = end - np.uint64(4)
        while at <= last:
            slot = np.uint32((load_word(at) | LOW_CASE) * MIX) >> shift
            if _bit(grams[0], slot):
                count = _bucket(slot, at, begin, end, grams, needles, data, found, count, text)
            at += ONE
    if pairs[2].shape[0] > 0 and end > begin:
        at = begin
        one = np.uint32(FOLD[load_byte(at)])
        while at < end:
            next_ = np.uint32(FOLD[load_byte(at + ONE)]) if at + ONE < end else np.uint32(0)
            slot = one | next_ << np.uint32(8)
            if _bit(pairs[0], slot):
                count = _bucket(slot, at, begin, end, pairs, needles, data, found, count, text)
            one = next_
            at += ONE
    return count


@part
def _hashed(
    hash_: Any,
    size: Any,
    begin: Any,
    end: Any,
    wanted: Any,
    ends: Any,
    needles: Any,
    data: Any,
    found: Any,
    count: Any,
    text: Any,
) -> Any:
    """Compare the literals of this size and hash that stand at the text's beginning (or, ``wanted``, elsewhere)."""
    keys, firsts, entries = ends[1], ends[2], ends[3]
    mask = np.uint64(keys.shape[0] - 1)
    slot = hash_ & mask
    while keys[slot] != np.uint64(0):
        if keys[slot] == hash_:
            for entry in range(firsts[slot], firsts[slot + ONE]):
                needle = entries[entry]
                kind = needles[3][needle]
                right = kind == wanted or (kind == WHOLE and size == np.int64(end - begin))
                start = end - np.uint64(size) if wanted == AT_END else begin
                if right and needles[1][needle] == size and _same(start, needle, needles, data):
                    count = _put(found, count, needle, text)
            break
        slot = (slot + ONE) & mask
    return count


@part
def _at_edge(begin: Any, end: Any, wanted: Any, ends: Any, needles: Any, data: Any, found: Any, count: Any, text: Any) -> Any:
    """Hash from an edge inwards, and look where a literal of that size may end."""
    sizes = ends[0]
    hash_, size = SEED, np.int64(0)
    longest = min(np.int64(end - begin), np.int64(sizes.shape[0] - 1))
    while True:
        if sizes[size]:
            count = _hashed(hash_ | ONE, size, begin, end, wanted, ends, needles, data, found, count, text)
        if size >= longest:
            return count
        at = end - ONE - np.uint64(size) if wanted == AT_END else begin + np.uint64(size)
        hash_ = (hash_ ^ np.uint64(FOLD[load_byte(at)])) * PRIME
        size += 1


@kernel
def find(
    address: Any, length: Any, first: Any, grams: Any, shift: Any, pairs: Any, heads: Any, tails: Any, needles: Any,
    data: Any, found: Any,
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
        count = _anywhere(begin, end, grams, shift, pairs, needles, data, found, count, text)
        if heads[3].shape[0] > 0:
            count = _at_edge(begin, end, AT_START, heads, needles, data, found, count, text)
        if tails[3].shape[0] > 0:
            count = _at_edge(begin, end, AT_END, tails, needles, data, found, count, text)
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
def edge_hashes(first: Any, size: Any, backwards: Any, data: Any, hashes: Any) -> None:
    """The hash of each literal, from its beginning or its end."""
    for needle in range(first.shape[0]):
        hash_ = SEED
        for place in range(size[needle]):
            at = first[needle] + (size[needle] - 1 - place if backwards else place)
            hash_ = (hash_ ^ np.uint64(FOLD[data[at]])) * PRIME
        hashes[needle] = hash_ | ONE
