"""Kernels over texts at addresses: locating them, writing views of them, copying them.

The views written here always refer to buffer 0. Addresses are ``uint64``; a null text has the length -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import load_bytes, loads_safely
from etl.columns.intrinsics import copy_block, equal_bytes, load_byte, load_long, load_word, store_byte, store_long, store_word
from etl.columns.kernels import kernel, kernel_function
from etl.columns.text_layout import INLINE

_BLOCK = np.uint64(16)

_FIRST_EIGHT = np.array([(1 << 8 * min(length, 8)) - 1 for length in range(INLINE + 1)] + [0xFFFFFFFF], np.uint64)
"""Mask for a text's first 8 bytes in its view, by length; the last is for texts longer than `INLINE`."""

_NEXT_FOUR = np.array([(1 << 8 * max(length - 8, 0)) - 1 for length in range(INLINE + 1)] + [0], np.uint64)
"""Mask for the next 4 bytes."""


@kernel_function
def put_view(view: Any, source: Any, length: Any, offset: Any) -> None:
    """Write the view of ``length`` bytes at ``source``, which is at ``offset`` in the buffer."""
    kind = min(length, np.int64(INLINE + 1))
    if length > 0 and loads_safely(source):
        eight, four = load_long(source), np.uint64(load_word(source + np.uint64(8)))
    else:
        eight = load_bytes(source, min(length, np.int64(8)))
        four = load_bytes(source + np.uint64(8), min(max(length - np.int64(8), np.int64(0)), np.int64(4)))
    four &= _NEXT_FOUR[kind]
    if length > INLINE:
        four = np.uint64(offset)
    store_word(view, np.uint32(length))
    store_long(view + np.uint64(4), eight & _FIRST_EIGHT[kind])
    store_word(view + np.uint64(12), np.uint32(four))


@kernel_function
def _is_null(bits: Any, row: Any) -> Any:
    """Whether a row's bit in a validity bitmap is 0; an address of 0 means that there is no bitmap."""
    return bits != np.uint64(0) and (load_byte(bits + np.uint64(row >> 3)) >> np.uint8(row & 7)) & np.uint8(1) == np.uint8(0)


@kernel
def locate_views(views: Any, buffers: Any, bits: Any, first: Any, address: Any, length: Any) -> None:
    """Addresses and lengths of a view column's texts, from row ``first`` on; ``buffers``: addresses of its data buffers."""
    for row in range(address.shape[0]):
        view = views + np.uint64(16) * np.uint64(first + row)
        size = np.int64(np.int32(load_word(view)))
        if _is_null(bits, first + row):
            address[row], length[row] = view, -1
        elif size <= INLINE:
            address[row], length[row] = view + np.uint64(4), size
        else:
            offset = np.uint64(load_word(view + np.uint64(12)))
            address[row], length[row] = buffers[load_word(view + np.uint64(8))] + offset, size


@kernel
def locate_strings(offsets: Any, base: Any, bits: Any, first: Any, address: Any, length: Any) -> None:
    """Addresses and lengths of a string column's texts; ``offsets`` (int32 or int64) are relative to ``base``."""
    for row in range(address.shape[0]):
        begin = np.int64(offsets[row])
        address[row] = base + np.uint64(begin)
        length[row] = np.int64(-1) if _is_null(bits, first + row) else np.int64(offsets[row + 1]) - begin


@kernel
def span_views(starts: Any, ends: Any, address: Any, base: Any, empty_is_null: Any, views: Any, valid: Any) -> Any:
    """Write the view of a span of each text, and to ``valid`` (uint8) whether it is not null; returns the number of nulls."""
    nulls = 0
    for row in range(starts.shape[0]):
        length = np.int64(ends[row]) - np.int64(starts[row])
        absent = starts[row] < 0 or (empty_is_null and length == 0)
        valid[row] = not absent
        nulls += absent
        source = address[row] + np.uint64(max(starts[row], 0))
        put_view(views + np.uint64(16) * np.uint64(row), source, np.int64(0) if absent else length, source - base)
    return nulls


@kernel
def choose_views(views: Any, bits: Any, first: Any, rows: Any, target: Any, valid: Any) -> Any:
    """Copy the views of ``rows`` (int64[m], relative to row ``first``) to ``target``, and their validity to the bitmap ``valid``
    (uint8, all 0); returns the number of nulls."""
    nulls = 0
    for n in range(rows.shape[0]):
        index = first + rows[n]
        copy_block(target + _BLOCK * np.uint64(n), views + _BLOCK * np.uint64(index))
        if _is_null(bits, index):
            nulls += 1
        else:
            valid[n >> 3] |= np.uint8(1 << (n & 7))
    return nulls


@kernel
def text_ends(length: Any, offsets: Any) -> Any:
    """Lengths → offsets of the concatenated texts; returns the number of nulls."""
    total, nulls = np.int64(0), 0
    offsets[0] = 0
    for row in range(length.shape[0]):
        nulls += length[row] < 0
        total += max(length[row], np.int64(0))
        offsets[row + 1] = total
    return nulls


@kernel
def gather(address: Any, length: Any, target: Any) -> None:
    """Concatenate the texts at ``target``; up to 16 bytes after them may be overwritten."""
    for row in range(length.shape[0]):
        source, left = address[row], length[row]
        while left >= 16:
            copy_block(target, source)
            source, target, left = source + _BLOCK, target + _BLOCK, left - 16
        if left <= 0:
            continue
        if loads_safely(source):
            copy_block(target, source)
        else:
            for at in range(left):
                store_byte(target + np.uint64(at), load_byte(source + np.uint64(at)))
        target += np.uint64(left)


@kernel
def contain_byte(address: Any, length: Any, byte: Any, found: Any) -> None:
    """Write to ``found`` (uint8[n]) whether each text contains a byte; 0 for null."""
    for row in range(address.shape[0]):
        source, left = address[row], length[row]
        found[row] = 0
        while left >= 16:
            if equal_bytes(source, byte) != 0:
                found[row] = 1
                break
            source, left = source + _BLOCK, left - 16
        if left < 16:
            for at in range(left):
                if load_byte(source + np.uint64(at)) == byte:
                    found[row] = 1
