"""Parts of kernels that find literals at the start or end of a text, or equal to it.

They are found by their size and the bytes at both of their ends: one look-up in a hash table for each size that occurs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, load_long
from etl.columns.kernels import inlined, kernel
from etl.rules.search.match_kernel import EIGHT, ONE, SIXTEEN, TWO, equals_literal, record_hit

HEAD, TAIL, ALL, ANY_EDGE = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(7)
"""The kinds of literals (at the start, at the end, whole) that have two bytes at their edge."""

LOW_CASES, MIXED = np.uint64(0x2020202020202020), np.uint64(0x9E3779B97F4A7C15)
_LOW_CASE = np.uint32(0x2020)


@inlined
def _key(at: Any, size: Any) -> Any:
    """A hash of a size and the bytes at both ends; the case of letters does not count."""
    first, last = np.uint64(0), np.uint64(0)
    if size >= 8:
        first, last = load_long(at), load_long(at + np.uint64(size) - EIGHT)
    else:
        for index in range(size):
            first = first << EIGHT | np.uint64(load_byte(at + np.uint64(index)))
    key = ((first | LOW_CASES) ^ np.uint64(size)) * MIXED
    key = (key ^ (key >> np.uint64(32)) ^ (last | LOW_CASES)) * MIXED
    return key ^ (key >> np.uint64(32))


@inlined
def _look_up(at: Any, size: Any, index: Any, literals: Any, sink: Any, count: Any, text: Any) -> Any:
    """Compare the literals of an edge that have this size and key with the bytes at an address."""
    directory, checks, entries, shift = index[1], index[2], index[3], index[4]
    key = _key(at, size)
    slot, check = key >> shift, np.uint32(key >> SIXTEEN)
    for entry in range(directory[slot], directory[slot + ONE]):
        if checks[entry] == check:
            literal = entries[entry]
            if literals[1][literal] == size and equals_literal(at, literal, literals):
                count = record_hit(sink, count, literal, text)
    return count


@inlined
def _pair(at: Any) -> Any:
    """Two bytes, letters folded."""
    return np.uint32(load_byte(at)) | np.uint32(load_byte(at + ONE)) << np.uint32(8) | _LOW_CASE


@inlined
def find_at_edges(
    begin: Any, end: Any, edges: Any, heads: Any, tails: Any, wholes: Any, literals: Any, sink: Any, count: Any, text: Any
) -> Any:
    """Look up each size that literals of an edge have, if the two bytes at that edge are those of a literal.

    ``edges`` uint8[65536] has for each two bytes the kinds of literals that begin, or end, with them.
    """
    length = np.int64(end - begin)
    first = edges[_pair(begin)] if length > 1 else ANY_EDGE
    last = edges[_pair(end - TWO)] if length > 1 else ANY_EDGE
    if first & HEAD:
        sizes = heads[0]
        for n in range(sizes.shape[0]):
            size = sizes[n]
            if size > length:
                break
            count = _look_up(begin, size, heads, literals, sink, count, text)
    if last & TAIL:
        sizes = tails[0]
        for n in range(sizes.shape[0]):
            size = sizes[n]
            if size > length:
                break
            count = _look_up(end - np.uint64(size), size, tails, literals, sink, count, text)
    if first & ALL:
        sizes = wholes[0]
        if sizes.shape[0] > 0 and length <= sizes[-1]:
            count = _look_up(begin, length, wholes, literals, sink, count, text)
    return count


@kernel
def edge_keys(address: Any, size: Any, keys: Any) -> None:
    """The key of each literal, whose bytes are at an address."""
    for literal in range(address.shape[0]):
        keys[literal] = _key(address[literal], size[literal])
