"""Parts of kernels over JSON that check RFC 8259. Each returns where its token ends, or `WRONG`.

A text ends at ``end``; nothing after it is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import json_specials, load_byte, trailing_zeros
from etl.columns.kernels import kernel_function
from parsers.json.lenient_tokens import BACKSLASH, ONE, QUOTE

WRONG = np.uint64(0)

_WIDE = np.uint64(32)
_LAST = np.int64(31)
_CONTROL = np.uint8(0x20)
"""The first byte that a string may hold as it is."""

_ZERO, _NINE, _POINT, _PLUS, _MINUS = (np.uint8(ord(one)) for one in "09.+-")
_SMALL_E, _SMALL_U, _CASE = np.uint8(ord("e")), np.uint8(ord("u")), np.uint8(0x20)

_WORDS = np.array([int.from_bytes(word[:4], "big") for word in (b"true", b"null", b"false")], np.uint32)
"""The first four letters of what is not a number and has no quotes."""

_HEX = np.array([chr(one) in "0123456789abcdefABCDEF" for one in range(256)])
_ESCAPED = np.array([chr(one) in '"\\/bfnrt' for one in range(256)])


@kernel_function
def string_end(at: Any, end: Any) -> Any:
    """After the string whose first character is at ``at``."""
    while end - at >= _WIDE:
        special, beyond = json_specials(at), np.uint64(0)
        while special != 0:
            index = trailing_zeros(special)
            here = at + np.uint64(index)
            byte = load_byte(here)
            if byte == QUOTE:
                return here + ONE
            if byte != BACKSLASH or escape_end(here + ONE, end) == WRONG:
                return WRONG
            special = np.uint32(special & ~(3 << index))  # the letter of an escape is none of its own
            beyond = np.uint64(index == _LAST)
        at += _WIDE + beyond
    return _short_string_end(at, end)


@kernel_function
def _short_string_end(at: Any, end: Any) -> Any:
    while at < end:
        byte = load_byte(at)
        if byte == QUOTE:
            return at + ONE
        if byte < _CONTROL:
            return WRONG
        at = escape_end(at + ONE, end) if byte == BACKSLASH else at + ONE
        if at == WRONG:
            return WRONG
    return WRONG


@kernel_function
def escape_end(at: Any, end: Any) -> Any:
    """After the escape whose letter is at ``at``."""
    if at >= end:
        return WRONG
    if _ESCAPED[load_byte(at)]:
        return at + ONE
    if load_byte(at) != _SMALL_U or end - at < np.uint64(5):
        return WRONG
    good = True
    for digit in range(1, 5):
        good &= _HEX[load_byte(at + np.uint64(digit))]
    return at + np.uint64(5) if good else WRONG


@kernel_function
def name_end(at: Any, end: Any) -> Any:
    """After the name whose first character is at ``at``, and whether it is written without an escape."""
    if end - at >= _WIDE:
        special = json_specials(at)
        if special != 0:
            here = at + np.uint64(trailing_zeros(special))
            if load_byte(here) == QUOTE:
                return here + ONE, True
    after = string_end(at, end)
    plain = True
    here = at
    while here < after:
        plain &= load_byte(here) != BACKSLASH
        here += ONE
    return after, plain


@kernel_function
def scalar_end(at: Any, end: Any) -> Any:
    """After a number, a truth value or null."""
    if load_byte(at) <= _NINE:
        return _number_end(at, end)
    word = np.uint32(0)
    for index in range(4):
        word = word << np.uint32(8) | np.uint32(load_byte(at + np.uint64(index)) if at + np.uint64(index) < end else 0)
    if word in (_WORDS[0], _WORDS[1]):
        return at + np.uint64(4)
    return at + np.uint64(5) if word == _WORDS[2] and _is_byte(at + np.uint64(4), end, _SMALL_E) else WRONG


@kernel_function
def _is_byte(at: Any, end: Any, byte: Any) -> Any:
    return at < end and load_byte(at) == byte


@kernel_function
def _digits_end(at: Any, end: Any) -> Any:
    """After one or more digits."""
    start = at
    while at < end and _ZERO <= load_byte(at) <= _NINE:
        at += ONE
    return at if at > start else WRONG


@kernel_function
def _number_end(at: Any, end: Any) -> Any:
    if _is_byte(at, end, _MINUS):
        at += ONE
    at = at + ONE if _is_byte(at, end, _ZERO) else _digits_end(at, end)
    if at != WRONG and _is_byte(at, end, _POINT):
        at = _digits_end(at + ONE, end)
    if at != WRONG and at < end and load_byte(at) | _CASE == _SMALL_E:
        at += ONE
        at = _digits_end(at + ONE if _is_byte(at, end, _PLUS) or _is_byte(at, end, _MINUS) else at, end)
    return at
