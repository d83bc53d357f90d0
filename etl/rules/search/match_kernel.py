"""Parts of kernels that compare one literal with a text, search for it, and record that it was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import equal_bytes, load_byte, load_long, load_word
from etl.columns.kernels import inlined

ONE, TWO, THREE, FOUR, EIGHT, SIXTEEN = (np.uint64(number) for number in (1, 2, 3, 4, 8, 16))


@inlined
def equals_literal(at: Any, literal: Any, literals: Any) -> Any:
    """Whether the bytes at an address are those of a literal; ``literals`` is `LiteralBytes.addresses`.

    The bit of the case is set on both sides in letters whose case does not count.
    """
    size, first = np.uint64(literals[1][literal]), np.uint64(literals[0][literal])
    data, cases = literals[2] + first, literals[3] + first
    if size < FOUR:
        differing = False
        for index in range(size):
            differing |= load_byte(at + index) | load_byte(cases + index) != load_byte(data + index)
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
def contains_literal(begin: Any, length: Any, literal: Any, literals: Any) -> Any:
    """Whether a text contains a literal: 16 positions at once by the literal's first and last byte."""
    size = np.uint64(literals[1][literal])
    if np.uint64(length) < size:
        return False
    first, last = np.uint64(literals[0][literal]), size - ONE
    data, cases = literals[2] + first, literals[3] + first
    low, high = load_byte(data), load_byte(data + last)
    other_low, other_high = low ^ load_byte(cases), high ^ load_byte(cases + last)
    at, end = begin, begin + np.uint64(length) - last  # no literal begins at ``end`` or after
    if end - at < SIXTEEN:
        while at < end:
            if equals_literal(at, literal, literals):
                return True
            at += ONE
        return False
    while at < end:
        at = min(at, end - SIXTEEN)  # some positions twice, instead of bytes after the text
        begins = equal_bytes(at, low) | equal_bytes(at, other_low)
        both = begins & (equal_bytes(at + last, high) | equal_bytes(at + last, other_high))
        candidate = at
        while both != 0:
            if both & np.uint32(1) and equals_literal(candidate, literal, literals):
                return True
            both >>= np.uint32(1)
            candidate += ONE
        at += SIXTEEN
    return False


@inlined
def record_hit(sink: Any, count: Any, literal: Any, text: Any) -> Any:
    """Record that a text contains a literal: in the bits of its row, or as a pair (see `literal_kernel.find`)."""
    found, rows, owners, bits, hits = sink
    if rows.shape[0] > 0:
        row, owner = rows[text], owners[literal]
        bits[owner, row >> 6] |= ONE << np.uint64(row & 63)
        hits[owner] += 1
        return count
    if count < found.shape[1]:
        found[0, count] = literal
        found[1, count] = text
    return count + 1
