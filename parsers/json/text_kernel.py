"""The kernel that makes a column of texts of values in JSON texts: strings without their quotes and escapes (RFC 8259,
section 7), other values as they are written, without white space between their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import copy_block_for_json, load_byte, store_byte, trailing_zeros
from parsers.json.scan import BACKSLASH, BLOCK, ONE, OPEN, OPEN_LIST, QUOTE, SPACES

_FOUR, _SIX = np.uint64(4), np.uint64(6)
_SMALL_U = np.uint8(ord("u"))
_NONE = np.int64(-1)
_REPLACEMENT = np.int64(0xFFFD)
_NULL = np.uint8(ord("n"))
_WRONG = np.uint64(0)

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
        return _WRONG, target
    byte = load_byte(at)
    at += ONE
    if byte != _SMALL_U:
        store_byte(target, _PLAIN[byte])
        return at if _PLAIN[byte] != 0 else _WRONG, target + ONE
    code = _unit(at, end)
    if code < 0:
        return _WRONG, target
    at += _FOUR
    if 0xD800 <= code < 0xE000:
        low = _low(at, end) if code < 0xDC00 else _NONE
        at += _SIX if low >= 0 else np.uint64(0)
        code = (0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)) if low >= 0 else _REPLACEMENT
    return at, _put(target, code)


@part
def _string(at: Any, end: Any, behind: Any, target: Any) -> Any:
    """Write the characters from ``at`` to the quote at ``end``; behind them, or 0 when it is not well formed.

    Up to ``behind`` may be read, and 16 bytes more than there are may be written.
    """
    while at < end:
        if behind - at >= BLOCK:
            special = copy_block_for_json(target, at)
            plain = BLOCK if special == 0 else np.uint64(trailing_zeros(special))
            at, target = at + plain, target + plain
            if special == 0:
                continue
            if at >= end:
                break
        byte = load_byte(at)
        if byte < np.uint8(0x20) or byte == QUOTE:
            return _WRONG
        at += ONE
        if byte == BACKSLASH:
            at, target = _escape(at, end, target)
            if at == _WRONG:
                return _WRONG
        else:
            store_byte(target, byte)
            target += ONE
    return target


@part
def _written(at: Any, end: Any, target: Any) -> Any:
    """Copy a value without the white space between its parts; behind it, or 0 when it has an escape."""
    nested, inside = load_byte(at) in (OPEN, OPEN_LIST), False
    while at < end:
        byte = load_byte(at)
        if byte == BACKSLASH:
            return _WRONG
        inside ^= byte == QUOTE
        if inside or not nested or byte not in SPACES:
            store_byte(target, byte)
            target += ONE
        at += ONE
    return target


@kernel
def gather_values(address: Any, length: Any, starts: Any, ends: Any, out: Any, behind: Any, valid: Any, hard: Any) -> Any:
    """Values at ``starts`` to ``ends`` (int32[n], relative to each text, -1 for none) as texts, end to end at ``out``.

    ``out`` has room for all of them and 16 bytes more. ``behind`` (int32[n]) says where each ends, ``valid`` (uint8[n])
    which there are; those that need Python are null, and their rows go to ``hard`` (int64[n]). Returns how many are
    null, and how many of these are hard.
    """
    target, nulls, many = out, 0, 0
    for row in range(starts.shape[0]):
        at, end = address[row] + np.uint64(max(starts[row], 0)), address[row] + np.uint64(max(ends[row], 0))
        reached = _WRONG
        if starts[row] >= 0 and at < end and load_byte(at) != _NULL:
            if load_byte(at) != QUOTE:
                reached = _written(at, end, target)
            elif end - at >= np.uint64(2) and load_byte(end - ONE) == QUOTE:
                reached = _string(at + ONE, end - ONE, address[row] + np.uint64(length[row]), target)
            if reached == _WRONG:
                hard[many] = row
                many += 1
        nulls += reached == _WRONG
        valid[row] = reached != _WRONG
        target = target if reached == _WRONG else reached
        behind[row] = np.int32(target - out)
    return nulls, many
