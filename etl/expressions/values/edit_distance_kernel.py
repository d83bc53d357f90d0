"""The kernel of `edit_distance`: Levenshtein's distance with 64 rows of the table in one word.

Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic programming" (1999), in blocks as in Hyyrö,
"A bit-vector algorithm for computing Levenshtein and Damerau edit distances" (2003).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function
from etl.expressions.values.edit_distance import MAX_CHARACTERS

BLOCKS = (MAX_CHARACTERS + 63) // 64
"""Words of 64 rows of the table."""
NULL, TOO_LONG = -1, -2
"""Values in place of a distance: one of the texts is null, or has too many characters."""

_ASCII = 128
_ZERO, _ONE, _LAST_BIT = np.uint64(0), np.uint64(1), np.uint64(63)
_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@kernel_function
def _read(address: Any, length: Any, characters: Any) -> Any:
    """Decode UTF-8 to ``characters``; returns their number, or `TOO_LONG`."""
    count, at = 0, 0
    while at < length:
        if count == MAX_CHARACTERS:
            return TOO_LONG
        byte = np.uint32(load_byte(address + np.uint64(at)))
        further = 0 if byte < 0xC0 else 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        code = byte if further == 0 else byte & np.uint32(0x3F >> further)
        for n in range(1, further + 1):
            if at + n < length:
                code = (code << np.uint32(6)) | (np.uint32(load_byte(address + np.uint64(at + n))) & np.uint32(0x3F))
        characters[count] = code
        count += 1
        at += further + 1
    return count


@kernel_function
def _equal_rows(characters: Any, count: Any, block: Any, character: Any) -> Any:
    """The rows of a block whose character is this one, as bits."""
    found = _ZERO
    for row in range(64 * block, min(64 * block + 64, count)):
        if characters[row] == character:
            found |= _ONE << np.uint64(row & 63)
    return found


@kernel_function
def _distance(one: Any, size: Any, other: Any, other_size: Any, rows: Any, more: Any, less: Any) -> Any:
    """Return the distance of two texts, of which the first is not empty.

    ``more`` and ``less`` are Myers' bit vectors Pv and Mv: a set bit means that a cell is one greater, or one less, than the cell
    above it.
    """
    blocks = (size + 63) // 64
    for row in range(size):
        if one[row] < _ASCII:
            rows[one[row] * BLOCKS + row // 64] |= _ONE << np.uint64(row & 63)
    for block in range(blocks):
        more[block], less[block] = _ALL_BITS, _ZERO
    last, distance = np.uint64((size - 1) & 63), size
    for column in range(other_size):
        character = other[column]
        carried_more, carried_less = _ONE, _ZERO
        for block in range(blocks):
            equal = rows[character * BLOCKS + block] if character < _ASCII else _equal_rows(one, size, block, character)
            vertical = equal | less[block]
            equal |= carried_less
            same = (((equal & more[block]) + more[block]) ^ more[block]) | equal
            up = less[block] | ~(same | more[block])
            down = more[block] & same
            if block == blocks - 1:
                distance += np.int64((up >> last) & _ONE) - np.int64((down >> last) & _ONE)
            next_more, next_less = up >> _LAST_BIT, down >> _LAST_BIT
            up, down = (up << _ONE) | carried_more, (down << _ONE) | carried_less
            more[block], less[block] = down | ~(vertical | up), up & vertical
            carried_more, carried_less = next_more, next_less
    for row in range(size):
        if one[row] < _ASCII:
            rows[one[row] * BLOCKS + row // 64] = _ZERO
    return distance


@kernel
def edit_distances(
    address: Any,
    length: Any,
    other_address: Any,
    other_length: Any,
    characters: Any,
    other_characters: Any,
    rows: Any,
    more: Any,
    less: Any,
    distances: Any,
    longest: Any,
) -> None:
    """int32[n]: the distance of each pair of texts, and the number of characters of the longer one.

    Workspace: ``characters``, ``other_characters`` uint32[MAX_CHARACTERS], ``rows`` uint64[128 * BLOCKS] of zeros, ``more`` and
    ``less`` uint64[BLOCKS].
    """
    for n in range(address.shape[0]):
        distances[n], longest[n] = NULL, 0
        if length[n] < 0 or other_length[n] < 0:
            continue
        size = _read(address[n], length[n], characters)
        other_size = _read(other_address[n], other_length[n], other_characters)
        if size < 0 or other_size < 0:
            distances[n] = TOO_LONG
            continue
        longest[n] = max(size, other_size)
        if size == 0 or other_size == 0:
            distances[n] = longest[n]
        else:
            distances[n] = _distance(characters, size, other_characters, other_size, rows, more, less)
