"""The kernel that finds many literals in many texts at once.

Literals that may be anywhere in a text are found by four of their bytes, shorter ones by all their bytes. A first loop without
branches looks up each position of a text in small tables and stores the positions where a literal may be; a second loop looks
those up in tables of the exact bytes, and compares each literal once in a text. Literals at the edges of a text: `edge_kernel`.
Case is folded for ASCII; the forms of other letters are literals of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import PREFETCH_DISTANCE, prefetch_text
from etl.columns.intrinsics import equal_bytes, load_byte, load_long, load_word
from etl.columns.kernels import inlined, kernel, kernel_function
from etl.rules.search.edge_kernel import LOW_CASES, MIXED, find_at_edges
from etl.rules.search.match_kernel import EIGHT, FOUR, ONE, SIXTEEN, THREE, equals_literal, record_hit

LOW_CASE = np.uint32(0x20202020)
MIX = np.uint32(0x9E3779B1)
THREE_BYTES, TWO_BYTES = np.uint32(0xFFFFFF), np.uint32(0xFFFF)

POSITIONS = np.uint64(512)
"""Positions of a text that the first loop looks at before the second."""


@inlined
def _search_slot(
    key: Any, at: Any, begin: Any, end: Any, index: Any, literals: Any, last_text: Any, sink: Any, count: Any, text: Any
) -> Any:
    """Compare the literals whose key bytes, which are at ``at``, have this key's hash."""
    directory, checks, entries, offsets, shift = index
    hash_ = np.uint64(key) * MIXED
    slot, check = hash_ >> shift, np.uint32(hash_ >> SIXTEEN)
    for entry in range(directory[slot], directory[slot + ONE]):
        if checks[entry] == check:
            literal = entries[entry]
            start = at - np.uint64(offsets[entry])
            fits = last_text[literal] != text and start >= begin and start + np.uint64(literals[1][literal]) <= end
            if fits and equals_literal(start, literal, literals):
                last_text[literal] = text
                count = record_hit(sink, count, literal, text)
    return count


@kernel_function
def _word(at: Any, size: Any) -> Any:
    """One to three bytes at an address as a number."""
    word = np.uint32(0)
    for index in range(size):
        word = np.uint32(word | np.uint32(load_byte(at + np.uint64(index))) << np.uint32(8 * index))
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
def _look_up(
    word: Any, at: Any, begin: Any, end: Any, sieves: Any, indexes: Any, literals: Any, last_text: Any, sink: Any, count: Any,
    text: Any,
) -> Any:  # fmt: skip
    """Compare the literals that may begin, or have their four bytes, at a position."""
    four, shift, three, three_shift, two, any_short, any_three = sieves
    if _may_be_four(word, four, shift) and end - at >= FOUR:
        if indexes[0][1].shape[0] > 0 and end - at >= EIGHT:
            long = load_long(at) | LOW_CASES
            count = _search_slot(long, at, begin, end, indexes[0], literals, last_text, sink, count, text)
        if indexes[1][1].shape[0] > 0:
            count = _search_slot(word, at, begin, end, indexes[1], literals, last_text, sink, count, text)
    if any_short:
        pair = two[word & TWO_BYTES]
        if three[np.uint32((word & THREE_BYTES) * MIX) >> three_shift] if any_three else pair:
            count = _search_slot(word & THREE_BYTES, at, begin, end, indexes[2], literals, last_text, sink, count, text)
        if pair:
            count = _search_slot(word & TWO_BYTES, at, begin, end, indexes[3], literals, last_text, sink, count, text)
    return count


@kernel_function
def _has_byte(begin: Any, end: Any, byte: Any, other: Any) -> Any:
    """Whether a text contains one of two bytes."""
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
def _find_single(begin: Any, end: Any, singles: Any, sink: Any, count: Any, text: Any) -> Any:
    """Find literals of one byte."""
    numbers, bytes_, others = singles
    for n in range(numbers.shape[0]):
        if _has_byte(begin, end, bytes_[n], others[n]):
            count = record_hit(sink, count, numbers[n], text)
    return count


@inlined
def _find_anywhere(
    begin: Any, end: Any, sieves: Any, indexes: Any, literals: Any, last_text: Any, addresses: Any, sink: Any, count: Any,
    text: Any,
) -> Any:  # fmt: skip
    four, shift, three, three_shift, two, any_short, any_three = sieves
    at = begin
    last = end - THREE if end - begin > THREE else begin
    while at < last:
        stop, several = min(at + POSITIONS, last), np.uint64(0)
        if any_three:
            while at < stop:
                word = load_word(at) | LOW_CASE
                addresses[several] = at
                several += np.uint64(_may_be_four(word, four, shift) | _may_be_short(word, three, three_shift, two))
                at += ONE
        elif any_short:
            while at < stop:
                word = load_word(at) | LOW_CASE
                addresses[several] = at
                several += np.uint64(_may_be_four(word, four, shift) | np.uint32(two[word & TWO_BYTES]))
                at += ONE
        else:
            while at < stop:
                addresses[several] = at
                several += np.uint64(_may_be_four(load_word(at) | LOW_CASE, four, shift))
                at += ONE
        for n in range(np.int64(several)):
            address = addresses[n]
            word = load_word(address) | LOW_CASE
            count = _look_up(word, address, begin, end, sieves, indexes, literals, last_text, sink, count, text)
    if any_short:
        while at < end:
            word = _word(at, np.int64(end - at)) | LOW_CASE
            count = _look_up(word, at, begin, end, sieves, indexes, literals, last_text, sink, count, text)
            at += ONE
    return count


@kernel
def find(
    address: Any, length: Any, first: Any, sieves: Any, indexes: Any, singles: Any, edges: Any, heads: Any, tails: Any,
    wholes: Any, literals: Any, last_text: Any, addresses: Any, sink: Any,
) -> Any:  # fmt: skip
    """Find which literals are in which texts, from text ``first`` on, each once a text.

    ``sink`` is found, rows, owners, bits and hits. With ``rows`` int64[texts], the bit of the text's row is set in ``bits``
    uint64[owners, words] for the literal's number in ``owners``, and counted in ``hits``. Without (``rows`` is empty), pairs are
    put into ``found`` int32[2, room]. ``last_text`` int32[literals] is -1, ``addresses`` uint64[POSITIONS] is working memory.
    Returns the number of pairs, and the first text that was not scanned because ``found`` was full.
    """
    count, texts = 0, address.shape[0]
    for text in range(first, texts):
        if text + PREFETCH_DISTANCE < texts:
            prefetch_text(address[text + PREFETCH_DISTANCE], length[text + PREFETCH_DISTANCE])
        if length[text] < 0:
            continue
        before = count
        begin, end = address[text], address[text] + np.uint64(length[text])
        count = _find_anywhere(begin, end, sieves, indexes, literals, last_text, addresses, sink, count, text)
        count = _find_single(begin, end, singles, sink, count, text)
        count = find_at_edges(begin, end, edges, heads, tails, wholes, literals, sink, count, text)
        if count > sink[0].shape[1]:
            return before, text
    return count, texts


@kernel
def gram_counts(address: Any, length: Any, counts: Any) -> None:
    """Add how often four bytes occur, by their hash, to ``counts`` int64[65536]."""
    for text in range(address.shape[0]):
        if length[text] >= 4:
            at, last = address[text], address[text] + np.uint64(length[text] - 4)
            while at <= last:
                counts[np.uint32((load_word(at) | LOW_CASE) * MIX) >> np.uint32(16)] += 1
                at += ONE
