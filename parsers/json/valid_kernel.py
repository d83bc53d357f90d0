"""The kernel that tells whether texts are JSON objects (RFC 8259), for columns of which nothing needs Arrow's reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import copy_block_for_json, load_byte, trailing_zeros
from parsers.json.scan import BACKSLASH, BLOCK, CLOSE, CLOSE_LIST, COLON, COMMA, ONE, OPEN, OPEN_LIST, QUOTE, space_end

MOST_DEEP = 1024
"""Objects and arrays inside each other; deeper texts are left to others."""

_WRONG = np.uint64(0)
_FIRST_NAME, _NAME, _FIRST_VALUE, _VALUE, _BEHIND = range(5)
"""What may come next: a name or the object's end, a name, a value or the array's end, a value, a comma or an end."""

_ZERO, _NINE, _POINT, _PLUS, _MINUS = (np.uint8(ord(one)) for one in "09.+-")
_SMALL_E, _SMALL_U, _CASE = np.uint8(ord("e")), np.uint8(ord("u")), np.uint8(0x20)

_WORDS = np.array([int.from_bytes(word[:4], "big") for word in (b"true", b"null", b"false")], np.uint32)
"""The first four letters of what is no number and has no quotes."""

_HEX = np.array([chr(one) in "0123456789abcdefABCDEF" for one in range(256)])
_ESCAPED = np.array([chr(one) in '"\\/bfnrt' for one in range(256)])


@part
def _string(at: Any, end: Any, scratch: Any) -> Any:
    """Behind the string whose first character is at ``at``, or `_WRONG`."""
    while at < end:
        if end - at >= BLOCK:
            special = copy_block_for_json(scratch, at)
            if special == 0:
                at += BLOCK
                continue
            at += np.uint64(trailing_zeros(special))
        byte = load_byte(at)
        if byte == QUOTE:
            return at + ONE
        if byte < np.uint8(0x20):
            return _WRONG
        at = _escape(at + ONE, end) if byte == BACKSLASH else at + ONE
        if at == _WRONG:
            return _WRONG
    return _WRONG


@part
def _escape(at: Any, end: Any) -> Any:
    """Behind the escape whose letter is at ``at``, or `_WRONG`."""
    if at >= end:
        return _WRONG
    if _ESCAPED[load_byte(at)]:
        return at + ONE
    if load_byte(at) != _SMALL_U or end - at < np.uint64(5):
        return _WRONG
    good = True
    for digit in range(1, 5):
        good &= _HEX[load_byte(at + np.uint64(digit))]
    return at + np.uint64(5) if good else _WRONG


@part
def _is(at: Any, end: Any, byte: Any) -> Any:
    return at < end and load_byte(at) == byte


@part
def _digits(at: Any, end: Any) -> Any:
    """Behind one or more digits, or `_WRONG`."""
    start = at
    while at < end and _ZERO <= load_byte(at) <= _NINE:
        at += ONE
    return at if at > start else _WRONG


@part
def _number(at: Any, end: Any) -> Any:
    """Behind a number, or `_WRONG`."""
    if _is(at, end, _MINUS):
        at += ONE
    at = at + ONE if _is(at, end, _ZERO) else _digits(at, end)
    if at != _WRONG and _is(at, end, _POINT):
        at = _digits(at + ONE, end)
    if at != _WRONG and at < end and load_byte(at) | _CASE == _SMALL_E:
        at += ONE
        at = _digits(at + ONE if _is(at, end, _PLUS) or _is(at, end, _MINUS) else at, end)
    return at


@part
def _scalar(at: Any, end: Any) -> Any:
    """Behind a number, a truth value or null, or `_WRONG`."""
    if load_byte(at) <= _NINE:
        return _number(at, end)
    word = np.uint32(0)
    for place in range(4):
        word = word << np.uint32(8) | np.uint32(load_byte(at + np.uint64(place)) if at + np.uint64(place) < end else 0)
    if word in (_WORDS[0], _WORDS[1]):
        return at + np.uint64(4)
    return at + np.uint64(5) if word == _WORDS[2] and _is(at + np.uint64(4), end, _SMALL_E) else _WRONG


@part
def _name(at: Any, end: Any, scratch: Any) -> Any:
    """Behind a name and its colon, or `_WRONG`."""
    behind = _string(at + ONE, end, scratch) if load_byte(at) == QUOTE else _WRONG
    if behind == _WRONG:
        return _WRONG
    behind = space_end(behind, end)
    return behind + ONE if _is(behind, end, COLON) else _WRONG


@part
def _object(at: Any, end: Any, lists: Any, scratch: Any) -> Any:
    """Whether a text is an object and nothing else; ``lists`` says of the open brackets which are square."""
    level, state = 0, _FIRST_NAME
    lists[0] = False
    at += ONE
    while True:
        at = space_end(at, end)
        if at >= end:
            return False
        byte = load_byte(at)
        may_end = state in (_FIRST_NAME, _FIRST_VALUE, _BEHIND)
        if may_end and byte == (CLOSE_LIST if lists[level] else CLOSE):
            at, level, state = at + ONE, level - 1, _BEHIND
            if level < 0:
                return at == end
        elif state == _BEHIND:
            if byte != COMMA:
                return False
            at, state = at + ONE, _VALUE if lists[level] else _NAME
        elif state in (_FIRST_NAME, _NAME):
            at, state = _name(at, end, scratch), _VALUE
        elif byte in (OPEN, OPEN_LIST):
            level += 1
            if level == MOST_DEEP:
                return False
            lists[level] = byte == OPEN_LIST
            at, state = at + ONE, _FIRST_VALUE if byte == OPEN_LIST else _FIRST_NAME
        else:
            at, state = _string(at + ONE, end, scratch) if byte == QUOTE else _scalar(at, end), _BEHIND
        if at == _WRONG:
            return False


@kernel
def mark_invalid(address: Any, length: Any, lists: Any, scratch: Any, refused: Any) -> None:
    """Rows that are no JSON objects, or are nested very deeply, become ``refused`` (bool[n]); those that are stay so.

    ``lists`` is bool[`MOST_DEEP`], ``scratch`` the address of 16 bytes.
    """
    for row in range(address.shape[0]):
        if not refused[row]:
            good = length[row] > 1 and load_byte(address[row]) == OPEN
            refused[row] = not (good and _object(address[row], address[row] + np.uint64(length[row]), lists, scratch))
