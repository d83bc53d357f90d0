"""The loop that cuts attributes of LEEF into pairs: ``src=10.0.0.1^usrName=root``, with the delimiter of each event."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte, store_long
from etl.columns.kernels import kernel, part
from parsers.common.pipe_header_kernel import LINE_BREAK, READ

TAB = np.uint32(0x09)
"""A delimiter: the bytes of its character, the first one lowest."""

_ZERO, _ONE, _TWO, _NONE, _EIGHT = np.uint8(0), np.uint64(1), np.uint64(2), np.uint64(0), np.uint64(8)
_PIPE, _EQUALS, _BACKSLASH, _DIGIT = np.uint8(0x7C), np.uint8(0x3D), np.uint8(0x5C), np.uint8(0x30)
_SPACE, _FEED, _RETURN = np.uint8(0x20), np.uint8(0x0A), np.uint8(0x0D)
_SECOND, _X, _T = np.uint8(ord("2")), np.uint8(ord("x")), np.uint8(ord("t"))
_MOST = np.uint64(7)
"""Bytes of the longest delimiter field, ``0xFFFF``, and the pipe behind it."""

_LOW = np.uint32(0xFF)


@part
def _hex(at: Any, end: Any) -> Any:
    """The number that 1 to 4 hexadecimal digits write, 0 for none."""
    code = np.uint32(0)
    if at == end or end > at + np.uint64(4):
        return code
    while at < end:
        byte = load_byte(at)
        digit = np.uint32(byte - _DIGIT)
        if digit > np.uint32(9):
            letter = np.uint32((byte | np.uint8(0x20)) - np.uint8(0x61))
            if letter > np.uint32(5):
                return np.uint32(0)
            digit = letter + np.uint32(10)
        code = (code << np.uint32(4)) | digit
        at += _ONE
    return code


@part
def _character(code: Any) -> Any:
    """The bytes of a character of the first plane; 0 for none."""
    if code < np.uint32(0x80):
        return code
    tail = np.uint32(0x80) | (code & np.uint32(0x3F))
    if code < np.uint32(0x800):
        return np.uint32(0xC0) | (code >> np.uint32(6)) | (tail << np.uint32(8))
    middle = np.uint32(0x80) | ((code >> np.uint32(6)) & np.uint32(0x3F))
    return np.uint32(0xE0) | (code >> np.uint32(12)) | (middle << np.uint32(8)) | (tail << np.uint32(16))


@part
def _size(delimiter: Any) -> Any:
    """Bytes of a delimiter."""
    size = _ONE
    while delimiter > _LOW:
        delimiter >>= np.uint32(8)
        size += _ONE
    return size


@part
def _one_character(at: Any, end: Any) -> Any:
    """The bytes of a text that is one character, 0 for another."""
    lead = load_byte(at)
    size = _ONE
    for bound in (np.uint8(0xC0), np.uint8(0xE0), np.uint8(0xF0)):
        size += np.uint64(lead >= bound)
    if end != at + size:
        return np.uint32(0)
    found = np.uint32(0)
    for place in range(size):
        found |= np.uint32(load_byte(at + np.uint64(place))) << np.uint32(8 * place)
    return found


@part
def _delimiter_of(at: Any, end: Any) -> Any:
    """What a delimiter field says: nothing (a tab), one character, ``x5E``, ``0x5E``, a backslash and ``t``; 0: it is none."""
    if at == end:
        return TAB
    one = _one_character(at, end)
    if one != np.uint32(0):
        return one
    if load_byte(at) == _BACKSLASH and load_byte(at + _ONE) == _T and end == at + _TWO:
        return TAB
    if load_byte(at) == _DIGIT:
        at += _ONE
    if load_byte(at) | np.uint8(0x20) == _X:
        return _character(_hex(at + _ONE, end))
    return np.uint32(0)


@part
def _delimiter(at: Any, end: Any) -> Any:
    """The delimiter field at the beginning of a body: the delimiter, and where the attributes begin."""
    behind = at
    while behind < min(end, at + _MOST):
        if load_byte(behind) == _PIPE:
            found = _delimiter_of(at, behind)
            return (found, behind + _ONE) if found != np.uint32(0) else (TAB, at)
        behind += _ONE
    return TAB, at


@part
def _stands(at: Any, end: Any, delimiter: Any, size: Any) -> Any:
    """Whether the delimiter stands here."""
    if end < at + size:
        return False
    same = True
    for place in range(size):
        same &= load_byte(at + np.uint64(place)) == np.uint8((delimiter >> np.uint32(8 * place)) & _LOW)
    return same


@part
def _attribute_end(at: Any, end: Any, delimiter: Any, size: Any) -> Any:
    """Where an attribute ends, where its ``=`` stands (0: nowhere), and whether a line breaks in it."""
    equals, first = _NONE, np.uint8(delimiter & _LOW)
    while at < end:
        byte = load_byte(at)
        if byte == first and _stands(at, end, delimiter, size):
            return at, equals, False
        if byte == _EQUALS and equals == _NONE:
            equals = at
        if byte in (_FEED, _RETURN):
            return at, equals, True
        at += _ONE
    return end, equals, False


@part
def _put(found: Any, pair: Any, key: Any, key_end: Any, value: Any, value_length: Any) -> None:
    while key < key_end and load_byte(key) <= _SPACE:
        key += _ONE
    while key < key_end and load_byte(key_end - _ONE) <= _SPACE:
        key_end -= _ONE
    place = np.uint64(pair) * _EIGHT
    store_long(found.key_address + place, key)
    store_long(found.key_length + place, key_end - key)
    store_long(found.value_address + place, value)
    store_long(found.value_length + place, np.uint64(value_length))
    store_byte(found.escaped + np.uint64(pair), _ZERO)


@part
def _cut(found: Any, at: Any, end: Any, delimiter: Any, pair: Any) -> Any:
    """The attributes of one event, from number ``pair`` on; the number behind them, and what became of it."""
    size = _size(delimiter)
    while at < end:
        behind, equals, breaks = _attribute_end(at, end, delimiter, size)
        if breaks:
            return pair, LINE_BREAK
        if equals != _NONE:
            _put(found, pair, at, equals, equals + _ONE, np.int64(behind - equals) - 1)
            pair += 1
        elif behind > at:
            _put(found, pair, at, behind, at, np.int64(-1))
            pair += 1
        at = behind + size
    return pair, READ


@kernel
def cut_attributes(version: Any, body: Any, body_end: Any, given: Any, found: Any, bounds: Any, outcomes: Any) -> None:
    """Bodies → pairs; rows that have failed already, or fail here, have none. ``given`` is a delimiter for all, 0 for none."""
    pair = np.int64(0)
    bounds[0] = 0
    for row in range(body.shape[0]):
        before, outcome = pair, outcomes[row]
        if outcome == READ:
            delimiter, at = TAB, body[row]
            if load_byte(version[row]) == _SECOND:
                delimiter, at = _delimiter(at, body_end[row])
            if given != np.uint32(0):
                delimiter = given
            pair, outcome = _cut(found, at, body_end[row], delimiter, pair)
        if outcome != READ:
            pair = before
        outcomes[row], bounds[row + 1] = outcome, pair
