"""Values in JSON texts, written as texts: strings without their quotes and escapes (RFC 8259, section 7), arrays and objects
without white space between their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import copy_block_for_json, load_byte, store_byte, trailing_zeros
from etl.columns.kernels import part
from parsers.json.lenient_tokens import BACKSLASH, BLOCK, ONE, QUOTE, SPACES
from parsers.json.strict_tokens import WRONG

_FOUR, _SIX = np.uint64(4), np.uint64(6)
_SMALL_U = np.uint8(ord("u"))
_NONE = np.int64(-1)
_REPLACEMENT = np.int64(0xFFFD)

_PLAIN = np.zeros(256, np.uint8)
"""What an escape of one letter stands for; 0: there is none."""
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _PLAIN[_letter] = _meant

_DIGIT = np.array([int(chr(one), 16) if chr(one) in "0123456789abcdefABCDEF" else -1 for one in range(256)], np.int64)


@part
def _unit(at: Any, end: Any) -> Any:
    """The number that four digits behind ``\\u`` write, or -1."""
    if end - at < _FOUR:
        return _NONE
    value = np.int64(0)
    for place in range(4):
        digit = _DIGIT[load_byte(at + np.uint64(place))]
        if digit < 0:
            return _NONE
        value = value << 4 | digit
    return value


@part
def _low(at: Any, end: Any) -> Any:
    """The second half of a surrogate pair whose escape is at ``at``, or -1."""
    if end - at < _SIX or load_byte(at) != BACKSLASH or load_byte(at + ONE) != _SMALL_U:
        return _NONE
    value = _unit(at + np.uint64(2), end)
    return value if 0xDC00 <= value < 0xE000 else _NONE


@part
def _put(target: Any, code: Any) -> Any:
    """Write a character as UTF-8; behind it."""
    if code < 0x80:
        store_byte(target, np.uint8(code))
        return target + ONE
    more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    lead = 0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0
    store_byte(target, np.uint8(lead | code >> 6 * more))
    for place in range(1, more + 1):
        store_byte(target + np.uint64(place), np.uint8(0x80 | (code >> 6 * (more - place) & 0x3F)))
    return target + np.uint64(more + 1)


@part
def _escape(at: Any, end: Any, target: Any) -> Any:
    """Write the character of the escape whose letter is at ``at``; behind both, or 0 when it is not well formed."""
    if at >= end:
        return WRONG, target
    byte = load_byte(at)
    at += ONE
    if byte != _SMALL_U:
        store_byte(target, _PLAIN[byte])
        return at if _PLAIN[byte] != 0 else WRONG, target + ONE
    code = _unit(at, end)
    if code < 0:
        return WRONG, target
    at += _FOUR
    if 0xD800 <= code < 0xE000:
        low = _low(at, end) if code < 0xDC00 else _NONE
        at += _SIX if low >= 0 else np.uint64(0)
        code = (0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)) if low >= 0 else _REPLACEMENT
    return at, _put(target, code)


@part
def unescaped(at: Any, end: Any, target: Any) -> Any:
    """Write the characters of the string whose first is at ``at``; behind its quote (`WRONG`: it is none) and behind them.

    Nothing at ``end`` is read, and 16 bytes more than there are may be written.
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


@part
def compact(at: Any, end: Any, target: Any) -> Any:
    """Copy a value without the white space between its parts; behind the copy, or `WRONG` when it has an escape."""
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
