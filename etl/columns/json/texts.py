"""Writes texts as JSON strings: copies blocks of 16 bytes and finds characters to escape with the same instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.digits import EIGHT, ONE, ZERO
from etl.columns.intrinsics import (
    copy_block,
    copy_block_for_json,
    load_byte,
    load_long,
    load_word,
    store_byte,
    trailing_zeros,
)
from etl.columns.json.cells import BLOCK, ROOM, field
from etl.columns.json.escapes import MAX_ESCAPE, write_escape
from etl.columns.json.table import DATA, DETAIL, END, FIRST, KIND, RAW, STRINGS, VALUES, VIEWS
from etl.columns.kernels import kernel_function

INLINE = np.uint64(12)


@kernel_function
def text_of(column: Any, buffers: Any, row: Any) -> Any:
    """The address and length of a text, and the end of the memory that may be read."""
    kind, row_index = field(column, KIND), field(column, FIRST) + row
    if kind == VIEWS:
        view = field(column, VALUES) + row_index * BLOCK
        length = np.uint64(load_word(view))
        if length <= INLINE:
            return view + np.uint64(4), length, field(column, END)
        buffer = buffers + (field(column, DETAIL) + np.uint64(load_word(view + EIGHT))) * BLOCK
        return load_long(buffer) + np.uint64(load_word(view + np.uint64(12))), length, load_long(buffer + EIGHT)
    if kind == STRINGS:
        offsets = field(column, VALUES) + row_index * np.uint64(4)
        start, end = np.uint64(load_word(offsets)), np.uint64(load_word(offsets + np.uint64(4)))
    else:
        offsets = field(column, VALUES) + row_index * EIGHT
        start, end = load_long(offsets), load_long(offsets + EIGHT)
    return field(column, DATA) + start, end - start, field(column, END)


@kernel_function
def text_value(column: Any, buffers: Any, row: Any, out: Any, limit: Any) -> Any:
    """Write a text, escaped unless it is JSON already; returns the address after it, 0 if there is no room."""
    source, length, end = text_of(column, buffers, row)
    if out + length + ROOM > limit:
        return ZERO
    if field(column, RAW) != ZERO:
        return _copy(source, length, end, out)
    return _escape_text(source, length, end, out, limit)


@kernel_function
def _copy(source: Any, length: Any, end: Any, out: Any) -> Any:
    text_end = source + length
    while source < text_end:
        if source + BLOCK <= end:
            copy_block(out, source)
            step = min(BLOCK, text_end - source)
        else:
            store_byte(out, load_byte(source))
            step = ONE
        source += step
        out += step
    return out


@kernel_function
def _escape_text(source: Any, length: Any, end: Any, out: Any, limit: Any) -> Any:
    """Write a text with escapes; returns the address after it, 0 if there is no room for the escapes."""
    text_end = source + length
    while source < text_end:
        left = text_end - source
        if source + BLOCK <= end:
            special = copy_block_for_json(out, source)
            if left < BLOCK:
                special &= np.uint32((ONE << left) - ONE)
            clean = np.uint64(trailing_zeros(special)) if special != np.uint32(0) else min(left, BLOCK)
        else:
            byte = load_byte(source)
            store_byte(out, byte)
            special = np.uint32(byte < 0x20 or byte == 0x22 or byte == 0x5C)
            clean = ONE - np.uint64(special)
        out += clean
        source += clean
        if special != np.uint32(0):
            if out + (text_end - source) + MAX_ESCAPE + ROOM > limit:
                return ZERO
            out = write_escape(out, load_byte(source))
            source += ONE
    return out
