"""The kernel that reads JSON strings with escapes (RFC 8259, section 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import load_byte, store_byte
from parsers.json.scan import BACKSLASH, ONE, QUOTE

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
def _string(at: Any, end: Any, target: Any) -> Any:
    """Write the characters between the quotes; behind them, or 0 when it is not well formed."""
    wrong = np.uint64(0)
    while at < end:
        byte = load_byte(at)
        if byte < np.uint8(0x20) or byte == QUOTE:
            return wrong
        at += ONE
        if byte != BACKSLASH:
            store_byte(target, byte)
            target += ONE
            continue
        if at >= end:
            return wrong
        byte = load_byte(at)
        at += ONE
        if byte != _SMALL_U:
            if _PLAIN[byte] == 0:
                return wrong
            store_byte(target, _PLAIN[byte])
            target += ONE
            continue
        code = _unit(at, end)
        if code < 0:
            return wrong
        at += _FOUR
        if 0xD800 <= code < 0xE000:
            low = _low(at, end) if code < 0xDC00 else _NONE
            at += _SIX if low >= 0 else np.uint64(0)
            code = (0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)) if low >= 0 else _REPLACEMENT
        target = _put(target, code)
    return target


@kernel
def unescape(address: Any, length: Any, out: Any, behind: Any, odd: Any) -> None:
    """JSON strings with their quotes → their characters, end to end at ``out``, which has room for all of them.

    ``behind`` (int64[n]) says where each ends; those that are no well-formed strings are ``odd`` (bool[n]) and empty.
    """
    target = out
    for row in range(address.shape[0]):
        size = length[row]
        end = address[row] + np.uint64(max(size, np.int64(1)) - 1)
        reached = np.uint64(0)
        if size >= 2 and load_byte(address[row]) == QUOTE and load_byte(end) == QUOTE:
            reached = _string(address[row] + ONE, end, target)
        odd[row] = reached == 0
        target = target if reached == 0 else reached
        behind[row] = np.int64(target - out)
