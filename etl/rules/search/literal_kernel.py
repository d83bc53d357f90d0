"""The kernels that find many literals in many texts at once.

Literals that may stand anywhere are found by four bytes of each, those of three, two and one by all of them. A first loop
without a branch looks each place of a text up in small tables and notes where something may be; a second one looks what it
is in tables by the exact bytes, and compares a literal once in a text. Those that stand at a text's beginning or end, or are
all of it, are found by their size and the bytes at both of their ends: one look-up for each size that occurs. Letters are
folded (ASCII; the builder adds the forms of others).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import equal_bytes, load_byte, load_long, load_word
from etl.columns.kernels import inlined, kernel, part
from etl.columns.prefetching import AHEAD, prefetch_text

ONE, TWO, THREE, FOUR, EIGHT, SIXTEEN = (np.uint64(number) for number in (1, 2, 3, 4, 8, 16))
FOLD = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint8)
"""Bytes with the letters A to Z made small."""

LOW_CASE, LOW_CASES = np.uint32(0x20202020), np.uint64(0x2020202020202020)
MIX, MIXED = np.uint32(0x9E3779B1), np.uint64(0x9E3779B97F4A7C15)
THREE_BYTES, TWO_BYTES = np.uint32(0xFFFFFF), np.uint32(0xFFFF)
ANYWHERE, AT_START, AT_END, WHOLE = range(4)
"""Where a literal must stand."""

HEAD, TAIL, ALL, ANY_EDGE = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(7)
"""What kinds of literals have two bytes at their edge."""

PLACES = np.uint64(512)
"""Places of a text that the first loop looks at before the second."""


@inlined
def same(at: Any, needle: Any, needles: Any) -> Any:
    """Whether the bytes at an address are those of a literal. Of letters whose case does not count, the bit of the case is set
    in both."""
    size, data, cases = np.uint64(needles[1][needle]), needles[2][needle], needles[3][needle]
    if size < FOUR:
        differing = False
        for place in range(size):
            differing |= load_byte(at + place) | load_byte(cases + place) != load_byte(data + place)
        return not differing
    if size < EIGHT:
        last = size - FOUR
        if load_word(at) | load_word(cases) != load_word(data):
            return False
        return load_word(at + last) | load_word(cases + last) == load_word(data + last)
    last, block = size - EIGHT, np.uint64(0)
    while block < last:
        if load_long(at + block) | load_long(cases + block) != load_long(data + block):
            return False
        block += EIGHT
    return load_long(at + last) | load_long(cases + last) == load_long(data + last)


@inlined
def _put(sink: Any, count: Any, needle: Any, text: Any) -> Any:
    """Note that a text has a literal: in the bits of its row, or as a pair."""
    found, rows, predicates, bits, hits = sink
    if rows.shape[0] > 0:
        row, predicate = rows[text], predicates[needle]
        bits[predicate, row >> 6] |= ONE << np.uint64(row & 63)
        hits[predicate] += 1
        return count
    if count < found.shape[1]:
        found[0, count] = needle
        found[1, count] = text
    return count + 1


@inlined
def _bucket(
    word: Any, at: Any, begin: Any, end: Any, index: Any, needles: Any, noted: Any, sink: Any, count: Any, text: Any
) -> Any:
    """Compare the literals that are known by some bytes, which are at ``at``."""
    keys, buckets, firsts, entries, places = index
    mask = np.uint32(keys.shape[0] - 1)
    slot = np.uint32(word * MIX) >> np.uint32(9) & mask
    while buckets[slot] >= 0 and keys[slot] != word:
        slot = slot + np.uint32(1) & mask
    bucket = buckets[slot]
    if bucket >= 0:
        for entry in range(firsts[bucket], firsts[bucket + 1]):
            needle = entries[entry]
            start = at - np.uint64(places[entry])
            fits = noted[needle] != text and start >= begin and start + np.uint64(needles[1][needle]) <= end
            if fits and same(start, needle, needles):
                noted[needle] = text
                count = _put(sink, count, needle, text)
    return count


@part
def _word(at: Any, size: Any) -> Any:
    """The bytes at an address, one to three, as a number."""
    word = np.uint32(0)
    for place in range(size):
        word = np.uint32(word | np.uint32(load_byte(at + np.uint64(place))) << np.uint32(8 * place))
    return word


@inlined
def _may_be_four(word: Any, four: Any, shift: Any) -> Any:
    slot = np.uint32(word * MIX) >> shift
    return four[slot >> np.uint32(5)] >> (slot & np.uint32(31)) & np.uint32(1)


@inlined
def _may_be_short(word: Any, three: Any, three_shift: Any, two: Any) -> Any:
    slot = np.uint32((word & THREE_BYTES) * MIX) >> three_shift
    return np.uint32(three[slot] | two[word & TWO_BYTES])


@inlined
def _looked_at(
    word: Any, at: Any, begin: Any, end: Any, sieves: Any, indexes: Any, needles: Any, noted: Any, sink: Any, count: Any,
    text: Any,
) -> Any:  # fmt: skip
    """What begins, or has its four bytes, at a place where something may be."""
    four, shift, three, three_shift, two, any_short, any_three = sieves
    if _may_be_four(word, four, shift) and end - at >= FOUR:
        count = _bucket(word, at, begin, end, indexes[0], needles, noted, sink, count, text)
    if any_short:
        pair = two[word & TWO_BYTES]
        if three[np.uint32((word & THREE_BYTES) * MIX) >> three_shift] if any_three else pair:
            count = _bucket(word & THREE_BYTES, at, begin, end, indexes[1], needles, noted, sink, count, text)
        if pair:
            count = _bucket(word & TWO_BYTES, at, begin, end, indexes[2], needles, noted, sink, count, text)
    return count


@part
def _has(begin: Any, end: Any, byte: Any, other: Any) -> Any:
    """Whether one of two bytes is in a text."""
    at = begin
    if end - begin >= SIXTEEN:
        last = end - SIXTEEN
        while at < last:
            if equal_bytes(at, byte) | equal_bytes(at, other):
                return True
            at += SIXTEEN
        return equal_bytes(last, byte) | equal_bytes(last, other) != np.uint32(0)
    while at < end:
        if load_byte(at) == byte or load_byte(at) == other:
            return True
        at += ONE
    return False


@inlined
def _single(begin: Any, end: Any, singles: Any, sink: Any, count: Any, text: Any) -> Any:
    """Literals of one byte."""
    needles, bytes_, others = singles
    for n in range(needles.shape[0]):
        if _has(begin, end, bytes_[n], others[n]):
            count = _put(sink, count, needles[n], text)
    return count


@inlined
def _anywhere(
    begin: Any, end: Any, sieves: Any, indexes: Any, needles: Any, noted: Any, places: Any, sink: Any, count: Any, text: Any
) -> Any:  # fmt: skip
    four, shift, three, three_shift, two, any_short, any_three = sieves
    at = begin
    last = end - THREE if end - begin > THREE else begin
    while at < last:
        stop, several = min(at + PLACES, last), np.uint64(0)
        if any_three:
            while at < stop:
                word = load_word(at) | LOW_CASE
                places[several] = at
                several += np.uint64(_may_be_four(word, four, shift) | _may_be_short(word, three, three_shift, two))
                at += ONE
        elif any_short:
            while at < stop:
                word = load_word(at) | LOW_CASE
                places[several] = at
                several += np.uint64(_may_be_four(word, four, shift) | np.uint32(two[word & TWO_BYTES]))
                at += ONE
        else:
            while at < stop:
                places[several] = at
                several += np.uint64(_may_be_four(load_word(at) | LOW_CASE, four, shift))
                at += ONE
        for n in range(np.int64(several)):
            place = places[n]
            word = load_word(place) | LOW_CASE
            count = _looked_at(word, place, begin, end, sieves, indexes, needles, noted, sink, count, text)
    if any_short:
        while at < end:
            word = _word(at, np.int64(end - at)) | LOW_CASE
            count = _looked_at(word, at, begin, end, sieves, indexes, needles, noted, sink, count, text)
            at += ONE
    return count


@inlined
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


@inlined
def _slot(key: Any, keys: Any) -> Any:
    """Where a key is, or -1."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = key >> np.uint64(20) & mask
    while keys[slot] != key:
        if keys[slot] == np.uint64(0):
            return np.int64(-1)
        slot = (slot + ONE) & mask
    return np.int64(slot)


@inlined
def _compared(slot: Any, at: Any, size: Any, ends: Any, needles: Any, sink: Any, count: Any, text: Any) -> Any:
    """Compare the literals of a key that have this size with what is at an address."""
    firsts, entries = ends[2], ends[3]
    for entry in range(firsts[slot], firsts[slot + 1]):
        needle = entries[entry]
        if needles[1][needle] == size and same(at, needle, needles):
            count = _put(sink, count, needle, text)
    return count


@inlined
def _pair(at: Any) -> Any:
    """Two bytes, letters folded."""
    return np.uint32(load_byte(at)) | np.uint32(load_byte(at + ONE)) << np.uint32(8) | (LOW_CASE & TWO_BYTES)


@inlined
def _at_edges(
    begin: Any, end: Any, edges: Any, heads: Any, tails: Any, wholes: Any, needles: Any, sink: Any, count: Any, text: Any
) -> Any:
    """Look once for each size that literals of an edge have, where the two bytes at that edge are those of one.

    ``edges`` uint8[65536] has for each two bytes which kinds of literals begin, or end, with them.
    """
    length = np.int64(end - begin)
    first = edges[_pair(begin)] if length > 1 else ANY_EDGE
    last = edges[_pair(end - TWO)] if length > 1 else ANY_EDGE
    if first & HEAD:
        sizes, keys = heads[0], heads[1]
        for n in range(sizes.shape[0]):
            size = sizes[n]
            if size > length:
                break
            slot = _slot(_key(begin, size), keys)
            if slot >= 0:
                count = _compared(slot, begin, size, heads, needles, sink, count, text)
    if last & TAIL:
        sizes, keys = tails[0], tails[1]
        for n in range(sizes.shape[0]):
            size = sizes[n]
            if size > length:
                break
            at = end - np.uint64(size)
            slot = _slot(_key(at, size), keys)
            if slot >= 0:
                count = _compared(slot, at, size, tails, needles, sink, count, text)
    if first & ALL:
        sizes, keys = wholes[0], wholes[1]
        if sizes.shape[0] > 0 and length <= sizes[-1]:
            slot = _slot(_key(begin, length), keys)
            if slot >= 0:
                count = _compared(slot, begin, length, wholes, needles, sink, count, text)
    return count


@kernel
def find(
    address: Any, length: Any, first: Any, sieves: Any, indexes: Any, singles: Any, edges: Any, heads: Any, tails: Any,
    wholes: Any, needles: Any, noted: Any, places: Any, sink: Any,
) -> Any:  # fmt: skip
    """Which literals are in which texts, from text ``first`` on, each once.

    ``sink`` is found, rows, predicates, bits and hits. With ``rows`` int64[texts], a literal's number in ``predicates`` has its
    bit of the text's row set in ``bits`` uint64[predicates, words], and is counted in ``hits``. Without (``rows`` is empty),
    pairs are put into ``found`` int32[2, room]. ``noted`` int32[literals] is -1, ``places`` uint64[PLACES] room to work in.
    Returns how many pairs, and the first text that has not been looked at: ``found`` was full.
    """
    count, texts = 0, address.shape[0]
    for text in range(first, texts):
        if text + AHEAD < texts:
            prefetch_text(address[text + AHEAD], length[text + AHEAD])
        if length[text] < 0:
            continue
        before = count
        begin, end = address[text], address[text] + np.uint64(length[text])
        count = _anywhere(begin, end, sieves, indexes, needles, noted, places, sink, count, text)
        count = _single(begin, end, singles, sink, count, text)
        count = _at_edges(begin, end, edges, heads, tails, wholes, needles, sink, count, text)
        if count > sink[0].shape[1]:
            return before, text
    return count, texts


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
def edge_keys(address: Any, size: Any, keys: Any) -> None:
    """The key of each literal, whose bytes are at an address."""
    for needle in range(address.shape[0]):
        keys[needle] = _key(address[needle], size[needle])
