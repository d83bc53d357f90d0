"""Kernel functions that copy values out of JSON texts: strings without quotes and escapes (RFC 8259, section 7), arrays and
objects without white space between their parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import copy_block_for_json, load_byte, store_byte, trailing_zeros
from etl.columns.kernels import kernel_function
from parsers.common.unicode_escapes import read_escape, write_utf8
from parsers.json.lenient_tokens import BACKSLASH, BLOCK, ONE, QUOTE, SPACES
from parsers.json.strict_tokens import WRONG

_TWO = np.uint64(2)
_SMALL_U = np.uint8(ord("u"))

_UNESCAPED = np.zeros(256, np.uint8)
"""Letter of an escape → its character; 0: there is no such escape."""
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _UNESCAPED[_letter] = _meant


@kernel_function
def _escape(at: Any, end: Any, target: Any) -> Any:
    """Write the character of the escape whose letter is at ``at``. Returns the ends of the escape and of what was written; the
    first is `WRONG` if the escape is invalid.
    """
    if at >= end:
        return WRONG, target
    byte = load_byte(at)
    at += ONE
    if byte != _SMALL_U:
        store_byte(target, _UNESCAPED[byte])
        return at if _UNESCAPED[byte] != 0 else WRONG, target + ONE
    code, after = read_escape(at - _TWO, end)
    if code < 0:
        return WRONG, target
    return after, write_utf8(target, code)


@kernel_function
def unescape(at: Any, end: Any, target: Any) -> Any:
    """Write the characters of the string whose first character is at ``at``.

    Returns the ends of the string (after its quote) and of what was written; the first is `WRONG` if the string is invalid.
    Reads only bytes before ``end``; may overwrite 16 bytes after what it wrote.
    """
    while at < end:
        if end - at >= BLOCK:
            special = copy_block_for_json(target, at)
            plain = BLOCK if special == 0 else np.uint64(trailing_zeros(special))
            at, target = at + plain, target + plain
            if special == 0:
                continue
        byte = load_byte(at)
        at += ONE
        if byte == QUOTE:
            return at, target
        if byte < np.uint8(0x20):
            break
        if byte == BACKSLASH:
            at, target = _escape(at, end, target)
            if at == WRONG:
                break
        else:
            store_byte(target, byte)
            target += ONE
    return WRONG, target


@kernel_function
def compact(at: Any, end: Any, target: Any) -> Any:
    """Copy a value without the white space between its parts. Returns the end of the copy, `WRONG` if it has an escape."""
    inside = False
    while at < end:
        byte = load_byte(at)
        if byte == BACKSLASH:
            return WRONG
        inside ^= byte == QUOTE
        if inside or byte not in SPACES:
            store_byte(target, byte)
            target += ONE
        at += ONE
    return target
