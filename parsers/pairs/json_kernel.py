"""The kernel that writes pairs as JSON objects: ``{"key":"value","alone":true,"twice":["a","b"]}``."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import loads_safely
from etl.columns.intrinsics import copy_block, copy_block_for_json, load_byte, store_byte, store_word, trailing_zeros
from etl.columns.json.escapes import write_escape
from etl.columns.kernels import kernel, kernel_function

_ONE, _TWO, _FOUR, _BLOCK = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(16)
_QUOTE, _COMMA, _BACKSLASH = np.uint8(0x22), np.uint8(0x2C), np.uint8(0x5C)
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = np.uint8(0x7B), np.uint8(0x7D), np.uint8(0x5B), np.uint8(0x5D)
_WORD_TRUE = np.uint32(int.from_bytes(b"true", "little"))
_BLANK = np.uint8(0x20)


@kernel_function
def _put_byte(out: Any, byte: Any) -> Any:
    store_byte(out, byte)
    return out + _ONE


@kernel_function
def _put_escaped(out: Any, source: Any, left: Any) -> Any:
    """A text inside quotes, 16 bytes at a time up to what must be escaped."""
    while left > 0:
        if not loads_safely(source):
            byte = load_byte(source)
            out = write_escape(out, byte) if byte < _BLANK or byte in (_QUOTE, _BACKSLASH) else _put_byte(out, byte)
            source, left = source + _ONE, left - 1
            continue
        special = copy_block_for_json(out, source)
        step = np.int64(16) if special == np.uint32(0) else trailing_zeros(special)
        step = min(step, left)
        out, source, left = out + np.uint64(step), source + np.uint64(step), left - step
        if step < 16 and left > 0:
            out = write_escape(out, load_byte(source))
            source, left = source + _ONE, left - 1
    return out


@kernel_function
def _put_value(out: Any, source: Any, length: Any) -> Any:
    if length < 0:
        store_word(out, _WORD_TRUE)
        return out + _FOUR
    return _put_byte(_put_escaped(_put_byte(out, _QUOTE), source, length), _QUOTE)


@kernel_function
def _put_list(out: Any, pair: Any, next_pairs: Any, address: Any, length: Any) -> Any:
    mark = _OPEN_LIST
    while pair >= 0:
        out = _put_value(_put_byte(out, mark), address[pair], length[pair])
        mark, pair = _COMMA, next_pairs[pair]
    return _put_byte(out, _CLOSE_LIST)


@kernel_function
def _put_name(out: Any, source: Any, left: Any) -> Any:
    while left > 0:
        copy_block(out, source)
        step = min(left, np.int64(16))
        out, source, left = out + np.uint64(step), source + _BLOCK, left - step
    return out


@kernel
def write_objects(
    bounds: Any,
    slots: Any,
    next_pairs: Any,
    address: Any,
    length: Any,
    declared: Any,
    names: Any,
    ends: Any,
    start: Any,
    offsets: Any,
    valid: Any,
) -> None:
    """One object a row, of the pairs whose slot is ``declared`` or more; ``valid`` (uint8) says which rows have any."""
    out, literals = start, np.uint64(names.ctypes.data)
    offsets[0] = 0
    for row in range(bounds.shape[0] - 1):
        mark = _OPEN
        for pair in range(bounds[row], bounds[row + 1]):
            slot = slots[pair] - declared
            if slot < 0:
                continue
            out = _put_name(_put_byte(out, mark), literals + np.uint64(ends[slot]), ends[slot + 1] - ends[slot])
            mark = _COMMA
            single = next_pairs[pair] < 0
            out = _put_value(out, address[pair], length[pair]) if single else _put_list(out, pair, next_pairs, address, length)
        if mark == _COMMA:
            out = _put_byte(out, _CLOSE)
        valid[row] = mark == _COMMA
        offsets[row + 1] = np.int64(out - start)
